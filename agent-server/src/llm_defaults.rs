//! The model of agents that name none: what `LLM_*` variables say (F1-LLM-36), of the process and of the initialisation.
//!
//! The key itself (`LLM_API_KEY`) is not put into a conversation: model clients look it up with every start, and only for the
//! address it belongs to. So it is never stored, and a new one counts for old conversations too.

use std::collections::BTreeMap;

use openhands_protocol::{LlmConfig, llm_variables::InvalidVariable};
use serde_json::{Map, Value, json};

/// The variables' prefix.
const PREFIX: &str = "LLM_";
/// Members that go to the address that was configured with them, and nowhere else.
const SECRETS: [&str; 4] = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token", "extra_headers"];
/// Members that say where calls go.
const PLACES: [&str; 4] = ["base_url", "aws_bedrock_runtime_endpoint", "ollama_base_url", "provider_connection_id"];

/// Members of a model's configuration; empty unless a variable names the model.
#[derive(Clone, Default)]
pub struct LlmDefaults(Map<String, Value>);

impl std::fmt::Debug for LlmDefaults {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl LlmDefaults {
    /// What the variables say.
    ///
    /// # Errors
    /// [`InvalidVariable`] names the first one whose value does not suit.
    pub fn of(variables: &BTreeMap<String, String>) -> Result<Self, InvalidVariable> {
        let named = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut members = LlmConfig::members_from_variables(PREFIX, named)?;
        members.remove("api_key");
        // Without a model the others describe none.
        let is_model = members.contains_key("model");
        Ok(Self(if is_model { members } else { Map::new() }))
    }

    /// The configuration as a client would send it, without a key; `None` when no variable names a model.
    #[must_use]
    pub fn config(&self) -> Option<Value> {
        (!self.0.is_empty()).then(|| self.with(Map::new()).into())
    }

    /// Completes a start request: its agent's `llm`, or that of its `agent_settings`, where it is absent or names no model.
    pub fn complete(&self, request: &mut Map<String, Value>) {
        if self.0.is_empty() {
            return;
        }
        for place in ["agent", "agent_settings"] {
            let Some(Value::Object(agent)) = request.get_mut(place) else { continue };
            // Other kinds of agents ask no model themselves.
            let kind = agent.get("kind").or_else(|| agent.get("agent_kind")).and_then(Value::as_str);
            if !matches!(kind, None | Some("Agent" | "openhands" | "llm")) {
                continue;
            }
            let given = match agent.get("llm") {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(given)) => given.clone(),
                Some(_) => continue,
            };
            let is_named = given.get("model").is_some_and(|model| !model.is_null());
            if !is_named {
                agent.insert("llm".to_owned(), self.with(given).into());
            }
        }
    }

    fn with(&self, given: Map<String, Value>) -> Map<String, Value> {
        let mut whole = self.0.clone();
        let is_elsewhere = PLACES
            .iter()
            .any(|name| given.get(*name).is_some_and(|place| !place.is_null() && Some(place) != self.0.get(*name)));
        if is_elsewhere {
            whole.retain(|name, _| !SECRETS.contains(&name.as_str()));
        }
        whole.entry("usage_id").or_insert_with(|| json!("agent"));
        whole.extend(given.into_iter().filter(|(_, value)| !value.is_null()));
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults(variables: &[(&str, &str)]) -> LlmDefaults {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        LlmDefaults::of(&variables.collect()).unwrap()
    }

    fn completed(defaults: &LlmDefaults, request: Value) -> Value {
        let Value::Object(mut request) = request else { panic!("an object") };
        defaults.complete(&mut request);
        request.into()
    }

    const VARIABLES: [(&str, &str); 5] = [
        ("LLM_MODEL", "openai/m"),
        ("LLM_BASE_URL", "http://proxy/v1"),
        ("LLM_API_KEY", "k"),
        ("LLM_NUM_RETRIES", "2"),
        ("LLM_EXTRA_HEADERS", r#"{"x-key": "s"}"#),
    ];

    #[test]
    fn agents_without_a_model_get_the_variables_one() {
        let defaults = defaults(&VARIABLES);
        let whole = json!({
            "model": "openai/m", "base_url": "http://proxy/v1", "num_retries": 2, "extra_headers": {"x-key": "s"},
            "usage_id": "agent",
        });
        assert_eq!(defaults.config(), Some(whole.clone()));
        for agent in [json!({}), json!({"llm": null}), json!({"llm": {"model": null}})] {
            assert_eq!(completed(&defaults, json!({"agent": agent}))["agent"]["llm"], whole);
        }
        assert_eq!(completed(&defaults, json!({"agent_settings": {}}))["agent_settings"]["llm"], whole);
        let kept = json!({"agent": {"llm": {"model": "other", "base_url": "http://other"}}});
        assert_eq!(completed(&defaults, kept.clone()), kept);
        let other = json!({"agent": {"kind": "ACPAgent"}});
        assert_eq!(completed(&defaults, other.clone()), other);
    }

    #[test]
    fn what_is_secret_stays_with_its_address() {
        let elsewhere = json!({"agent": {"llm": {"base_url": "http://mine", "num_retries": 9}}});
        assert_eq!(
            completed(&defaults(&VARIABLES), elsewhere)["agent"]["llm"],
            json!({"model": "openai/m", "base_url": "http://mine", "num_retries": 9, "usage_id": "agent"})
        );
        let connected = json!({"agent": {"llm": {"provider_connection_id": "c"}}});
        let connected = completed(&defaults(&VARIABLES), connected)["agent"]["llm"].clone();
        assert_eq!(connected.get("extra_headers"), None, "the connection has an address of its own");
        let nothing = json!({"agent": {"llm": {"base_url": null}}});
        let nothing = completed(&defaults(&VARIABLES), nothing)["agent"]["llm"].clone();
        assert_eq!(nothing["extra_headers"], json!({"x-key": "s"}), "a null is not given");
        assert!(!format!("{:?}", defaults(&VARIABLES)).contains("x-key"));
    }

    #[test]
    fn without_a_model_the_variables_describe_none() {
        assert_eq!(defaults(&[("LLM_API_KEY", "k"), ("LLM_NUM_RETRIES", "2")]).config(), None);
        let variables = [("LLM_NUM_RETRIES".to_owned(), "many".to_owned())].into();
        let error = LlmDefaults::of(&variables).unwrap_err().to_string();
        assert!(error.contains("LLM_NUM_RETRIES") && !error.contains("many"), "{error}");
    }
}
