//! Which model a conversation asks: changing it, and asking it something beside the work.

use axum::{Json, extract::State};
use openhands_conversation::{AskError, CondenseError, ProfileProblem, SwitchError};
use openhands_protocol::{LlmConfig, conversation::Success};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    answer::{closing, invalid, store},
    source::{checked, connect},
};
use crate::{
    error::ApiError,
    extract::{Body, ConversationPath, Ready},
    state::AppState,
    validation::{self, Problem},
};

/// Body of `POST .../switch_llm`.
#[derive(Deserialize)]
pub(super) struct SwitchLlm {
    llm: Value,
}

/// Body of `POST .../switch_profile`.
#[derive(Deserialize)]
pub(super) struct SwitchProfile {
    profile_name: String,
}

/// Body of `POST .../ask_agent`.
#[derive(Deserialize)]
pub(super) struct AskAgent {
    question: String,
}

/// `POST .../switch_llm`: the agent goes on with this model. A call that is out finishes with the old one.
///
/// # Errors
/// 404; 422 for a configuration that is malformed or cannot work, and for a masked or encrypted key with another address.
pub(super) async fn switch_llm(
    State(state): State<AppState>,
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    Body(SwitchLlm { llm }): Body<SwitchLlm>,
) -> Result<Json<Success>, ApiError> {
    let conversation = app.conversations.get(id).await?;
    let llm = read_llm(connect(&app, llm).await?)?;
    conversation.switch_llm(llm).await.map_err(|error| match error {
        SwitchError::Profile(problem) => ApiError::Unprocessable(problem.to_string()),
        SwitchError::Invalid { member, reason } => invalid(&member, reason),
        SwitchError::Closed => closing(),
        SwitchError::Store(error) => store(error),
    })?;
    state.clock().touch();
    Ok(Json(Success::YES))
}

/// `POST .../switch_profile`: the same with a saved profile.
///
/// # Errors
/// 404 for the conversation or the profile, 400 for a profile that cannot be used, 422.
pub(super) async fn switch_profile(
    State(state): State<AppState>,
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    Body(SwitchProfile { profile_name }): Body<SwitchProfile>,
) -> Result<Json<Success>, ApiError> {
    let conversation = app.conversations.get(id).await?;
    conversation.switch_profile(&profile_name).await.map_err(|error| match error {
        SwitchError::Profile(ProfileProblem::NotFound { .. }) => {
            ApiError::Missing(format!("Profile '{profile_name}' not found"))
        }
        SwitchError::Profile(problem) => ApiError::BadRequest(problem.to_string()),
        error @ SwitchError::Invalid { .. } => ApiError::BadRequest(format!("profile {profile_name:?}: {error}")),
        SwitchError::Closed => closing(),
        SwitchError::Store(error) => store(error),
    })?;
    state.clock().touch();
    Ok(Json(Success::YES))
}

/// `POST .../condense`: the older part of the history is summarised now.
///
/// # Errors
/// 404; 409 without a condenser or when the run ends first; 429; 500 with the model's failure.
pub(super) async fn condense(
    State(state): State<AppState>,
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
) -> Result<Json<Success>, ApiError> {
    state.clock().touch();
    app.conversations.get(id).await?.condense().await.map_err(|error| match error {
        CondenseError::NoCondenser | CondenseError::RunEnded => ApiError::Conflict(error.to_string()),
        CondenseError::CapacityFull => ApiError::TooManyRequests(error.to_string()),
        CondenseError::Model(_) => ApiError::Failed(error.to_string()),
        CondenseError::Closed => closing(),
        CondenseError::Store(error) => store(error),
    })?;
    Ok(Json(Success::YES))
}

/// `POST .../ask_agent`: an answer from what has happened so far; nothing of it is kept but what it cost.
///
/// # Errors
/// 404, 422; 500 with the model's failure.
pub(super) async fn ask_agent(
    State(state): State<AppState>,
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    Body(AskAgent { question }): Body<AskAgent>,
) -> Result<Json<Value>, ApiError> {
    state.clock().touch();
    let response = app.conversations.get(id).await?.ask_agent(&question).await.map_err(|error| match error {
        AskError::TooLong(_) => invalid("question", error.to_string()),
        AskError::Busy(_) => ApiError::TooManyRequests(error.to_string()),
        AskError::Model(_) => ApiError::Failed(error.to_string()),
        AskError::Closed => closing(),
    })?;
    Ok(Json(json!({ "response": response })))
}

fn read_llm(llm: Value) -> Result<LlmConfig, ApiError> {
    if !llm.is_object() {
        let msg = "Input should be a valid dictionary or object to extract fields from";
        return Err(ApiError::invalid(Problem::new("model_attributes_type", ["body", "llm"], msg).input(llm)));
    }
    validation::read("llm", checked(llm, &["llm".to_owned()])?).map_err(|mut problem| {
        problem.loc.insert(0, json!("body"));
        ApiError::invalid(problem)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_read_and_mistakes_are_named() {
        let read = |llm: Value| match read_llm(llm) {
            Ok(config) => json!([config.model, config.usage_id]),
            Err(ApiError::Invalid(problems)) => serde_json::to_value(&problems[0].loc).unwrap(),
            Err(other) => json!(other.to_string()),
        };
        assert_eq!(read(json!({"model": "openai/x"})), json!(["openai/x", "default"]));
        assert_eq!(read(json!(7)), json!(["body", "llm"]));
        assert_eq!(read(json!({"model": "m", "temperature": "hot"})), json!(["body", "llm", "temperature"]));
    }
}
