//! The backend: takes calls with good tokens that ask for what it has, and lets a script answer them.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};

use super::Vendor;
use crate::model::{Script, answer};

/// A request larger than this is no test any more.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

#[derive(Clone)]
struct Backend {
    vendor: Arc<Vendor>,
    script: Arc<Script>,
}

pub(super) fn router(vendor: Arc<Vendor>, script: Arc<Script>) -> Router {
    Router::new().route("/backend/codex/responses", post(call)).with_state(Backend { vendor, script })
}

async fn call(State(backend): State<Backend>, request: Request) -> Response {
    if let Some(failure) = backend.vendor.failure("backend") {
        return failure;
    }
    let (head, body) = request.into_parts();
    let refuse = |status: StatusCode, code: &str, message: &str| {
        (status, Json(json!({"error": {"code": code, "message": message}}))).into_response()
    };
    if !backend.admits(&head.headers) {
        return refuse(StatusCode::UNAUTHORIZED, "token_expired", "the token is not accepted");
    }
    let bytes = axum::body::to_bytes(body, BODY_LIMIT).await.unwrap_or_default();
    let asked: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if let Some(problem) = problem(&asked) {
        return refuse(StatusCode::BAD_REQUEST, "unsupported_parameter", &problem);
    }
    answer(State(backend.script), Request::from_parts(head, Body::from(bytes))).await
}

impl Backend {
    fn admits(&self, headers: &HeaderMap) -> bool {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let book = self.vendor.book();
        let token = text("authorization").strip_prefix("Bearer ").unwrap_or_default();
        book.access.contains(token) && text("chatgpt-account-id") == book.account.id
    }
}

/// What the backend does not take.
fn problem(asked: &Value) -> Option<String> {
    for (name, wanted) in [("stream", true), ("store", false)] {
        if asked.get(name) != Some(&Value::Bool(wanted)) {
            return Some(format!("{name} must be {wanted}"));
        }
    }
    let refused = ["temperature", "top_p", "max_output_tokens", "reasoning", "include", "prompt_cache_retention"];
    refused.iter().find(|name| asked.get(**name).is_some()).map(|name| format!("unsupported parameter: {name}"))
}
