//! Lists of providers and models to choose from: `/api/llm/providers`, `/api/llm/models`.

use axum::{Json, Router, routing::get};
use openhands_llm::catalog;
use serde_json::{Map, Value, json};

use crate::{error::ApiError, extract::Ready, query::Query, state::AppState};

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/llm/providers", get(providers))
        .route("/api/llm/models", get(models))
        .route("/api/llm/models/verified", get(verified))
}

/// `GET /api/llm/providers`: those that this server can ask.
async fn providers(Ready(_): Ready) -> Json<Value> {
    Json(json!({ "providers": catalog::providers() }))
}

/// `GET /api/llm/models?provider=`: models known by name, sorted.
async fn models(Ready(_): Ready, mut query: Query) -> Result<Json<Value>, ApiError> {
    let models = catalog::models(query.text("provider"));
    query.finish()?;
    Ok(Json(json!({ "models": models })))
}

/// `GET /api/llm/models/verified`: models that do well as agents, by provider.
async fn verified(Ready(_): Ready) -> Json<Value> {
    let models: Map<String, Value> =
        catalog::verified().map(|(provider, models)| (provider.to_owned(), json!(models))).collect();
    Json(json!({ "models": models }))
}
