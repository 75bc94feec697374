//! `/v1`: the OpenAI gateway. Its models are stored LLM profiles, of which this version has none.

use axum::{
    Json, Router,
    routing::{get, post},
};
use serde_json::{Value, json};

use crate::{error::ApiError, state::AppState};

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(unsupported))
        .route("/v1/responses", post(unsupported))
}

async fn models() -> Json<Value> {
    Json(json!({ "object": "list", "data": [] }))
}

async fn unsupported() -> ApiError {
    ApiError::NotSupported(
        "the OpenAI gateway runs agents of stored LLM profiles, which this version does not have".to_owned(),
    )
}
