//! The committed list of differences that are meant, each with its reason. What no rule covers is a finding, and so is a rule
//! that covers nothing any more.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Difference;

/// Differences of one kind. In `case` and `at` a `*` stands for any text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The conversations it holds for.
    pub case: String,
    /// The places.
    pub at: String,
    /// Only with this value in ours (`(absent)` for none); any when left out.
    #[serde(default, deserialize_with = "even_null")]
    pub ours: Option<Value>,
    /// Only with this value in theirs; any when left out.
    #[serde(default, deserialize_with = "even_null")]
    pub theirs: Option<Value>,
    /// Why we differ.
    pub why: String,
}

fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The list, and which of it was needed.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    used: Vec<bool>,
}

impl Rules {
    /// Reads the list.
    ///
    /// # Errors
    /// When it cannot be read, or a rule has no reason.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        Self::of(serde_json::from_str(&text).with_context(|| file.display().to_string())?)
    }

    fn of(rules: Vec<Rule>) -> Result<Self> {
        if let Some(rule) = rules.iter().find(|rule| rule.why.trim().is_empty()) {
            anyhow::bail!("the rule for {} at {} says no reason", rule.case, rule.at);
        }
        let used = vec![false; rules.len()];
        Ok(Self { rules, used })
    }

    /// Whether the list has this difference.
    pub fn covers(&mut self, case: &str, difference: &Difference) -> bool {
        let mut is_covered = false;
        for (rule, used) in self.rules.iter().zip(&mut self.used) {
            let holds = |wanted: &Option<Value>, value: &Value| wanted.as_ref().is_none_or(|wanted| wanted == value);
            if matches(&rule.case, case)
                && matches(&rule.at, &difference.at)
                && holds(&rule.ours, &difference.ours)
                && holds(&rule.theirs, &difference.theirs)
            {
                (*used, is_covered) = (true, true);
            }
        }
        is_covered
    }

    /// Rules that covered nothing.
    pub fn idle(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().zip(&self.used).filter(|(_, used)| !**used).map(|(rule, _)| rule)
    }
}

/// Whether a text has the form of a pattern.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((begin, rest)) => text
            .strip_prefix(begin)
            .is_some_and(|tail| (0..=tail.len()).any(|i| tail.get(i..).is_some_and(|tail| matches(rest, tail)))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_cover_what_they_say_and_tell_when_they_are_idle() {
        let list = json!([
            {"case": "*", "at": "/body/messages/*/name", "ours": "(absent)", "why": "w"},
            {"case": "claude-*", "at": "/headers/x", "why": "w"},
        ]);
        let mut rules = Rules::of(serde_json::from_value(list).unwrap()).unwrap();
        let difference = |at: &str, ours: &str| Difference { at: at.into(), ours: ours.into(), theirs: json!(1) };
        assert!(rules.covers("any", &difference("/body/messages/3/name", "(absent)")));
        assert!(!rules.covers("any", &difference("/body/messages/3/name", "n")));
        assert!(!rules.covers("any", &difference("/headers/x", "n")));
        let null: Rule = serde_json::from_value(json!({"case": "", "at": "", "ours": null, "why": "w"})).unwrap();
        assert_eq!((null.ours, null.theirs), (Some(Value::Null), None));
        assert_eq!(rules.idle().map(|rule| rule.case.as_str()).collect::<Vec<_>>(), ["claude-*"]);
        assert!(Rules::of(serde_json::from_value(json!([{"case": "", "at": "", "why": " "}])).unwrap()).is_err());
    }
}
