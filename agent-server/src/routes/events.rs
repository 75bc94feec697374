//! `/api/conversations/{id}/events`: the log in pages, single events, messages in, answers to confirmations.

mod filter;

use axum::{
    Json, Router,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use openhands_protocol::{
    ConversationId, EventId,
    conversation::{ConfirmationResponseRequest, SendMessageRequest, Success},
};
use openhands_store::{EventLog, StoredEvent};
use serde_json::Value;

use self::filter::{Filter, Found};
use super::conversations::answer::missing_named;
use crate::{
    error::ApiError,
    extract::{Body, ConversationPath, ListBody, Ready, path_parameter},
    query::Query,
    routes::conversations::create::message_of,
    state::{App, AppState},
};

/// Most ids of one batch.
const MAX_BATCH: usize = 1000;

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/conversations/{conversation_id}/events", get(batch).post(send))
        .route("/api/conversations/{conversation_id}/events/search", get(search))
        .route("/api/conversations/{conversation_id}/events/count", get(count))
        .route("/api/conversations/{conversation_id}/events/respond_to_confirmation", post(respond))
        .route("/api/conversations/{conversation_id}/events/{event_id}", get(one))
}

/// `GET .../events/search`. Events are handed on as the bytes they are stored as.
async fn search(
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    mut query: Query,
) -> Result<Response, ApiError> {
    let limit = query.limit();
    let newest_first = query.choice("sort_order", &[("TIMESTAMP", false), ("TIMESTAMP_DESC", true)]).unwrap_or(false);
    let filter = Filter::read(&mut query);
    let from = query.text("page_id").map(EventId::from);
    query.finish()?;
    let log = log_of(&app, id).await?;
    let found = filter.page(&log, from.as_ref(), limit, newest_first).await?;
    Ok(json(page_body(&found)))
}

/// The log of a conversation. What was told of it elsewhere is on disk then, unless the disk refuses: only that is shown.
async fn log_of(app: &App, id: ConversationId) -> Result<EventLog, ApiError> {
    let log = app.conversations.get(id).await.map_err(missing_named(id))?.events();
    if let Err(error) = log.settled().await {
        tracing::warn!(conversation = %id, %error, "events that cannot be stored are not shown");
    }
    Ok(log)
}

fn page_body(found: &Found) -> Bytes {
    let size: usize = found.events.iter().map(|event| event.bytes.len() + 1).sum();
    let mut body = Vec::with_capacity(size + 128);
    body.extend_from_slice(br#"{"items":["#);
    for (index, event) in found.events.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&event.bytes);
    }
    body.extend_from_slice(br#"],"next_page_id":"#);
    let next = found.next.as_ref().map_or(Value::Null, |id| id.as_str().into());
    body.extend_from_slice(next.to_string().as_bytes());
    body.push(b'}');
    body.into()
}

fn json(body: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// `GET .../events/count`.
async fn count(
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    mut query: Query,
) -> Result<Json<u64>, ApiError> {
    let filter = Filter::read(&mut query);
    query.finish()?;
    let log = log_of(&app, id).await?;
    Ok(Json(filter.count(&log).await?))
}

/// An `event_id` of the path.
struct EventPath(EventId);

impl axum::extract::FromRequestParts<AppState> for EventPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, state: &AppState) -> Result<Self, ApiError> {
        path_parameter(parts, state, "event_id").await.map(|text| Self(text.into()))
    }
}

/// `GET .../events/{event_id}`: null members are kept here.
async fn one(
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    EventPath(event): EventPath,
) -> Result<Json<Value>, ApiError> {
    let log = log_of(&app, id).await?;
    read(&log, &event).await?.map(Json).ok_or(ApiError::NotFound)
}

/// `GET .../events` with a list of ids as its body: null for what is missing.
async fn batch(
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    ListBody(ids): ListBody<EventId>,
) -> Result<Json<Vec<Value>>, ApiError> {
    if ids.len() > MAX_BATCH {
        return Err(ApiError::Unprocessable(format!("at most {MAX_BATCH} events can be read at once")));
    }
    let log = log_of(&app, id).await?;
    let mut events = Vec::with_capacity(ids.len());
    for id in &ids {
        events.push(read(&log, id).await?.unwrap_or_default());
    }
    Ok(Json(events))
}

async fn read(log: &EventLog, id: &EventId) -> Result<Option<Value>, ApiError> {
    let Some(seq) = log.position(id).filter(|seq| *seq < log.written()) else { return Ok(None) };
    let events = log.load(seq, seq.saturating_add(1)).await.map_err(ApiError::internal)?;
    events.first().map(|event| with_nulls(event)).transpose()
}

fn with_nulls(event: &StoredEvent) -> Result<Value, ApiError> {
    Ok(event
        .parse()
        .map_err(|error| ApiError::internal(anyhow::anyhow!("stored event: {error}")))?
        .to_json_with_nulls())
}

/// `POST .../events`: a message. 429 means that the run it asks for cannot start, and then it is not stored either.
async fn send(
    State(state): State<AppState>,
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    Body(request): Body<SendMessageRequest>,
) -> Result<Json<Success>, ApiError> {
    state.clock().touch();
    let conversation = app.conversations.get(id).await.map_err(missing_named(id))?;
    conversation.send_message(message_of(request, false)).await?;
    Ok(Json(Success::YES))
}

/// `POST .../events/respond_to_confirmation`.
async fn respond(
    State(state): State<AppState>,
    Ready(app): Ready,
    ConversationPath(id): ConversationPath,
    Body(request): Body<ConfirmationResponseRequest>,
) -> Result<Json<Success>, ApiError> {
    state.clock().touch();
    let conversation = app.conversations.get(id).await.map_err(missing_named(id))?;
    conversation.respond_to_confirmation(request.accept, request.reason).await?;
    Ok(Json(Success::YES))
}
