//! Turns every failure of a request into an answer in the reference's shapes: `{"detail": ...}`, the validation list of a 422,
//! and for faults of the server a generic text beside an error id that the log repeats. Inner detail never reaches the caller.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::validation::Problem;

/// Why a request is not answered with success.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// 400.
    #[error("{0}")]
    BadRequest(String),
    /// 401, always with the same body.
    #[error("Unauthorized")]
    Unauthorized,
    /// 403.
    #[error("{0}")]
    Forbidden(String),
    /// 404 with the text that an unknown route has too.
    #[error("Not Found")]
    NotFound,
    /// 404 with a text of its own.
    #[error("{0}")]
    Missing(String),
    /// 405; the methods that exist, for `Allow`.
    #[error("Method Not Allowed")]
    MethodNotAllowed,
    /// 409.
    #[error("{0}")]
    Conflict(String),
    /// 413.
    #[error("{0}")]
    TooLarge(String),
    /// 422 with the list of problems.
    #[error("invalid request")]
    Invalid(Vec<Problem>),
    /// 422 with a plain text.
    #[error("{0}")]
    Unprocessable(String),
    /// 429.
    #[error("{0}")]
    TooManyRequests(String),
    /// 501: the reference can, this version cannot. The text names what.
    #[error("not supported: {0}")]
    NotSupported(String),
    /// 503; the reason becomes part of the body.
    #[error("{0}")]
    Unavailable(String),
    /// 504: what was asked for takes longer than anybody waits.
    #[error("{0}")]
    GatewayTimeout(String),
    /// 500 with a reason that the caller may read (an initialisation that failed).
    #[error("{0}")]
    Failed(String),
    /// 500 without a reason: the cause is logged beside an error id.
    #[error("internal error")]
    Internal(#[source] anyhow::Error),
}

impl ApiError {
    /// A fault of the server; `cause` is logged with its sources.
    pub fn internal(cause: impl Into<anyhow::Error>) -> Self {
        Self::Internal(cause.into())
    }

    /// One problem of the request.
    #[must_use]
    pub fn invalid(problem: impl Into<Box<Problem>>) -> Self {
        Self::Invalid(vec![*problem.into()])
    }

    /// The status of the answer.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::NotFound | Self::Missing(_) => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Invalid(_) | Self::Unprocessable(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooManyRequests(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::NotSupported(_) => StatusCode::NOT_IMPLEMENTED,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::GatewayTimeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Failed(_) | Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn body(&self) -> Value {
        match self {
            Self::Invalid(problems) => json!({ "detail": problems }),
            Self::Unavailable(reason) | Self::Failed(reason) => json!({
                "detail": "Internal Server Error",
                "exception": format!("{}: {reason}", self.status().as_u16()),
            }),
            Self::Internal(cause) => {
                let error_id = Uuid::new_v4().simple().to_string();
                tracing::error!(%error_id, error = format!("{cause:#}"), "request failed");
                json!({ "detail": "Internal Server Error", "exception": "internal error", "error_id": error_id })
            }
            other => json!({ "detail": other.to_string() }),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status(), Json(self.body())).into_response();
        if matches!(self, Self::TooManyRequests(_)) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// The answer to a path that no route has.
pub async fn not_found() -> ApiError {
    ApiError::NotFound
}

/// The answer to a method that the path does not have.
pub async fn method_not_allowed() -> ApiError {
    ApiError::MethodNotAllowed
}

/// What a handler that panicked answers: the same body as any fault, the panic's text only in the log.
#[must_use]
pub fn panicked(panic: Box<dyn std::any::Any + Send + 'static>) -> Response {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&'static str>().copied())
        .unwrap_or("panic without a text");
    ApiError::Internal(anyhow::anyhow!("handler panicked: {text}")).into_response()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn answer(error: ApiError) -> (u16, Value) {
        let response = error.into_response();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn bodies_have_the_shapes_of_the_reference() {
        assert_eq!(answer(ApiError::NotFound).await, (404, json!({"detail": "Not Found"})));
        assert_eq!(answer(ApiError::Unauthorized).await, (401, json!({"detail": "Unauthorized"})));
        assert_eq!(answer(ApiError::MethodNotAllowed).await, (405, json!({"detail": "Method Not Allowed"})));
        assert_eq!(
            answer(ApiError::Unavailable("dormant".into())).await,
            (503, json!({"detail": "Internal Server Error", "exception": "503: dormant"}))
        );
        assert_eq!(
            answer(ApiError::NotSupported("forks".into())).await,
            (501, json!({"detail": "not supported: forks"}))
        );
        let (status, body) = answer(ApiError::internal(anyhow::anyhow!("the disk said no"))).await;
        assert_eq!((status, &body["exception"]), (500, &json!("internal error")));
        assert_eq!(body["error_id"].as_str().unwrap().len(), 32);
    }
}
