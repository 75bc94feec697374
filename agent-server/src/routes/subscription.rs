//! Signing in with a vendor's plan (F2-SUBS-13r): by code, as the person's browser is elsewhere. Answers never hold a token.

use axum::{
    Json, Router,
    routing::{get, post},
};
use openhands_subscription::{Status, SubscriptionError, Vendor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    error::ApiError,
    extract::{Body, Ready},
    sign_in::SignInError,
    state::AppState,
};

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/llm/subscription/openai/models", get(models))
        .route("/api/llm/subscription/openai/status", get(status))
        .route("/api/llm/subscription/openai/device/start", post(start))
        .route("/api/llm/subscription/openai/device/poll", post(poll))
        .route("/api/llm/subscription/openai/logout", post(logout))
}

/// Whether somebody is signed in.
#[derive(Serialize)]
struct StatusAnswer {
    vendor: &'static str,
    connected: bool,
    account_email: Option<String>,
    expires_at: Option<i64>,
}

impl From<Option<Status>> for StatusAnswer {
    fn from(status: Option<Status>) -> Self {
        let (account_email, expires_at) =
            status.map_or((None, None), |status| (status.account_email, Some(status.expires_at)));
        Self { vendor: Vendor::OpenAi.name(), connected: expires_at.is_some(), account_email, expires_at }
    }
}

/// A sign-in that has begun.
#[derive(Serialize)]
struct StartAnswer {
    device_code: String,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_at: i64,
    interval_seconds: u64,
}

/// Which sign-in is asked about.
#[derive(Deserialize)]
struct PollRequest {
    device_code: String,
}

/// `GET .../models`: what a plan pays for.
async fn models() -> Json<Value> {
    Json(json!({"vendor": Vendor::OpenAi.name(), "models": Vendor::OpenAi.models()}))
}

/// `GET .../status`: renews the tokens if need be. Trouble with that counts as not signed in.
async fn status(Ready(app): Ready) -> Json<StatusAnswer> {
    let status = app.sign_ins.subscription().status().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the subscription's tokens cannot be used");
        None
    });
    Json(status.into())
}

/// `POST .../device/start`.
///
/// # Errors
/// 429 while too many wait, 501 where the vendor offers no codes, 503 when it cannot be reached.
async fn start(Ready(app): Ready) -> Result<Json<StartAnswer>, ApiError> {
    let started = app.sign_ins.start().await?;
    let remaining = i64::try_from(started.remaining.as_millis()).unwrap_or(0);
    Ok(Json(StartAnswer {
        device_code: started.secret,
        user_code: started.user_code,
        verification_uri: started.verification_url,
        verification_uri_complete: None,
        expires_at: jiff::Timestamp::now().as_millisecond().saturating_add(remaining),
        interval_seconds: started.interval.as_secs(),
    }))
}

/// `POST .../device/poll`: not connected as long as the code was not entered.
///
/// # Errors
/// 400 when the person said no, 404 for a sign-in that is none or has expired, 503 when the vendor cannot be reached.
async fn poll(Ready(app): Ready, Body(request): Body<PollRequest>) -> Result<Json<StatusAnswer>, ApiError> {
    Ok(Json(app.sign_ins.poll(&request.device_code).await?.into()))
}

/// `POST .../logout`: forgets the tokens and gives up the sign-ins that wait.
///
/// # Errors
/// 500 when the file cannot be removed.
async fn logout(Ready(app): Ready) -> Result<Json<StatusAnswer>, ApiError> {
    app.sign_ins.end().await.map_err(SignInError::from)?;
    Ok(Json(None.into()))
}

impl From<SignInError> for ApiError {
    fn from(error: SignInError) -> Self {
        let text = error.to_string();
        match error {
            SignInError::TooMany => Self::TooManyRequests(text),
            SignInError::Unknown => Self::Missing(text),
            SignInError::Failed(SubscriptionError::NoDeviceLogin(_)) => Self::NotSupported(text),
            SignInError::Failed(SubscriptionError::Unreachable(_) | SubscriptionError::BadAnswer(_)) => {
                Self::Unavailable(text)
            }
            SignInError::Failed(SubscriptionError::Storage { .. }) => Self::internal(error),
            SignInError::Failed(_) => Self::BadRequest(text),
        }
    }
}
