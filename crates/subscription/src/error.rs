//! What goes wrong while signing in or with what is stored.

use std::path::PathBuf;

use openhands_llm::LlmError;

/// A failed sign-in, or a plan that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SubscriptionError {
    /// No plan of this vendor can be used.
    #[error("llm.subscription_vendor {0:?} is not supported; the only vendor is \"openai\"")]
    UnsupportedVendor(String),
    /// The plan does not pay for this model.
    #[error("model {model:?} is not available with a subscription; use one of {}", known.join(", "))]
    UnsupportedModel {
        /// The model asked for.
        model: String,
        /// Those there are.
        known: &'static [&'static str],
    },
    /// Nothing is stored.
    #[error(
        "not signed in to OpenAI: sign in with `openhands-agent-server subscription login`, or with the device routes of the server"
    )]
    NotSignedIn,
    /// The issuer does not accept the stored tokens any more.
    #[error("the sign-in is no longer accepted, sign in again: {0}")]
    Refused(String),
    /// The person said no at the notice.
    #[error("the sign-in was not agreed to")]
    Declined,
    /// Nobody is there to agree, and nobody has before.
    #[error(
        "the notice of the sign-in was never agreed to and there is no terminal to ask on; sign in once on a terminal, or pass --accept-terms"
    )]
    ConsentNeeded,
    /// The browser could not come back to us.
    #[error("port {0} on localhost is in use; end the other sign-in, or set OPENHANDS_OAUTH_PORT")]
    PortInUse(u16),
    /// Nobody finished the sign-in in time.
    #[error("the sign-in was not finished within {0} s")]
    TimedOut(u64),
    /// The person, or the vendor, said no.
    #[error("the sign-in was denied: {0}")]
    Denied(String),
    /// The code was not entered in time.
    #[error("the code has expired, start again")]
    Expired,
    /// This account or server offers no sign-in by code.
    #[error(
        "sign-in by code is not offered by {0}; use the browser, or switch it on in the account's security settings"
    )]
    NoDeviceLogin(String),
    /// Given up by the caller.
    #[error("the sign-in was given up")]
    Cancelled,
    /// The issuer cannot be reached or fails; later may be better.
    #[error("cannot reach the sign-in service: {0}")]
    Unreachable(String),
    /// The issuer answered something that is no answer.
    #[error("the sign-in service gave an unusable answer: {0}")]
    BadAnswer(String),
    /// An address out of the environment.
    #[error("{variable}: {problem}")]
    Setting {
        /// The variable.
        variable: &'static str,
        /// What is wrong, and how to mend it.
        problem: String,
    },
    /// The tokens cannot be read, written or locked.
    #[error("cannot {what} {}: {source}", path.display())]
    Storage {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
}

impl SubscriptionError {
    pub(crate) fn storage(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Storage { what, path, source }
    }

    /// Whether the same may succeed later without anybody's doing.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }
}

impl From<SubscriptionError> for LlmError {
    fn from(error: SubscriptionError) -> Self {
        let text = error.to_string();
        match error {
            SubscriptionError::UnsupportedVendor(_)
            | SubscriptionError::UnsupportedModel { .. }
            | SubscriptionError::Setting { .. } => Self::BadRequest(text),
            SubscriptionError::Unreachable(_) | SubscriptionError::BadAnswer(_) | SubscriptionError::Storage { .. } => {
                Self::ServiceUnavailable(text)
            }
            SubscriptionError::Cancelled => Self::Cancelled,
            SubscriptionError::NotSignedIn
            | SubscriptionError::Refused(_)
            | SubscriptionError::Declined
            | SubscriptionError::ConsentNeeded
            | SubscriptionError::PortInUse(_)
            | SubscriptionError::TimedOut(_)
            | SubscriptionError::Denied(_)
            | SubscriptionError::Expired
            | SubscriptionError::NoDeviceLogin(_) => Self::Authentication(text),
        }
    }
}
