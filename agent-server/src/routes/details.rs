//! What anybody may ask: is it alive, is it ready, what is it.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{state::AppState, toolbox::TOOL_NAMES};

/// The protocol version that this server speaks; clients read it as the server's version.
pub const PROTOCOL_VERSION: &str = "1.58.2";

/// `GET /alive`, `GET /health`: the process answers.
pub async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// `GET /ready`: requests can be served, or, when initialisation is deferred, it can be initialised.
pub async fn ready() -> Json<Value> {
    Json(json!({ "status": "ready" }))
}

/// `GET /server_info`, and `GET /` without a folder of static files.
pub async fn server_info(State(state): State<AppState>) -> Json<Value> {
    let build = |name| std::env::var(name).unwrap_or_else(|_| "unknown".to_owned());
    Json(json!({
        "uptime": state.clock().uptime(),
        "idle_time": state.clock().idle_time(),
        "title": "OpenHands Agent Server",
        "version": PROTOCOL_VERSION,
        "sdk_version": PROTOCOL_VERSION,
        "tools_version": PROTOCOL_VERSION,
        "workspace_version": PROTOCOL_VERSION,
        "server_version": env!("CARGO_PKG_VERSION"),
        "build_git_sha": build("OPENHANDS_BUILD_GIT_SHA"),
        "build_git_ref": build("OPENHANDS_BUILD_GIT_REF"),
        "python_version": "none",
        "usable_tools": TOOL_NAMES,
        "runtime_idle_timeout_seconds": runtime_idle_timeout(),
        "conversation_runtime": "local",
        "available_conversation_runtimes": [],
        "capabilities": ["idempotent_conversation_create_v1"],
        "app_backend_ingress_url": null,
        "max_foreground_terminal_timeout_seconds": null,
        "docs": "/docs",
        "redoc": "/redoc",
    }))
}

fn runtime_idle_timeout() -> Option<f64> {
    std::env::var("OH_RUNTIME_IDLE_TIMEOUT_SECONDS").ok()?.parse().ok().filter(|seconds: &f64| seconds.is_finite())
}

/// `GET /openapi.json`: the operations that this server serves.
pub async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], crate::openapi::document_text()).into_response()
}

/// `GET /docs`, `GET /redoc`: a plain list of the operations, made from the same table as the document.
pub async fn docs() -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], crate::openapi::page()).into_response()
}
