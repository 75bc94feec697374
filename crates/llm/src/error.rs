//! What goes wrong with models, by the names the reference's clients know.

use std::time::Duration;

use openhands_protocol::secret::{MASK, SecretText};

/// A failed call. [`LlmError::code`] is the class name on the wire.
#[derive(Debug, thiserror::Error)]
pub enum LlmError {
    /// Wrong or missing key.
    #[error("{0}")]
    Authentication(String),
    /// Too many requests; the provider may have said how long to wait.
    #[error("{message}")]
    RateLimit {
        /// The provider's text.
        message: String,
        /// What `Retry-After` said.
        retry_after: Option<Duration>,
    },
    /// The provider is overloaded, down or unreachable.
    #[error("{0}")]
    ServiceUnavailable(String),
    /// No answer in time, or a stream that stood still.
    #[error("{0}")]
    Timeout(String),
    /// The provider refuses the request as it is.
    #[error("{0}")]
    BadRequest(String),
    /// The prompt is longer than the model's context window.
    #[error("{0}")]
    ContextWindowExceeded(String),
    /// The model's context window is too small for an agent; found when the client is made.
    #[error("{0}")]
    ContextWindowTooSmall(String),
    /// The provider refuses the history: calls and results do not fit together. Condensing it helps.
    #[error("{0}")]
    MalformedHistory(String),
    /// The provider refuses what the prompt is about.
    #[error("{0}")]
    ContentPolicy(String),
    /// The provider failed (other 5xx).
    #[error("{0}")]
    Internal(String),
    /// An answer that is no answer: broken JSON, no choices, cut stream.
    #[error("{0}")]
    NoResponse(String),
    /// A provider or setting that this build does not support; names it.
    #[error("not supported: {0}")]
    NotSupported(String),
    /// Cancelled by the caller.
    #[error("the call was cancelled")]
    Cancelled,
}

impl LlmError {
    /// The class name clients know.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Authentication(_) => "LLMAuthenticationError",
            Self::RateLimit { .. } => "LLMRateLimitError",
            Self::ServiceUnavailable(_) | Self::Internal(_) => "LLMServiceUnavailableError",
            Self::Timeout(_) => "LLMTimeoutError",
            Self::BadRequest(_) | Self::NotSupported(_) => "LLMBadRequestError",
            Self::ContextWindowExceeded(_) => "LLMContextWindowExceedError",
            Self::ContextWindowTooSmall(_) => "LLMContextWindowTooSmallError",
            Self::MalformedHistory(_) => "LLMMalformedConversationHistoryError",
            Self::ContentPolicy(_) => "LLMContentPolicyViolationError",
            Self::NoResponse(_) => "LLMNoResponseError",
            Self::Cancelled => "UserCancelledError",
        }
    }

    /// The same with these secrets taken out of its text. Short ones stay: they are placeholders, and would leave no text.
    pub(crate) fn without<'a>(mut self, secrets: impl Iterator<Item = &'a SecretText>) -> Self {
        let text = match &mut self {
            Self::Authentication(text)
            | Self::ServiceUnavailable(text)
            | Self::Timeout(text)
            | Self::BadRequest(text)
            | Self::ContextWindowExceeded(text)
            | Self::ContextWindowTooSmall(text)
            | Self::MalformedHistory(text)
            | Self::ContentPolicy(text)
            | Self::Internal(text)
            | Self::NoResponse(text)
            | Self::NotSupported(text)
            | Self::RateLimit { message: text, .. } => text,
            Self::Cancelled => return self,
        };
        for secret in secrets.map(|secret| secret.expose().trim()).filter(|secret| secret.len() >= 6) {
            *text = text.replace(secret, MASK);
        }
        self
    }

    /// Whether the same request may succeed later (F1-LLM-09).
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::RateLimit { .. }
                | Self::ServiceUnavailable(_)
                | Self::Timeout(_)
                | Self::Internal(_)
                | Self::NoResponse(_)
        )
    }
}
