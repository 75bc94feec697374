//! `/v1`: the OpenAI gateway. Every stored LLM profile is a model; a call runs a whole agent on it and answers with what the
//! agent says at the end (F1-GW rows).

mod ask;
mod chat;
mod content;
mod responses;

use axum::{
    Json, Router,
    routing::{get, post},
};
use serde_json::{Value, json};

use crate::{error::ApiError, extract::Ready, state::AppState, stored::stored};

/// What stands before a profile's name in the name of a model.
const MODEL_PREFIX: &str = "openhands_";
/// The header with the conversation of a call.
const CONVERSATION_HEADER: &str = "X-OpenHands-ServerConversation-ID";

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(chat::complete))
        .route("/v1/responses", post(responses::respond))
}

/// `GET /v1/models`: the profiles, by name (F1-GW-03).
async fn models(Ready(app): Ready) -> Result<Json<Value>, ApiError> {
    let mut names = stored(&app, |stores| stores.profiles.names()).await?;
    names.sort();
    let model = |name: &String| json!({"id": format!("{MODEL_PREFIX}{name}"), "object": "model", "created": 0, "owned_by": "openhands"});
    Ok(Json(json!({ "object": "list", "data": names.iter().map(model).collect::<Vec<_>>() })))
}
