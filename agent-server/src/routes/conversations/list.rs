//! Reading conversations.

use axum::Json;
use openhands_protocol::{ExecutionStatus, conversation::AgentResponseResult, page::Page};
use serde_json::Value;

use super::answer::{info, runtime_info};
use crate::{
    error::ApiError,
    extract::{ConversationPath, Ready},
    query::Query,
    service::{ServiceError, SortOrder},
};

/// Most ids of one batch.
const MAX_BATCH: usize = 99;

/// `GET /api/conversations/{id}`.
///
/// # Errors
/// 404.
pub(super) async fn one(
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    mut query: Query,
) -> Result<Json<Value>, ApiError> {
    let include_skills = query.flag("include_skills");
    query.finish()?;
    Ok(Json(info(&app.conversations.get(id).await?, include_skills)))
}

/// `GET /api/conversations?ids=`: null for what is missing.
///
/// # Errors
/// 422 without ids or with too many.
pub(super) async fn batch(Ready(app): Ready, mut query: Query) -> Result<Json<Vec<Value>>, ApiError> {
    let ids = query.conversation_ids("ids", MAX_BATCH);
    let include_skills = query.flag("include_skills");
    query.finish()?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.push(match app.conversations.get(id).await {
            Ok(conversation) => info(&conversation, include_skills),
            Err(ServiceError::Unknown) => Value::Null,
            Err(error) => return Err(error.into()),
        });
    }
    Ok(Json(found))
}

/// `GET /api/conversations/search`.
///
/// # Errors
/// 422.
pub(super) async fn search(Ready(app): Ready, mut query: Query) -> Result<Json<Page<Value>>, ApiError> {
    let limit = query.limit();
    let status = status(&mut query);
    let orders = [
        ("CREATED_AT", SortOrder::CreatedAt),
        ("UPDATED_AT", SortOrder::UpdatedAt),
        ("CREATED_AT_DESC", SortOrder::CreatedAtDesc),
        ("UPDATED_AT_DESC", SortOrder::UpdatedAtDesc),
    ];
    let order = query.choice("sort_order", &orders).unwrap_or(SortOrder::CreatedAtDesc);
    let include_skills = query.flag("include_skills");
    let from = query.text("page_id").and_then(|text| text.parse().ok());
    query.finish()?;
    let page = app.conversations.search(from, limit, status, order).await;
    Ok(Json(Page {
        items: page.items.iter().map(|conversation| info(conversation, include_skills)).collect(),
        next_page_id: page.next.map(|id| id.hex()),
    }))
}

/// `GET /api/conversations/count`.
///
/// # Errors
/// 422.
pub(super) async fn count(Ready(app): Ready, mut query: Query) -> Result<Json<usize>, ApiError> {
    let status = status(&mut query);
    query.finish()?;
    Ok(Json(app.conversations.count(status)))
}

fn status(query: &mut Query) -> Option<ExecutionStatus> {
    query.choice("status", &ExecutionStatus::ALL.map(|status| (status.as_str(), status)))
}

/// `GET .../agent_final_response`.
///
/// # Errors
/// 404.
pub(super) async fn final_response(
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
) -> Result<Json<AgentResponseResult>, ApiError> {
    let conversation = app.conversations.get(id).await?;
    Ok(Json(AgentResponseResult { response: conversation.agent_final_response() }))
}

/// `GET .../runtime`, `POST .../runtime/reprovision`: the local runtime is always there.
///
/// # Errors
/// 404.
pub(super) async fn runtime(
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
) -> Result<Json<Value>, ApiError> {
    app.conversations.get(id).await?;
    Ok(Json(runtime_info()))
}
