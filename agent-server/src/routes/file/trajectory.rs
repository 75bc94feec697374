//! A conversation as a file to keep: everything that is stored of it, without what opens anything.

use std::path::Path;

use axum::{extract::State, http::HeaderMap, response::Response};
use openhands_protocol::{ConversationId, secret};
use openhands_secrets::is_token;
use openhands_workspace::archive::zip_folder;
use serde_json::Value;

use super::send::send;
use crate::{
    error::ApiError,
    extract::{ConversationPath, Ready},
    state::{App, AppState},
};

/// Most bytes of the files of a conversation.
const MAX_TRAJECTORY: u64 = 16 * 1024 * 1024 * 1024;

/// `GET /api/file/download-trajectory/{conversation_id}`: a zip file.
pub(super) async fn download(
    Ready(app): Ready,
    State(state): State<AppState>,
    ConversationPath(id): ConversationPath,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    state.clock().touch();
    pack(&app, id, &headers).await
}

/// Packs what is stored of a conversation. It may be running meanwhile.
async fn pack(app: &App, id: ConversationId, headers: &HeaderMap) -> Result<Response, ApiError> {
    let directory = app.conversations.root().join(id.hex());
    if !tokio::fs::try_exists(&directory).await.unwrap_or(false) {
        return Err(ApiError::Missing("Conversation not found".to_owned()));
    }
    // What was told already is to be in it; what the disk refuses cannot be.
    if let Some(live) = app.conversations.awake(id) {
        let _ = live.events().settled().await;
    }
    let packed = tokio::task::spawn_blocking(move || {
        zip_folder(&directory, &format!("{}.zip", id.hex()), MAX_TRAJECTORY, |path, bytes| {
            is_kept(path).then(|| without_secrets(path, bytes))
        })
    });
    send(packed.await.map_err(ApiError::internal)??, "application/octet-stream", headers).await
}

/// Saves in progress, locks and leases are of this moment only; credentials of other agents lie under `acp`.
fn is_kept(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_passing =
        name.starts_with('.') || name == "owner_lease.json" || path.extension().is_some_and(|ending| ending == "tmp");
    !is_passing && !path.starts_with("acp")
}

/// JSON without keys, also without encrypted ones. Other content and what is no JSON stays as it is.
fn without_secrets(path: &Path, bytes: Vec<u8>) -> Vec<u8> {
    if path.extension().is_none_or(|ending| ending != "json") {
        return bytes;
    }
    let Ok(mut json) = serde_json::from_slice::<Value>(&bytes) else { return bytes };
    let before = json.clone();
    secret::map_llm_secrets(&mut json, &mut |_| Some(secret::MASK.to_owned()));
    hide_tokens(&mut json);
    if json == before { bytes } else { serde_json::to_vec(&json).unwrap_or_default() }
}

fn hide_tokens(json: &mut Value) {
    match json {
        Value::String(text) if is_token(text) => *json = secret::MASK.into(),
        Value::Array(items) => items.iter_mut().for_each(hide_tokens),
        Value::Object(members) => members.values_mut().for_each(hide_tokens),
        _ => {}
    }
}
