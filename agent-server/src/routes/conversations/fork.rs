//! Copying conversations.

use std::collections::BTreeMap;

use axum::{Json, extract::State, http::StatusCode};
use openhands_conversation::Fork;
use openhands_protocol::{ConversationId, EventId};
use serde::Deserialize;
use serde_json::Value;

use super::{answer, change::check_title};
use crate::{
    error::ApiError,
    extract::{ConversationPath, RawBody, Ready, read_object},
    query::Query,
    state::AppState,
};

/// Body of `POST .../fork`; all of it may be left out.
#[derive(Deserialize)]
#[serde(default)]
pub(super) struct ForkRequest {
    id: Option<ConversationId>,
    title: Option<String>,
    tags: Option<BTreeMap<String, String>>,
    reset_metrics: bool,
    from_event_id: Option<EventId>,
}

impl Default for ForkRequest {
    fn default() -> Self {
        Self { id: None, title: None, tags: None, reset_metrics: true, from_event_id: None }
    }
}

/// `POST .../fork`: a copy with an id of its own, idle, 201 (F2-FORK-13, F2-FORK-21r).
///
/// # Errors
/// 404 for the conversation or `from_event_id`, 409 for an id in use, 422.
pub(super) async fn fork(
    State(state): State<AppState>,
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    mut query: Query,
    RawBody(body): RawBody,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let include_skills = query.flag("include_skills");
    query.finish()?;
    let ForkRequest { id: wanted, title, tags, reset_metrics, from_event_id } = match body {
        None => ForkRequest::default(),
        body => read_object(body)?,
    };
    if let Some(title) = &title {
        check_title(title)?;
    }
    let fork = Fork { id: wanted.unwrap_or_else(ConversationId::random), title, tags, reset_metrics, from_event_id };
    let made = app.conversations.fork(id, fork).await?;
    state.clock().touch();
    Ok((StatusCode::CREATED, Json(answer::info(&made, include_skills))))
}
