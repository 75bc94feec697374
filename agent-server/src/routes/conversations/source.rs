//! Where the agent of a start request comes from: itself, or settings that describe one. Keys arrive in clear, as tokens of this
//! server, or not at all because a provider connection holds them; behind this step they are in clear, in memory only.

use std::sync::Arc;

use openhands_protocol::{LlmConfig, secret::SecretText};
use openhands_secrets::{Binding, open_llms};
use openhands_settings::{SettingsError, Stores, agent::AgentSettings, llm};
use serde_json::{Map, Value, json};

use crate::{
    app::App,
    error::ApiError,
    stored::{invalid_member, stored},
    validation::Problem,
};

/// Leaves `agent` as the only source in a start request that has one, its keys in clear.
///
/// # Errors
/// 422 for settings that are wrong, for a key that was encrypted for another address, and for a connection that is gone; 501 for
/// agents that this server does not run; 503 for encrypted keys without a secret key.
pub(super) async fn settle(app: &Arc<App>, members: &mut Map<String, Value>) -> Result<(), ApiError> {
    let encrypted = members.remove("secrets_encrypted") == Some(Value::Bool(true));
    let cipher = app.stores.cipher();
    if encrypted && cipher.is_none() {
        return Err(ApiError::from(SettingsError::NoCipher));
    }
    let given = |members: &Map<String, Value>, name: &str| members.get(name).is_some_and(|value| !value.is_null());
    if !given(members, "agent") && !given(members, "agent_profile_id") && given(members, "agent_settings") {
        let mut settings = members.remove("agent_settings").unwrap_or_default();
        if let Some(settings) = settings.as_object_mut()
            && !given(settings, "llm")
        {
            settings.insert("llm".to_owned(), stored_llm(app).await?);
        }
        members.insert("agent".to_owned(), from_settings(settings, app)?);
    }
    let Some(agent) = members.get_mut("agent").filter(|agent| agent.is_object()) else { return Ok(()) };
    let asks_a_model = matches!(agent.get("kind").and_then(Value::as_str), None | Some("Agent"));
    if asks_a_model && agent.get("llm").is_none_or(Value::is_null) {
        let msg = "Field required: give a model, or set LLM_MODEL for the server";
        return Err(ApiError::invalid(Problem::new("missing", ["body", "agent", "llm"], msg)));
    }
    if open_llms(agent, cipher) == Binding::Dropped {
        let msg = "a key was encrypted for another address: send the key itself";
        return Err(ApiError::invalid(Problem::new("value_error", ["body", "agent", "llm", "api_key"], msg)));
    }
    *agent = connect(app, agent.take()).await?;
    check_models(agent, &mut vec!["agent".to_owned()])
}

/// Members of an agent in which more models are found.
const HOLDERS: [&str; 2] = ["condenser", "condensers"];

/// Checks the models of an agent, the condenser's included, and puts their members into the form that their types take. What is no
/// object is left to those who read the agent.
fn check_models(json: &mut Value, way: &mut Vec<String>) -> Result<(), ApiError> {
    match json {
        Value::Object(members) => members.iter_mut().try_for_each(|(name, value)| {
            way.push(name.clone());
            if name == "llm" && value.is_object() {
                *value = checked(value.take(), way)?;
            } else if HOLDERS.contains(&name.as_str()) {
                check_models(value, way)?;
            }
            way.pop();
            Ok(())
        }),
        Value::Array(items) => items.iter_mut().enumerate().try_for_each(|(index, item)| {
            way.push(index.to_string());
            check_models(item, way)?;
            way.pop();
            Ok(())
        }),
        _ => Ok(()),
    }
}

/// The configuration of one model, which stands at `way` in the body.
pub(super) fn checked(sent: Value, way: &[String]) -> Result<Value, ApiError> {
    let way: Vec<&str> = way.iter().map(String::as_str).collect();
    llm::checked(sent.clone()).map_err(|invalid| invalid_member(&way, &sent, invalid))
}

/// The model of the stored settings.
async fn stored_llm(app: &Arc<App>) -> Result<Value, ApiError> {
    stored(app, |stores| {
        let settings = stores.settings.load(stores.cipher())?;
        Ok(settings.usable_llm()?.map(LlmConfig::plain_json).unwrap_or_default())
    })
    .await
}

fn from_settings(sent: Value, app: &App) -> Result<Value, ApiError> {
    let settings =
        AgentSettings::from_client_sealed(sent.clone(), app.stores.cipher()).map_err(|error| match error {
            SettingsError::Invalid(invalid) => invalid_member(&["agent_settings"], &sent, invalid),
            SettingsError::NotSupported(what) => ApiError::NotSupported(format!("agent_settings: {what}")),
            other => other.into(),
        })?;
    settings.agent().ok_or_else(|| ApiError::NotSupported("agent_settings: agents of this kind".to_owned()))
}

/// Fills key and address of the provider connections into every model of `json` that names one.
///
/// # Errors
/// 422 for a connection that is gone.
pub(super) async fn connect(app: &Arc<App>, json: Value) -> Result<Value, ApiError> {
    if !names_connection(&json) {
        return Ok(json);
    }
    stored(app, move |stores| {
        let mut json = json;
        fill_in(&mut json, stores)?;
        Ok(json)
    })
    .await
}

fn names_connection(json: &Value) -> bool {
    match json {
        Value::Object(members) => connection_of(members).is_some() || members.values().any(names_connection),
        Value::Array(items) => items.iter().any(names_connection),
        _ => false,
    }
}

fn connection_of(members: &Map<String, Value>) -> Option<&str> {
    members.get("provider_connection_id").and_then(Value::as_str).filter(|id| !id.is_empty())
}

fn fill_in(json: &mut Value, stores: &Stores) -> Result<(), SettingsError> {
    match json {
        Value::Object(members) => {
            if let Some(id) = connection_of(members).map(str::to_owned) {
                let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
                let mut config = LlmConfig {
                    provider_connection_id: Some(id),
                    api_key: text("api_key").map(SecretText::new),
                    base_url: text("base_url"),
                    ollama_base_url: text("ollama_base_url"),
                    aws_bedrock_runtime_endpoint: text("aws_bedrock_runtime_endpoint"),
                    ..LlmConfig::default()
                };
                stores.connections.resolve("the model", &mut config, stores.cipher())?;
                for (name, value) in [
                    ("api_key", json!(config.api_key.as_ref().map(SecretText::expose))),
                    ("base_url", json!(config.base_url)),
                    ("ollama_base_url", json!(config.ollama_base_url)),
                    ("aws_bedrock_runtime_endpoint", json!(config.aws_bedrock_runtime_endpoint)),
                ] {
                    members.insert(name.to_owned(), value);
                }
            }
            members.values_mut().try_for_each(|value| fill_in(value, stores))
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| fill_in(item, stores)),
        _ => Ok(()),
    }
}
