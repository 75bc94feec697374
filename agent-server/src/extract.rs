//! Extractors: bad paths and bodies die here with a 422 in the reference's shape, and a server that is not initialised has
//! no [`App`] to hand out.

use std::sync::Arc;

use axum::{
    extract::{FromRequest, FromRequestParts, RawPathParams, Request, rejection::BytesRejection},
    http::{StatusCode, request::Parts},
};
use bytes::Bytes;
use openhands_protocol::ConversationId;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    error::ApiError,
    query::uuid_text,
    state::{App, AppState},
    validation::{self, Problem},
};

/// The initialised application; 503 while there is none.
pub struct Ready(pub Arc<App>);

impl FromRequestParts<AppState> for Ready {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        state.app().map(Self)
    }
}

/// A JSON object read as `T`; the content type does not matter, as clients in the field forget it.
pub struct Body<T>(pub T);

/// A JSON list read as items.
pub struct ListBody<T>(pub Vec<T>);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        read_object(whole_body(request, state).await?).map(Self)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for ListBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let value = whole_body(request, state).await?.ok_or_else(no_body)?;
        validation::read("body", value).map(Self).map_err(ApiError::invalid)
    }
}

/// Reads a body that must be an object. A list would pass as a structure whose members have defaults.
///
/// # Errors
/// 422.
pub fn read_object<T: DeserializeOwned>(body: Option<Value>) -> Result<T, ApiError> {
    let value = body.ok_or_else(no_body)?;
    if !value.is_object() {
        let msg = "Input should be a valid dictionary or object to extract fields from";
        return Err(ApiError::invalid(Problem::new("model_attributes_type", ["body"], msg).input(value)));
    }
    validation::read("body", value).map_err(ApiError::invalid)
}

fn no_body() -> ApiError {
    ApiError::invalid(Problem::new("missing", ["body"], "Field required").input(Value::Null))
}

/// A JSON body as it is; `None` when there is none.
pub struct RawBody(pub Option<Value>);

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        whole_body(request, state).await.map(Self)
    }
}

async fn whole_body<S: Send + Sync>(request: Request, state: &S) -> Result<Option<Value>, ApiError> {
    let bytes = Bytes::from_request(request, state).await.map_err(|rejection: BytesRejection| {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            ApiError::TooLarge("the request body is larger than this server accepts".to_owned())
        } else {
            ApiError::BadRequest("the request body could not be read".to_owned())
        }
    })?;
    if bytes.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|error| ApiError::invalid(validation::not_json(&error)))
}

/// The `conversation_id` of the path.
pub struct ConversationPath(pub ConversationId);

impl<S: Send + Sync> FromRequestParts<S> for ConversationPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = path_parameter(parts, state, "conversation_id").await?;
        text.parse().map(Self).map_err(|error| {
            ApiError::invalid(
                Problem::new("uuid_parsing", ["path", "conversation_id"], uuid_text(&error)).input(text.as_str()),
            )
        })
    }
}

/// A parameter of the path as text, percent escapes resolved.
///
/// # Errors
/// 404 when the route has no such parameter or it is no UTF-8.
pub async fn path_parameter<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, ApiError> {
    let parameters = RawPathParams::from_request_parts(parts, state).await.map_err(|_| ApiError::NotFound)?;
    parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).ok_or(ApiError::NotFound)
}
