//! An agent's description: a typed view over JSON that is kept whole.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{llm::LlmConfig, secret};

/// A tool the agent wants, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolRef {
    /// The registered name, such as `terminal`.
    pub name: String,
    /// Parameters of the tool.
    #[serde(default)]
    pub params: Map<String, Value>,
}

/// The members this product reads. All others are kept in `extra`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentMembers {
    /// The model.
    pub llm: LlmConfig,
    /// The tools.
    #[serde(default)]
    pub tools: Vec<ToolRef>,
    /// MCP servers by name.
    #[serde(default)]
    pub mcp_config: Map<String, Value>,
    /// Keeps only tools whose name matches.
    #[serde(default)]
    pub filter_tools_regex: Option<String>,
    /// Class names of built-in tools that are always there.
    #[serde(default = "default_tools")]
    pub include_default_tools: Vec<String>,
    /// Skills and additions to the prompt.
    #[serde(default)]
    pub agent_context: Option<Value>,
    /// A system prompt that replaces the template.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// The template's name.
    #[serde(default = "system_prompt_filename")]
    pub system_prompt_filename: String,
    /// The security policy's template; empty switches it off.
    #[serde(default = "security_policy_filename")]
    pub security_policy_filename: String,
    /// Values for the template.
    #[serde(default)]
    pub system_prompt_kwargs: Map<String, Value>,
    /// The condenser.
    #[serde(default)]
    pub condenser: Option<Value>,
    /// The critic.
    #[serde(default)]
    pub critic: Option<Value>,
    /// How many tools run at once.
    #[serde(default = "one")]
    pub tool_concurrency_limit: u32,
    /// A persona for the prompt.
    #[serde(default)]
    pub persona: Option<String>,
    /// The class name.
    #[serde(default = "agent_kind")]
    pub kind: String,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

fn default_tools() -> Vec<String> {
    vec!["FinishTool".to_owned(), "ThinkTool".to_owned()]
}
fn system_prompt_filename() -> String {
    "system_prompt.j2".to_owned()
}
fn security_policy_filename() -> String {
    "security_policy.j2".to_owned()
}
const fn one() -> u32 {
    1
}
fn agent_kind() -> String {
    "Agent".to_owned()
}

/// An agent: what was sent, with defaults filled in, secrets in clear in memory only.
#[derive(Clone, PartialEq)]
pub struct AgentSpec {
    json: Value,
    members: AgentMembers,
}

/// How secrets of an agent are shown.
pub enum Expose<'a> {
    /// As null (REST).
    Null,
    /// As `**********` (sockets).
    Masked,
    /// In clear (disk without a key never, tests, replay to a trusted peer).
    Plain,
    /// As what the function makes of them (disk with a key); `None` writes null.
    With(&'a dyn Fn(&str) -> Option<String>),
}

/// JSON that is no agent; names the member.
#[derive(Debug, thiserror::Error)]
#[error("invalid agent: {0}")]
pub struct InvalidAgent(#[from] serde_json::Error);

impl AgentSpec {
    /// Reads an agent and fills in defaults.
    ///
    /// # Errors
    /// When a member has the wrong type, or `llm` is missing.
    pub fn from_json(mut json: Value) -> Result<Self, InvalidAgent> {
        // The mask is never a value.
        secret::map_llm_secrets(&mut json, &mut |value| (value != secret::MASK).then(|| value.to_owned()));
        if let Some(llm) = json.get_mut("llm") {
            LlmConfig::complete(llm);
        }
        let members: AgentMembers = serde_json::from_value(json.clone())?;
        // The normal form has every default; secrets are masked in it, so they are taken over from what was sent.
        let mut normal = serde_json::to_value(&members)?;
        restore_secrets(&json, &mut normal);
        Ok(Self { json: normal, members })
    }

    /// The members this product reads.
    #[must_use]
    pub const fn members(&self) -> &AgentMembers {
        &self.members
    }

    /// The same agent with another model. A summarising condenser that had the old model's configuration, but for its usage
    /// id, follows.
    ///
    /// # Errors
    /// Never for what this process made; the type of a member would have to change on its way through JSON.
    pub fn with_llm(&self, llm: &LlmConfig) -> Result<Self, InvalidAgent> {
        let mut json = self.json.clone();
        if let Some(place) = json.pointer_mut("/condenser/llm")
            && self.condenser_follows()
        {
            put_llm(place, llm);
        }
        if let Some(place) = json.get_mut("llm") {
            *place = llm.plain_json();
        }
        Self::from_json(json)
    }

    /// The same agent with another model for everything: its condensers summarise with it too, each under its own usage id.
    ///
    /// # Errors
    /// As [`AgentSpec::with_llm`].
    pub fn with_one_llm(&self, llm: &LlmConfig) -> Result<Self, InvalidAgent> {
        let mut json = self.json.clone();
        let members = json.pointer("/condenser/condensers").and_then(Value::as_array).map_or(0, Vec::len);
        let members = (0..members).map(|index| format!("/condenser/condensers/{index}/llm"));
        for place in std::iter::once("/condenser/llm".to_owned()).chain(members) {
            if let Some(place) = json.pointer_mut(&place) {
                put_llm(place, llm);
            }
        }
        if let Some(place) = json.get_mut("llm") {
            *place = llm.plain_json();
        }
        Self::from_json(json)
    }

    /// Whether the condenser summarises with the agent's own model.
    fn condenser_follows(&self) -> bool {
        let Some(condenser) = self.json.get("condenser") else { return false };
        if condenser.get("kind").and_then(Value::as_str) != Some("LLMSummarizingCondenser") {
            return false;
        }
        let llm = condenser.get("llm").cloned().map(serde_json::from_value::<LlmConfig>);
        let Some(Ok(mut llm)) = llm else { return false };
        llm.usage_id.clone_from(&self.members.llm.usage_id);
        llm == self.members.llm
    }

    /// The values of all secret members, at any depth: what outputs must not show.
    #[must_use]
    pub fn secret_values(&self) -> Vec<secret::SecretText> {
        let mut found = Vec::new();
        secret::map_llm_secrets(&mut self.json.clone(), &mut |value| {
            found.push(secret::SecretText::new(value));
            None
        });
        found
    }

    /// The whole agent with its secrets shown as asked.
    #[must_use]
    pub fn json(&self, expose: &Expose<'_>) -> Value {
        let mut json = self.json.clone();
        match expose {
            Expose::Plain => {}
            Expose::Null => secret::map_llm_secrets(&mut json, &mut |_| None),
            Expose::Masked => secret::map_llm_secrets(&mut json, &mut |_| Some(secret::MASK.to_owned())),
            Expose::With(show) => secret::map_llm_secrets(&mut json, &mut |value| show(value)),
        }
        json
    }
}

impl fmt::Debug for AgentSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.members.fmt(f)
    }
}

/// Copies secret members from `from` to the same places of `to`.
fn restore_secrets(from: &Value, to: &mut Value) {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            for (name, value) in from {
                let Some(target) = to.get_mut(name) else { continue };
                if secret::LLM_SECRET_MEMBERS.contains(&name.as_str()) && value.is_string() {
                    target.clone_from(value);
                } else {
                    restore_secrets(value, target);
                }
            }
        }
        (Value::Array(from), Value::Array(to)) => {
            from.iter().zip(to).for_each(|(from, to)| restore_secrets(from, to));
        }
        _ => {}
    }
}

/// Puts a model in place of another one that keeps its usage id.
fn put_llm(place: &mut Value, llm: &LlmConfig) {
    let usage_id = place.get("usage_id").cloned();
    *place = llm.plain_json();
    if let (Some(usage_id), Some(members)) = (usage_id, place.as_object_mut()) {
        members.insert("usage_id".to_owned(), usage_id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_filled_in_and_unknown_members_kept() {
        let agent = AgentSpec::from_json(json!({"llm": {"model": "openai/m", "api_key": "k", "new": 1}, "mine": true}))
            .unwrap();
        let json = agent.json(&Expose::Plain);
        assert_eq!(json["llm"]["api_key"], "k");
        assert_eq!(json["llm"]["new"], 1);
        assert_eq!(json["mine"], true);
        assert_eq!(json["include_default_tools"], json!(["FinishTool", "ThinkTool"]));
        assert_eq!(agent.json(&Expose::Null)["llm"]["api_key"], Value::Null);
        assert_eq!(agent.json(&Expose::Masked)["llm"]["api_key"], secret::MASK);
        assert!(!format!("{agent:?}").contains("\"k\""));
        assert_eq!(agent.secret_values(), [secret::SecretText::new("k")]);
    }

    #[test]
    fn a_mask_is_no_key() {
        let agent = AgentSpec::from_json(json!({"llm": {"model": "m", "api_key": secret::MASK}})).unwrap();
        assert_eq!(agent.members().llm.api_key, None);
        assert_eq!(agent.json(&Expose::Plain)["llm"]["api_key"], Value::Null);
    }

    #[test]
    fn another_model_takes_the_condenser_along_when_it_had_the_old_one() {
        let llm = json!({"model": "openai/a", "api_key": "k-a", "usage_id": "agent", "mine": 1});
        let agent = |condenser: Value| {
            AgentSpec::from_json(json!({"llm": llm, "condenser": condenser, "persona": "p"})).unwrap()
        };
        let new = LlmConfig {
            model: "openai/b".to_owned(),
            api_key: Some(secret::SecretText::new("k-b")),
            usage_id: "profile:b".to_owned(),
            ..LlmConfig::default()
        };
        let mut same = llm.clone();
        same["usage_id"] = json!("condenser");
        let summarising = |llm: &Value| json!({"kind": "LLMSummarizingCondenser", "max_size": 9, "llm": llm});
        let switched = agent(summarising(&same)).with_llm(&new).unwrap();
        assert_eq!(switched.members().llm, new);
        assert_eq!(switched.members().persona.as_deref(), Some("p"));
        let json = switched.json(&Expose::Plain);
        let condenser = &json["condenser"];
        let found = (&condenser["llm"]["model"], &condenser["llm"]["api_key"], &condenser["llm"]["usage_id"]);
        assert_eq!(found, (&json!("openai/b"), &json!("k-b"), &json!("condenser")));
        assert_eq!((&condenser["max_size"], &json["llm"].get("mine")), (&json!(9), &None));
        let mut own = same.clone();
        own["model"] = json!("openai/c");
        for condenser in [summarising(&own), json!({"kind": "Other", "llm": same}), Value::Null] {
            let kept = agent(condenser.clone()).json(&Expose::Plain)["condenser"].clone();
            let switched = agent(condenser).with_llm(&new).unwrap().json(&Expose::Plain)["condenser"].clone();
            assert_eq!(switched, kept);
        }
    }

    #[test]
    fn an_agent_without_a_model_is_refused_by_name() {
        let error = AgentSpec::from_json(json!({"tools": []})).unwrap_err().to_string();
        assert!(error.contains("llm"), "{error}");
    }
}
