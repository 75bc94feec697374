//! What the workspace client asks of a server that stores nothing for its user yet: the answers are true, and empty.

use axum::{
    Json, Router,
    routing::{get, post},
};
use serde_json::{Value, json};

use crate::{error::ApiError, state::AppState, toolbox::TOOL_NAMES};

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/tools/", get(tools))
        .route("/api/skills", post(skills))
        .route("/api/settings/secrets", get(secrets))
        .route("/api/settings/secrets/{name}", get(no_secret).delete(no_secret))
        .route("/api/profiles", get(profiles))
        .route("/api/profiles/{name}", get(no_profile).delete(no_profile))
        .route("/api/vscode/status", get(vscode_status))
        .route("/api/vscode/url", get(vscode_url))
}

/// `GET /api/tools/`: the names an agent may give.
async fn tools() -> Json<Value> {
    Json(json!(TOOL_NAMES))
}

/// `POST /api/skills`: none.
async fn skills() -> Json<Value> {
    Json(json!({ "skills": [], "sources": {} }))
}

/// `GET /api/settings/secrets`: none.
async fn secrets() -> Json<Value> {
    Json(json!({ "secrets": [] }))
}

async fn no_secret() -> ApiError {
    ApiError::Missing("there is no such secret".to_owned())
}

/// `GET /api/profiles`: none.
async fn profiles() -> Json<Value> {
    Json(json!({ "profiles": [], "active_profile": null }))
}

async fn no_profile() -> ApiError {
    ApiError::Missing("there is no such profile".to_owned())
}

/// `GET /api/vscode/status`.
async fn vscode_status() -> Json<Value> {
    Json(json!({ "running": false, "enabled": false }))
}

async fn vscode_url() -> ApiError {
    ApiError::Unavailable("VSCode is disabled".to_owned())
}
