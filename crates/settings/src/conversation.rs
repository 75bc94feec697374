//! The settings that new conversations start from, with the reference's names, defaults and limits.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{error::Invalid, lenient};

const VERSION: u64 = 1;
/// Smallest share of a CPU that a container may have.
const LEAST_CPUS: f64 = 0.01;

/// Conversation settings whose members all have a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConversationSettings {
    /// The version of this form.
    pub schema_version: u64,
    /// Most model calls of a run.
    pub max_iterations: u32,
    /// Whether risky actions wait for a yes.
    pub confirmation_mode: bool,
    /// `llm`, `none` or null.
    pub security_analyzer: Option<String>,
    /// `local`, `worktree` or `docker`.
    pub default_runtime: String,
    /// `default_branch`, `head` or `ref`.
    pub worktree_base: String,
    /// What a work tree branches from with `ref`.
    pub worktree_base_ref: Option<String>,
    /// Beginning of a work tree's branch.
    pub worktree_branch_prefix: String,
    /// Memory of a container, such as `4g`.
    pub container_memory: Option<String>,
    /// CPUs of a container.
    pub container_cpus: Option<f64>,
    /// Whether a container runs a browser.
    pub container_browser: bool,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Default for ConversationSettings {
    fn default() -> Self {
        Self {
            schema_version: VERSION,
            max_iterations: 500,
            confirmation_mode: false,
            security_analyzer: Some("llm".to_owned()),
            default_runtime: "local".to_owned(),
            worktree_base: "default_branch".to_owned(),
            worktree_base_ref: None,
            worktree_branch_prefix: "openhands/".to_owned(),
            container_memory: None,
            container_cpus: None,
            container_browser: true,
            extra: Map::new(),
        }
    }
}

impl ConversationSettings {
    /// Reads settings; absent members get their defaults.
    ///
    /// # Errors
    /// [`Invalid`] names the first member that is wrong.
    pub fn read(json: &Value) -> Result<Self, Invalid> {
        if !json.is_object() {
            return Err(Invalid::new("", "expected an object"));
        }
        let mut settings: Self = lenient::read(json)?;
        if settings.schema_version > VERSION {
            return Err(Invalid::new("schema_version", "written by a newer version"));
        }
        settings.schema_version = VERSION;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), Invalid> {
        let words: [(&str, Option<&str>, &[&str]); 3] = [
            ("security_analyzer", self.security_analyzer.as_deref(), &["llm", "none"]),
            ("default_runtime", Some(&self.default_runtime), &["local", "worktree", "docker"]),
            ("worktree_base", Some(&self.worktree_base), &["default_branch", "head", "ref"]),
        ];
        for (member, value, allowed) in words {
            if value.is_some_and(|value| !allowed.contains(&value)) {
                return Err(Invalid::new(member, format!("must be one of {}", allowed.join(", "))));
            }
        }
        let base_ref = self.worktree_base_ref.as_deref();
        for (member, fits, reason) in [
            ("max_iterations", self.max_iterations > 0, "must be 1 or more"),
            ("worktree_base_ref", base_ref.is_none_or(is_ref), "must be the name of a branch, tag or commit"),
            (
                "worktree_base_ref",
                self.worktree_base != "ref" || base_ref.is_some(),
                "must be given for worktree_base ref",
            ),
            (
                "worktree_branch_prefix",
                self.worktree_branch_prefix.is_empty() || is_ref(&self.worktree_branch_prefix),
                "must be the beginning of a branch name",
            ),
            (
                "container_memory",
                self.container_memory.as_deref().is_none_or(is_amount),
                "must be an amount such as 512m or 4g",
            ),
            ("container_cpus", self.container_cpus.is_none_or(|cpus| cpus >= LEAST_CPUS), "must be 0.01 or more"),
        ] {
            if !fits {
                return Err(Invalid::new(member, reason));
            }
        }
        Ok(())
    }
}

/// `^[A-Za-z0-9][A-Za-z0-9._/-]*$`
fn is_ref(text: &str) -> bool {
    text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'-'))
}

/// Digits, perhaps with a fraction, perhaps a space, perhaps a unit (`k`, `m`, `g`, `t`, `p`, then `i`, then `b`).
fn is_amount(text: &str) -> bool {
    let rest = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    if rest.len() == text.len() {
        return false;
    }
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let after = fraction.trim_start_matches(|letter: char| letter.is_ascii_digit());
            if after.len() == fraction.len() {
                return false;
            }
            after
        }
        None => rest,
    };
    let mut rest = rest.strip_prefix(' ').unwrap_or(rest);
    for unit in ["kmgtp", "i", "b"] {
        let has = rest.chars().next().is_some_and(|letter| unit.contains(letter.to_ascii_lowercase()));
        if has {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_checked_and_filled_in() {
        assert_eq!(ConversationSettings::read(&json!({})).unwrap(), ConversationSettings::default());
        for (json, expected) in [
            (json!({"confirmation_mode": null}), "confirmation_mode: expected a boolean"),
            (json!({"max_iterations": 0}), "max_iterations: must be 1 or more"),
            (json!({"security_analyzer": "x"}), "security_analyzer: must be one of llm, none"),
            (json!({"worktree_base": "ref"}), "worktree_base_ref: must be given for worktree_base ref"),
            (json!({"worktree_base_ref": "-x"}), "worktree_base_ref: must be the name of a branch, tag or commit"),
            (json!({"container_cpus": 0.001}), "container_cpus: must be 0.01 or more"),
            (json!({"schema_version": 2}), "schema_version: written by a newer version"),
        ] {
            assert_eq!(ConversationSettings::read(&json).unwrap_err().to_string(), expected);
        }
        for (text, fits) in [
            ("4g", true),
            ("1.5 GiB", true),
            ("512", true),
            ("10kb", true),
            ("", false),
            ("g", false),
            ("4x", false),
            ("1.", false),
        ] {
            assert_eq!(is_amount(text), fits, "{text}");
        }
    }
}
