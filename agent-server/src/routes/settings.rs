//! The user's settings: `/api/settings` (F1-REG-09).

mod secrets;

use axum::{
    Json, Router,
    routing::{get, put},
};
use openhands_settings::{SettingsChange, Show, is_profile_name, schema};
use serde_json::{Map, Value};

use crate::{
    error::ApiError,
    extract::{Body, Ready},
    state::AppState,
    stored::{Exposure, in_the_way, invalid_name, stored, stored_or},
    validation::Problem,
};

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/settings", get(show).patch(update))
        .route("/api/settings/agent-schema", get(agent_schema))
        .route("/api/settings/conversation-schema", get(conversation_schema))
        .route("/api/settings/secrets", put(secrets::put).get(secrets::list))
        .route("/api/settings/secrets/{name}", get(secrets::value).delete(secrets::delete))
}

/// `GET /api/settings`.
async fn show(Ready(app): Ready, exposure: Exposure) -> Result<Json<Value>, ApiError> {
    let settings = stored(&app, move |stores| {
        let settings = stores.settings.load(stores.cipher())?;
        if exposure == Exposure::Plain {
            // Whoever asks for it in clear is about to use it.
            settings.usable_llm()?;
        }
        Ok(settings)
    })
    .await?;
    if exposure == Exposure::Plain {
        tracing::warn!("the settings were read with their secrets in clear");
    }
    Ok(Json(settings.answer(exposure.show(app.stores.cipher())?)))
}

/// `PATCH /api/settings`: all of the change or nothing.
async fn update(Ready(app): Ready, Body(body): Body<Map<String, Value>>) -> Result<Json<Value>, ApiError> {
    let change = read_change(&body)?;
    let sets_key = |body: &Map<String, Value>| {
        body.get("agent_settings_diff").and_then(|diff| diff.pointer("/llm/api_key")).is_some_and(Value::is_string)
    };
    if app.stores.cipher().is_none() && sets_key(&body) {
        tracing::warn!("OH_SECRET_KEY is not configured: the settings are saved without their secrets");
    }
    let settings = stored_or(&app, move |stores| stores.change_settings(&change), in_the_way).await?;
    tracing::info!("settings changed");
    Ok(Json(settings.answer(Show::Masked)))
}

/// `GET /api/settings/agent-schema`: the form of agent settings.
async fn agent_schema(Ready(_): Ready) -> Json<Value> {
    Json(schema::agent())
}

/// `GET /api/settings/conversation-schema`: the form of conversation settings.
async fn conversation_schema(Ready(_): Ready) -> Json<Value> {
    Json(schema::conversation())
}

fn read_change(body: &Map<String, Value>) -> Result<SettingsChange, ApiError> {
    let change = SettingsChange {
        agent: object(body, "agent_settings_diff")?,
        conversation: object(body, "conversation_settings_diff")?,
        misc: object(body, "misc_settings_diff")?,
        active_profile: pointer(body, "active_profile")?,
        active_agent_profile_id: pointer(body, "active_agent_profile_id")?,
        active_meta_profile: pointer(body, "active_meta_profile")?,
    };
    for (member, named) in [
        ("active_agent_profile_id: agent profiles", &change.active_agent_profile_id),
        ("active_meta_profile: meta-profiles", &change.active_meta_profile),
    ] {
        if matches!(named, Some(Some(_))) {
            return Err(ApiError::NotSupported(member.to_owned()));
        }
    }
    let SettingsChange { agent, conversation, misc, active_profile, active_agent_profile_id, active_meta_profile } =
        &change;
    if agent.is_none()
        && conversation.is_none()
        && misc.is_none()
        && active_profile.is_none()
        && active_agent_profile_id.is_none()
        && active_meta_profile.is_none()
    {
        let text = "give at least one of agent_settings_diff, conversation_settings_diff, misc_settings_diff, active_profile, \
                    active_agent_profile_id and active_meta_profile";
        return Err(ApiError::BadRequest(text.to_owned()));
    }
    Ok(change)
}

fn object(body: &Map<String, Value>, member: &str) -> Result<Option<Map<String, Value>>, ApiError> {
    match body.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(members)) => Ok(Some(members.clone())),
        Some(other) => {
            let problem = Problem::new("dict_type", ["body", member], "Input should be a valid dictionary");
            Err(ApiError::invalid(problem.input(other.clone())))
        }
    }
}

/// A name, or null for none; absent keeps.
fn pointer(body: &Map<String, Value>, member: &str) -> Result<Option<Option<String>>, ApiError> {
    match body.get(member) {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(None)),
        Some(Value::String(name)) if is_profile_name(name) => Ok(Some(Some(name.clone()))),
        Some(Value::String(name)) => Err(invalid_name(["body", member], name)),
        Some(other) => {
            let problem = Problem::new("string_type", ["body", member], "Input should be a valid string");
            Err(ApiError::invalid(problem.input(other.clone())))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_read_and_mistakes_are_named() {
        let read = |body: Value| match read_change(body.as_object().unwrap()) {
            Ok(change) => json!([change.agent.is_some(), change.active_profile]),
            Err(ApiError::Invalid(problems)) => serde_json::to_value(&problems[0].loc).unwrap(),
            Err(other) => json!(other.status().as_u16()),
        };
        assert_eq!(read(json!({"agent_settings_diff": {}})), json!([true, null]));
        assert_eq!(read(json!({"active_profile": "p"})), json!([false, "p"]));
        assert_eq!(read(json!({"active_profile": null, "active_meta_profile": null})), json!([false, null]));
        assert_eq!(read(json!({})), json!(400));
        assert_eq!(read(json!({"agent_settings_diff": null})), json!(400));
        assert_eq!(read(json!({"misc_settings_diff": []})), json!(["body", "misc_settings_diff"]));
        assert_eq!(read(json!({"active_profile": "a b"})), json!(["body", "active_profile"]));
        assert_eq!(read(json!({"active_profile": 1})), json!(["body", "active_profile"]));
        assert_eq!(read(json!({"active_meta_profile": "m"})), json!(501));
    }
}
