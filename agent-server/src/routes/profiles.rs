//! Model profiles: `/api/profiles` (F1-REG-04, F2-PROF-15r).

use std::time::Duration;

use axum::{
    Json, Router,
    http::StatusCode,
    routing::{get, post},
};
use openhands_llm::{ClientOptions, LlmError, LlmRequest};
use openhands_protocol::{Content, LlmConfig, Message, Role};
use openhands_secrets::Cipher;
use openhands_settings::{
    Activated, AtRest, MAX_PROFILES, ProfileSummary, is_profile_name,
    llm::{from_client, to_json},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    error::ApiError,
    extract::{Body, Ready},
    state::AppState,
    stored::{Exposure, ProfileName, in_the_way, invalid_member, invalid_name, stored, stored_or},
};

/// How long a trial call may take, seconds.
const TRIAL_LIMIT: u64 = 15;
/// Longest answer of a trial call, tokens: the least that every provider takes.
const TRIAL_TOKENS: u64 = 16;

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/profiles", get(list))
        .route("/api/profiles/{name}", get(show).post(save).delete(delete))
        .route("/api/profiles/{name}/validate", post(validate))
        .route("/api/profiles/{name}/rename", post(rename))
        .route("/api/profiles/{name}/activate", post(activate))
}

#[derive(Deserialize)]
struct SaveProfile {
    llm: Value,
    #[serde(default = "yes")]
    include_secrets: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct ValidateProfile {
    llm: Value,
}

#[derive(Deserialize)]
struct RenameProfile {
    new_name: String,
}

/// The configuration of a body.
fn read(llm: Value, cipher: Option<&Cipher>) -> Result<LlmConfig, ApiError> {
    from_client(llm.clone(), cipher).map_err(|invalid| invalid_member(&["llm"], &llm, invalid))
}

type Answer = Result<Json<Value>, ApiError>;

/// `GET /api/profiles`.
async fn list(Ready(app): Ready) -> Answer {
    let (summaries, active) = stored(&app, |stores| {
        Ok((stores.profiles.summaries()?, stores.settings.load(stores.cipher())?.active_profile))
    })
    .await?;
    let profiles: Vec<Value> = summaries.into_iter().map(summary).collect();
    Ok(Json(json!({ "profiles": profiles, "active_profile": active })))
}

fn summary(profile: ProfileSummary) -> Value {
    let ProfileSummary { name, model, base_url, provider_connection_id, provider_connection_broken, api_key_set } =
        profile;
    json!({
        "name": name, "model": model, "base_url": base_url, "provider_connection_id": provider_connection_id,
        "provider_connection_broken": provider_connection_broken, "api_key_set": api_key_set,
    })
}

/// `GET /api/profiles/{name}`: as it is stored; with `X-Expose-Secrets: plaintext` ready for use, key and address of its provider
/// connection filled in.
async fn show(Ready(app): Ready, ProfileName(name): ProfileName, exposure: Exposure) -> Answer {
    let asked = name.clone();
    let (config, api_key_set) = stored(&app, move |stores| {
        let stored = stores.profiles.read(&asked, stores.cipher())?;
        let ready = stores.load_profile(&asked);
        let set = ready.as_ref().is_ok_and(|ready| ready.api_key.is_some()) || stored.api_key.is_some();
        Ok((if exposure == Exposure::Plain { ready? } else { stored }, set))
    })
    .await?;
    let mut config = to_json(&config, exposure.show(app.stores.cipher())?);
    if exposure == Exposure::Hidden
        && let Some(key) = config.get_mut("api_key")
    {
        *key = Value::Null;
    }
    if exposure == Exposure::Plain {
        tracing::warn!(profile = name, "a profile was read with its secrets in clear");
    }
    Ok(Json(json!({ "name": name, "config": config, "api_key_set": api_key_set })))
}

/// `POST /api/profiles/{name}`.
async fn save(
    Ready(app): Ready,
    ProfileName(name): ProfileName,
    Body(SaveProfile { llm, include_secrets }): Body<SaveProfile>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let config = read(llm, app.stores.cipher())?;
    let without = match (config.api_key.is_some(), include_secrets, app.stores.cipher().is_some()) {
        (true, true, false) => {
            tracing::warn!(profile = name, "OH_SECRET_KEY is not configured: the profile is saved without its secrets");
            " without its key: set OH_SECRET_KEY for the server so that keys can be stored"
        }
        (true, false, _) => " without its key, as include_secrets says",
        _ => "",
    };
    let saved = name.clone();
    stored(&app, move |stores| {
        let at_rest = AtRest::of_server(stores.cipher(), include_secrets);
        stores.profiles.save(&saved, &config, at_rest, Some(MAX_PROFILES))
    })
    .await?;
    tracing::info!(profile = name, include_secrets, "profile saved");
    Ok((StatusCode::CREATED, Json(done(&name, &format!("profile {name:?} is saved{without}")))))
}

fn done(name: &str, message: &str) -> Value {
    json!({ "name": name, "message": message })
}

/// `DELETE /api/profiles/{name}`: none of that name is as good.
async fn delete(Ready(app): Ready, ProfileName(name): ProfileName) -> Answer {
    let deleted = name.clone();
    stored(&app, move |stores| stores.delete_profile(&deleted)).await?;
    tracing::info!(profile = name, "profile deleted");
    Ok(Json(done(&name, &format!("profile {name:?} is deleted"))))
}

/// `POST /api/profiles/{name}/rename`.
async fn rename(
    Ready(app): Ready,
    ProfileName(name): ProfileName,
    Body(RenameProfile { new_name }): Body<RenameProfile>,
) -> Answer {
    if !is_profile_name(&new_name) {
        return Err(invalid_name(["body", "new_name"], &new_name));
    }
    let (from, to) = (name.clone(), new_name.clone());
    stored(&app, move |stores| stores.rename_profile(&from, &to)).await?;
    tracing::info!(profile = name, new_name, "profile renamed");
    Ok(Json(done(&new_name, &format!("profile {name:?} is now {new_name:?}"))))
}

/// `POST /api/profiles/{name}/activate`: the settings get the profile's model.
async fn activate(Ready(app): Ready, ProfileName(name): ProfileName) -> Answer {
    let activated = name.clone();
    let config = stored(&app, move |stores| stores.load_profile(&activated)).await?;
    let activated = name.clone();
    let applied = stored_or(&app, move |stores| stores.activate(&activated, &config), in_the_way).await?;
    tracing::info!(profile = name, "profile activated");
    let (llm_applied, message) = match applied {
        Activated::Applied => (true, format!("profile {name:?} is active, and the settings have its model")),
        Activated::Noted => (false, format!("profile {name:?} is active; the settings have no model to change")),
    };
    Ok(Json(json!({ "name": name, "message": message, "llm_applied": llm_applied })))
}

/// `POST /api/profiles/{name}/validate`: one short call to the model of the body. What may be over in a moment is no mistake of
/// the configuration.
async fn validate(
    Ready(app): Ready,
    ProfileName(name): ProfileName,
    Body(ValidateProfile { llm }): Body<ValidateProfile>,
) -> Answer {
    let mut config = read(llm, app.stores.cipher())?;
    let owner = format!("profile {name:?}");
    config = stored(&app, move |stores| {
        stores.connections.resolve(&owner, &mut config, stores.cipher())?;
        Ok(config)
    })
    .await?;
    let error = match try_out(&app.llm, config).await {
        Ok(()) | Err(LlmError::Timeout(_)) => None,
        Err(LlmError::RateLimit { message, .. }) if !is_used_up(&message) => {
            tracing::info!(profile = name, "the model is busy, which is no mistake of the profile");
            None
        }
        Err(error) => Some(json!({ "type": error.code(), "message": error.to_string() })),
    };
    Ok(Json(json!({ "valid": error.is_none(), "error": error })))
}

/// A quota that is used up does not come back in a moment.
fn is_used_up(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["insufficient_quota", "usage_limit_reached", "budget"].iter().any(|word| message.contains(word))
}

/// One attempt with a short question.
async fn try_out(llm: &openhands_conversation::LlmFactory, config: LlmConfig) -> Result<(), LlmError> {
    let limit = config.timeout.map_or(TRIAL_LIMIT, |limit| limit.clamp(1, TRIAL_LIMIT));
    let trial = LlmConfig {
        num_retries: 1,
        timeout: Some(limit),
        max_output_tokens: Some(TRIAL_TOKENS),
        // Thinking takes more tokens than the trial has.
        extended_thinking_budget: None,
        reasoning_effort: None,
        fallback_strategy: None,
        stream: false,
        log_completions: false,
        ..config
    };
    let say = |role, text: &str| Message::new(role, vec![Content::text(text)]);
    let request = LlmRequest {
        messages: vec![say(Role::System, "Answer with one word."), say(Role::User, "Are you there?")],
        tools: Vec::new(),
    };
    let client = llm(&trial, &ClientOptions::default())?;
    let never = CancellationToken::new();
    let call = client.complete(&request, None, &never);
    match tokio::time::timeout(Duration::from_secs(limit + 1), call).await {
        Ok(Ok(_)) => Ok(()),
        // The model answered; that it had more to say than the trial lets it is no mistake.
        Ok(Err(LlmError::NoResponse(_))) => {
            tracing::info!("the trial's answer was cut short");
            Ok(())
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(LlmError::Timeout(format!("no answer within {limit} seconds"))),
    }
}
