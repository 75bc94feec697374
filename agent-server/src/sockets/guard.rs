//! Who may open a socket. In this order: no keys configured, a key in the query or header (refused before the upgrade when
//! wrong), else the first frame.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    app::App,
    auth::{SESSION_KEY_HEADER, SessionKeys, header_text},
    error::ApiError,
    query::Query,
    state::AppState,
};

/// How long the first frame may take.
const FIRST_FRAME: Duration = Duration::from_secs(10);
/// Largest frame a client may send, bytes: a message with images.
const MAX_INBOUND: usize = 16 * 1024 * 1024;
/// Close code: the key is wrong.
pub(super) const BAD_KEY: u16 = 4001;
/// Close code: there is no such conversation.
pub(super) const UNKNOWN_CONVERSATION: u16 = 4004;
/// Close code: come back later.
pub(super) const TRY_AGAIN: u16 = 1013;
/// Close code: the server goes away.
pub(super) const GOING_AWAY: u16 = 1001;

/// What an upgrade request brings, or why it is none.
pub(super) type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

/// Opens a socket and lets `serve` have it once its key is good. A dormant server and a bad key in the query or header refuse
/// before the upgrade (403); a plain request finds nothing (404).
pub fn admit<F, Work>(state: &AppState, upgrade: Upgrade, headers: &HeaderMap, query: &Query, serve: F) -> Response
where
    F: FnOnce(WebSocket, Arc<App>) -> Work + Send + 'static,
    Work: Future<Output = ()> + Send + 'static,
{
    let Ok(upgrade) = upgrade else { return ApiError::NotFound.into_response() };
    let Ok(app) = state.app() else {
        return ApiError::Forbidden("the server is not initialised".to_owned()).into_response();
    };
    let given = query.text("session_api_key").or_else(|| header_text(headers, SESSION_KEY_HEADER));
    let needs_frame = match given {
        _ if app.keys.is_open() => false,
        Some(key) if app.keys.contain(key) => false,
        Some(_) => return ApiError::Forbidden("Authentication failed".to_owned()).into_response(),
        None => true,
    };
    upgrade.max_message_size(MAX_INBOUND).max_frame_size(MAX_INBOUND).on_upgrade(move |mut socket| async move {
        if needs_frame && !first_frame_is_good(&mut socket, &app.keys).await {
            close(&mut socket, BAD_KEY, "Authentication failed").await;
            return;
        }
        serve(socket, app).await;
    })
}

/// `{"type": "auth", "session_api_key": ...}`.
#[derive(Deserialize)]
struct AuthFrame {
    r#type: String,
    session_api_key: Option<String>,
}

async fn first_frame_is_good(socket: &mut WebSocket, keys: &SessionKeys) -> bool {
    let text = tokio::time::timeout(FIRST_FRAME, async {
        loop {
            match socket.recv().await {
                Some(Ok(Message::Text(text))) => return Some(text),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Binary(_) | Message::Close(_)) | Err(_)) | None => return None,
            }
        }
    });
    let Ok(Some(text)) = text.await else { return false };
    serde_json::from_str::<AuthFrame>(&text)
        .is_ok_and(|frame| frame.r#type == "auth" && frame.session_api_key.is_some_and(|key| keys.contain(&key)))
}

/// Whether a later frame only repeats the key; such frames are ignored.
#[must_use]
pub(super) fn is_auth_frame(frame: &Value) -> bool {
    frame.as_object().is_some_and(|members| {
        members.get("type").is_some_and(|kind| kind == "auth")
            && members.keys().all(|name| name == "type" || name == "session_api_key")
    })
}

/// Closes a socket with a code; a peer that is gone already is no error.
pub async fn close(socket: &mut WebSocket, code: u16, reason: &'static str) {
    let frame = CloseFrame { code, reason: reason.into() };
    // A peer that reads nothing must not hold the task.
    let _ = tokio::time::timeout(Duration::from_secs(5), socket.send(Message::Close(Some(frame)))).await;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_bare_auth_frames_are_ignored() {
        assert!(is_auth_frame(&json!({"type": "auth", "session_api_key": "k"})));
        assert!(is_auth_frame(&json!({"type": "auth"})));
        assert!(!is_auth_frame(&json!({"type": "auth", "role": "user"})));
        assert!(!is_auth_frame(&json!({"type": "text"})));
        assert!(!is_auth_frame(&json!(["auth"])));
    }
}
