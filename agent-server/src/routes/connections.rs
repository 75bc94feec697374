//! Provider connections: `/api/llm/provider-connections`. Keys go in and never come out.

use axum::{
    Json, Router,
    extract::Path,
    http::StatusCode,
    routing::{get, patch},
};
use openhands_protocol::secret::{MASK, SecretText};
use openhands_settings::{Connection, ConnectionChange, NewConnection, SettingsError};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    error::ApiError,
    extract::{Body, Ready, read_object},
    state::AppState,
    stored::{invalid_member, stored, stored_or},
    validation::Problem,
};

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/llm/provider-connections", get(list).post(create))
        .route("/api/llm/provider-connections/{connection_id}", patch(update).delete(delete))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    display_name: String,
    #[serde(default = "custom")]
    provider: String,
    api_key: SecretText,
    #[serde(default)]
    base_url: Option<String>,
}

fn custom() -> String {
    "custom".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Update {
    #[serde(default)]
    display_name: Option<String>,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    api_key: Option<SecretText>,
    #[serde(default)]
    base_url: Option<String>,
}

fn answer(connection: &Connection, api_key_set: bool) -> Value {
    let Connection { id, display_name, provider, api_key: _, base_url, created_at, updated_at } = connection;
    json!({
        "id": id, "display_name": display_name, "provider": provider, "base_url": base_url,
        "created_at": created_at, "updated_at": updated_at, "api_key_set": api_key_set,
    })
}

/// `GET /api/llm/provider-connections`.
async fn list(Ready(app): Ready) -> Result<Json<Value>, ApiError> {
    let connections = stored(&app, |stores| stores.connections.list(stores.cipher())).await?;
    Ok(Json(connections.iter().map(|connection| answer(connection, connection.api_key.is_some())).collect()))
}

/// `POST /api/llm/provider-connections`.
async fn create(Ready(app): Ready, Body(body): Body<Create>) -> Result<(StatusCode, Json<Value>), ApiError> {
    let Create { display_name, provider, api_key, base_url } = body;
    check_key(&api_key)?;
    let new = NewConnection { display_name, provider, api_key, base_url };
    let made = stored_or(&app, move |stores| stores.connections.create(new, stores.cipher()), named).await?;
    tracing::info!(connection = made.id, "provider connection created");
    Ok((StatusCode::CREATED, Json(answer(&made, true))))
}

/// `PATCH /api/llm/provider-connections/{connection_id}`. Another address without a fresh key drops the key, as the answer says.
async fn update(
    Ready(app): Ready,
    Path(id): Path<String>,
    Body(members): Body<Map<String, Value>>,
) -> Result<Json<Value>, ApiError> {
    let given = |member: &str| members.contains_key(member);
    let null = |member: &str| members.get(member).is_some_and(Value::is_null);
    if let Some(member) = ["display_name", "provider"].into_iter().find(|member| null(member)) {
        let problem = Problem::new("value_error", ["body"], format!("{member} cannot be null"));
        return Err(ApiError::invalid(problem));
    }
    if null("api_key") {
        return Err(ApiError::Unprocessable("api_key cannot be removed: give a new one, or delete it all".to_owned()));
    }
    if members.is_empty() {
        return Err(ApiError::Unprocessable("give at least one member to change".to_owned()));
    }
    let new_address = given("base_url");
    let Update { display_name, provider, api_key, base_url } = read_object(Some(Value::Object(members)))?;
    if let Some(key) = &api_key {
        check_key(key)?;
    }
    let change = ConnectionChange { display_name, provider, api_key, base_url: new_address.then_some(base_url) };
    let changed = stored_or(&app, move |stores| stores.connections.update(&id, change, stores.cipher()), named).await?;
    tracing::info!(connection = changed.id, api_key_set = changed.api_key.is_some(), "provider connection changed");
    Ok(Json(answer(&changed, changed.api_key.is_some())))
}

/// `DELETE /api/llm/provider-connections/{connection_id}`: what was removed; 409 while something uses it.
async fn delete(Ready(app): Ready, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let gone = stored(&app, move |stores| stores.delete_connection(&id)).await?;
    tracing::info!(connection = gone.id, "provider connection deleted");
    Ok(Json(answer(&gone, false)))
}

/// A wrong member with its place in the body.
fn named(error: SettingsError) -> ApiError {
    match error {
        SettingsError::Invalid(invalid) => invalid_member(&[], &Value::Null, invalid),
        other => other.into(),
    }
}

fn check_key(key: &SecretText) -> Result<(), ApiError> {
    if key.expose().trim().is_empty() || key.expose() == MASK {
        let msg = "api_key must be a key, not blank or asterisks";
        return Err(ApiError::invalid(Problem::new("value_error", ["body", "api_key"], msg)));
    }
    Ok(())
}
