//! From a specification to the request that starts the agent: the one place where resource types become wire types.

use openhands_crds::{
    ConversationSpec,
    model::{AgentSpec, ConfirmationKind, ConfirmationPolicy, Llm, ReasoningEffort, Risk},
    reference::SecretKeyRef,
};
use openhands_protocol::secret::SecretText;
use serde_json::{Map, Value, json};

use crate::pod::WORKING_DIR;

/// Tools of an agent that names none.
const DEFAULT_TOOLS: [&str; 3] = ["terminal", "file_editor", "task_tracker"];

/// An agent that cannot be started.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidAgent {
    /// A Secret's value is missing.
    #[error("{0}: the value is missing")]
    Missing(&'static str),
    /// The raw agent is no agent.
    #[error("spec.agent.rawSecretRef: {0}")]
    Raw(String),
}

/// Finds the value of a reference.
pub type Look<'a> = &'a dyn Fn(&SecretKeyRef) -> Option<SecretText>;

/// The body of `POST /api/conversations`; `None` without an agent.
///
/// # Errors
/// See [`InvalidAgent`].
pub fn start_body(
    spec: &ConversationSpec,
    conversation_id: &str,
    look: Look<'_>,
) -> Result<Option<Value>, InvalidAgent> {
    let Some(agent) = &spec.agent else { return Ok(None) };
    let mut body = json!({
        "conversation_id": conversation_id,
        "agent": agent_json(agent, look)?,
        "workspace": {"kind": "LocalWorkspace", "working_dir": WORKING_DIR},
        // With a new pod the model and its key come again, and win over what a tool may have made of the stored ones.
        "delivers_llm": true,
        // Nobody asked for a title, and it would cost a call of the model.
        "autotitle": false,
    });
    let mut set = |name: &str, value: Value| {
        if let Some(members) = body.as_object_mut() {
            members.insert(name.to_owned(), value);
        }
    };
    if let Some(message) = &spec.initial_message {
        let text = match (&message.text, &message.secret_ref) {
            (Some(text), _) => text.clone(),
            (None, Some(reference)) => {
                look(reference).ok_or(InvalidAgent::Missing("spec.initialMessage.secretRef"))?.expose().to_owned()
            }
            (None, None) => String::new(),
        };
        set("initial_message", json!({"role": "user", "content": [{"type": "text", "text": text}], "run": true}));
    }
    if let Some(most) = spec.max_iterations {
        set("max_iterations", most.into());
    }
    if let Some(policy) = &agent.confirmation_policy {
        set("confirmation_policy", confirmation(policy));
    }
    if !spec.secrets.is_empty() {
        let mut secrets = Map::new();
        for secret in &spec.secrets {
            let value = look(&secret.secret_key_ref).ok_or(InvalidAgent::Missing("spec.secrets"))?;
            let mut source = json!({"kind": "StaticSecret", "value": value.expose()});
            if let (Some(text), Some(members)) = (&secret.description, source.as_object_mut()) {
                members.insert("description".to_owned(), text.as_str().into());
            }
            secrets.insert(secret.name.clone(), source);
        }
        set("secrets", Value::Object(secrets));
    }
    Ok(Some(body))
}

fn agent_json(agent: &AgentSpec, look: Look<'_>) -> Result<Value, InvalidAgent> {
    if let Some(reference) = &agent.raw_secret_ref {
        let text = look(reference).ok_or(InvalidAgent::Missing("spec.agent.rawSecretRef"))?;
        let raw: Value = serde_json::from_str(text.expose())
            // The parser's own words could quote the secret.
            .map_err(|error| {
                InvalidAgent::Raw(format!("no JSON (line {}, column {})", error.line(), error.column()))
            })?;
        openhands_protocol::AgentSpec::from_json(raw.clone())
            .map_err(|_| InvalidAgent::Raw("the JSON is not an agent: `llm` with a `model` is needed".to_owned()))?;
        return Ok(raw);
    }
    let llm = agent.llm.as_ref().ok_or(InvalidAgent::Missing("spec.agent.llm"))?;
    let tools: Vec<Value> = match &agent.tools {
        Some(tools) => tools.iter().map(|tool| json!({"name": tool.name, "params": {}})).collect(),
        None => DEFAULT_TOOLS.iter().map(|name| json!({"name": name, "params": {}})).collect(),
    };
    Ok(json!({
        "kind": "Agent",
        "llm": llm_json(llm, look)?,
        "tools": tools,
        "include_default_tools": ["FinishTool", "ThinkTool"],
    }))
}

fn llm_json(llm: &Llm, look: Look<'_>) -> Result<Value, InvalidAgent> {
    let Llm {
        model,
        base_url,
        api_key_secret_ref,
        api_version,
        temperature,
        top_p,
        max_input_tokens,
        max_output_tokens,
        num_retries,
        timeout_seconds,
        reasoning_effort,
        stream,
        input_cost_per_million_tokens,
        output_cost_per_million_tokens,
        extra,
    } = llm;
    let mut members = Map::new();
    for (name, text) in extra {
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
        members.insert(name.clone(), value);
    }
    // Named fields win over `extra`.
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            members.insert(name.to_owned(), value);
        }
    };
    let key = match api_key_secret_ref {
        Some(reference) => Some(look(reference).ok_or(InvalidAgent::Missing("spec.agent.llm.apiKeySecretRef"))?),
        None => None,
    };
    set("model", Some(model.as_str().into()));
    set("usage_id", Some("agent".into()));
    set("api_key", key.map(|key| key.expose().into()));
    set("base_url", base_url.as_deref().map(Value::from));
    set("api_version", api_version.as_deref().map(Value::from));
    set("temperature", temperature.map(Value::from));
    set("top_p", top_p.map(Value::from));
    set("max_input_tokens", max_input_tokens.map(Value::from));
    set("max_output_tokens", max_output_tokens.map(Value::from));
    set("num_retries", num_retries.map(Value::from));
    set("timeout", timeout_seconds.map(Value::from));
    set("reasoning_effort", reasoning_effort.map(|effort| effort_word(effort).into()));
    set("stream", stream.map(Value::from));
    set("input_cost_per_token", input_cost_per_million_tokens.map(|cost| (cost / 1e6).into()));
    set("output_cost_per_token", output_cost_per_million_tokens.map(|cost| (cost / 1e6).into()));
    Ok(Value::Object(members))
}

const fn effort_word(effort: ReasoningEffort) -> &'static str {
    match effort {
        ReasoningEffort::None => "none",
        ReasoningEffort::Low => "low",
        ReasoningEffort::Medium => "medium",
        ReasoningEffort::High => "high",
        ReasoningEffort::Xhigh => "xhigh",
    }
}

fn confirmation(policy: &ConfirmationPolicy) -> Value {
    match policy.kind {
        ConfirmationKind::NeverConfirm => json!({"kind": "NeverConfirm"}),
        ConfirmationKind::AlwaysConfirm => json!({"kind": "AlwaysConfirm"}),
        ConfirmationKind::ConfirmRisky => {
            let threshold = match policy.threshold.unwrap_or(Risk::High) {
                Risk::Low => "LOW",
                Risk::Medium => "MEDIUM",
                Risk::High => "HIGH",
            };
            json!({"kind": "ConfirmRisky", "threshold": threshold})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(spec: Value, look: Look<'_>) -> Result<Option<Value>, InvalidAgent> {
        start_body(&serde_json::from_value(spec).unwrap(), "id", look)
    }

    #[test]
    fn a_specification_becomes_a_request() {
        let spec = json!({
            "sandbox": {"poolRef": {"name": "p"}},
            "agent": {
                "llm": {
                    "model": "openai/m", "baseUrl": "http://llm/v1", "apiKeySecretRef": {"name": "llm", "key": "k"},
                    "timeoutSeconds": 60, "inputCostPerMillionTokens": 2.0, "reasoningEffort": "low",
                    "extra": {"top_k": "40", "custom_tokenizer": "plain"}
                },
                "confirmationPolicy": {"kind": "ConfirmRisky", "threshold": "MEDIUM"}
            },
            "initialMessage": {"text": "hello"},
            "maxIterations": 7,
            "secrets": [{"name": "TOKEN", "secretKeyRef": {"name": "t", "key": "k"}, "description": "for the forge"}]
        });
        let body = body(spec, &|reference| Some(SecretText::new(format!("of-{}", reference.name)))).unwrap().unwrap();
        assert_eq!(
            body,
            json!({
                "conversation_id": "id",
                "agent": {
                    "kind": "Agent",
                    "llm": {
                        "custom_tokenizer": "plain", "top_k": 40, "model": "openai/m", "usage_id": "agent",
                        "api_key": "of-llm", "base_url": "http://llm/v1", "timeout": 60, "reasoning_effort": "low",
                        "input_cost_per_token": 2e-6
                    },
                    "tools": [{"name": "terminal", "params": {}}, {"name": "file_editor", "params": {}}, {"name": "task_tracker", "params": {}}],
                    "include_default_tools": ["FinishTool", "ThinkTool"]
                },
                "workspace": {"kind": "LocalWorkspace", "working_dir": "/workspace/project"},
                "delivers_llm": true,
                "autotitle": false,
                "initial_message": {"role": "user", "content": [{"type": "text", "text": "hello"}], "run": true},
                "max_iterations": 7,
                "confirmation_policy": {"kind": "ConfirmRisky", "threshold": "MEDIUM"},
                "secrets": {"TOKEN": {"kind": "StaticSecret", "value": "of-t", "description": "for the forge"}}
            })
        );
    }

    #[test]
    fn a_raw_agent_is_taken_as_it_is_and_never_quoted() {
        let spec = json!({"sandbox": {"poolRef": {"name": "p"}}, "agent": {"rawSecretRef": {"name": "a", "key": "k"}}});
        let with = |text: &'static str| body(spec.clone(), &|_| Some(SecretText::new(text)));
        let raw = with(r#"{"llm": {"model": "m", "api_key": "s"}, "mine": 1}"#).unwrap().unwrap();
        assert_eq!(raw["agent"], json!({"llm": {"model": "m", "api_key": "s"}, "mine": 1}));
        for bad in ["hunter2", r#"{"llm": 5, "password": "hunter2"}"#] {
            let error = with(bad).unwrap_err().to_string();
            assert!(error.contains("rawSecretRef") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn without_an_agent_there_is_nothing_to_start() {
        assert_eq!(body(json!({"sandbox": {"poolRef": {"name": "p"}}}), &|_| None), Ok(None));
    }
}
