//! What the workspace client asks of a server that has neither skills nor an editor: the answers are true, and empty.

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

/// `GET /api/vscode/status`.
async fn vscode_status() -> Json<Value> {
    Json(json!({ "running": false, "enabled": false }))
}

async fn vscode_url() -> ApiError {
    ApiError::Unavailable("VSCode is disabled".to_owned())
}
