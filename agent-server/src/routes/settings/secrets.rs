//! The user's own secrets: `/api/settings/secrets`. Lists never hold values; one value is read as plain text, by name.

use axum::{
    Json,
    extract::Path,
    http::header,
    response::{IntoResponse, Response},
};
use openhands_protocol::secret::MASK;
use openhands_settings::{SettingsError, is_secret_name};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    error::ApiError,
    extract::{Body, Ready},
    query::Query,
    stored::stored_or,
};

#[derive(Deserialize)]
pub(super) struct PutSecret {
    name: String,
    value: String,
    #[serde(default)]
    description: Option<String>,
}

/// `GET /api/settings/secrets`.
pub(super) async fn list(Ready(app): Ready, query: Query) -> Result<Json<Value>, ApiError> {
    if query.text("agent_profile_id").is_some() {
        return Err(ApiError::NotSupported("agent_profile_id: agent profiles".to_owned()));
    }
    let items = stored_or(&app, |stores| stores.secrets.list(), unreadable).await?;
    let secrets: Vec<Value> =
        items.into_iter().map(|item| json!({ "name": item.name, "description": item.description })).collect();
    Ok(Json(json!({ "secrets": secrets })))
}

/// `GET /api/settings/secrets/{name}`: the value.
pub(super) async fn value(Ready(app): Ready, Path(name): Path<String>) -> Result<Response, ApiError> {
    check_name(&name)?;
    let asked = name.clone();
    let value = stored_or(&app, move |stores| stores.secrets.value(&asked, stores.cipher()), unreadable).await?;
    let Some(value) = value else {
        tracing::warn!(secret = name, "a secret that does not exist was asked for");
        return Err(missing());
    };
    tracing::info!(secret = name, "a secret was read");
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, value.expose().to_owned()).into_response())
}

/// `PUT /api/settings/secrets`: adds or replaces.
pub(super) async fn put(Ready(app): Ready, Body(secret): Body<PutSecret>) -> Result<Json<Value>, ApiError> {
    let PutSecret { name, value, description } = secret;
    check_name(&name)?;
    if value.trim().is_empty() || value == MASK {
        return Err(ApiError::Unprocessable("value: must not be blank or asterisks".to_owned()));
    }
    let answer = json!({ "name": name, "description": description });
    let saved = name.clone();
    stored_or(
        &app,
        move |stores| stores.secrets.put(&saved, &value, description.as_deref(), stores.cipher()),
        unreadable,
    )
    .await?;
    tracing::info!(secret = name, "a secret was saved");
    Ok(Json(answer))
}

/// `DELETE /api/settings/secrets/{name}`.
pub(super) async fn delete(Ready(app): Ready, Path(name): Path<String>) -> Result<Json<Value>, ApiError> {
    check_name(&name)?;
    let deleted = name.clone();
    if !stored_or(&app, move |stores| stores.secrets.delete(&deleted), unreadable).await? {
        return Err(missing());
    }
    tracing::info!(secret = name, "a secret was deleted");
    Ok(Json(json!({ "deleted": true })))
}

fn check_name(name: &str) -> Result<(), ApiError> {
    if is_secret_name(name) {
        return Ok(());
    }
    let text = "name: use 1 to 64 letters, digits and underscores, a letter first";
    Err(ApiError::Unprocessable(text.to_owned()))
}

/// The same for every name, so that nobody can find out which exist.
fn missing() -> ApiError {
    ApiError::Missing("there is no such secret".to_owned())
}

/// A damaged file is the server's trouble, not the request's.
fn unreadable(error: SettingsError) -> ApiError {
    match error {
        SettingsError::Damaged { .. } => ApiError::Failed(error.to_string()),
        other => other.into(),
    }
}
