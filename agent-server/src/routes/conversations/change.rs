//! Changing conversations.

use axum::{Json, extract::State};
use openhands_protocol::conversation::{
    SetConfirmationPolicyRequest, SetSecurityAnalyzerRequest, Success, UpdateConversationRequest, UpdateSecretsRequest,
};
use serde_json::json;

use crate::{
    error::ApiError,
    extract::{Body, ConversationPath, Ready},
    state::AppState,
    validation::Problem,
};

/// Longest title, characters.
const MAX_TITLE: usize = 200;

type Answer = Result<Json<Success>, ApiError>;

/// `POST .../run`: starts or continues a run in the background.
///
/// # Errors
/// 404, 409 while it runs, 429 when all places are taken.
pub(super) async fn run(
    State(state): State<AppState>,
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
) -> Answer {
    state.clock().touch();
    app.conversations.get(id).await?.run().await?;
    Ok(Json(Success::YES))
}

/// `POST .../pause`: the current step is finished first.
///
/// # Errors
/// 404.
pub(super) async fn pause(Ready(app): Ready, ConversationPath(id): ConversationPath) -> Answer {
    app.conversations.get(id).await?.pause().await?;
    Ok(Json(Success::YES))
}

/// `POST .../interrupt`: what is in flight is cancelled.
///
/// # Errors
/// 404.
pub(super) async fn interrupt(Ready(app): Ready, ConversationPath(id): ConversationPath) -> Answer {
    app.conversations.get(id).await?.interrupt().await?;
    Ok(Json(Success::YES))
}

/// `DELETE /api/conversations/{id}`.
///
/// # Errors
/// 404; 409 when another server owns it.
pub(super) async fn delete(Ready(app): Ready, ConversationPath(id): ConversationPath) -> Answer {
    app.commands.end(id).await;
    app.conversations.delete(id).await?;
    Ok(Json(Success::YES))
}

/// `PATCH /api/conversations/{id}`: title, tags and budget.
///
/// # Errors
/// 404, 422.
pub(super) async fn update(
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    Body(request): Body<UpdateConversationRequest>,
) -> Answer {
    let UpdateConversationRequest { title, tags, max_budget_per_run } = request;
    if let Some(title) = &title {
        check_title(title)?;
    }
    let conversation = app.conversations.get(id).await?;
    if let Some(budget) = max_budget_per_run {
        conversation.set_budget(budget).await?;
    }
    conversation.update(title.map(|title| title.trim().to_owned()), tags).await?;
    Ok(Json(Success::YES))
}

pub(super) fn check_title(title: &str) -> Result<(), ApiError> {
    let refuse =
        |kind, msg: &str, ctx| Err(ApiError::invalid(Problem::new(kind, ["body", "title"], msg).input(title).ctx(ctx)));
    if title.is_empty() {
        return refuse("string_too_short", "String should have at least 1 character", json!({"min_length": 1}));
    }
    if title.chars().count() > MAX_TITLE {
        let msg = format!("String should have at most {MAX_TITLE} characters");
        return refuse("string_too_long", &msg, json!({"max_length": MAX_TITLE}));
    }
    if title.trim().is_empty() {
        return refuse("value_error", "a title must not be blank", json!({"error": "blank"}));
    }
    Ok(())
}

/// `POST .../secrets`.
///
/// # Errors
/// 404, 422.
pub(super) async fn secrets(
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    Body(request): Body<UpdateSecretsRequest>,
) -> Answer {
    app.conversations.get(id).await?.update_secrets(request.secrets).await?;
    Ok(Json(Success::YES))
}

/// `POST .../confirmation_policy`.
///
/// # Errors
/// 404, 422.
pub(super) async fn confirmation_policy(
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    Body(request): Body<SetConfirmationPolicyRequest>,
) -> Answer {
    app.conversations.get(id).await?.set_confirmation_policy(request.policy).await?;
    Ok(Json(Success::YES))
}

/// `POST .../security_analyzer`.
///
/// # Errors
/// 404, 422.
pub(super) async fn security_analyzer(
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    Body(request): Body<SetSecurityAnalyzerRequest>,
) -> Answer {
    app.conversations.get(id).await?.set_security_analyzer(request.security_analyzer).await?;
    Ok(Json(Success::YES))
}
