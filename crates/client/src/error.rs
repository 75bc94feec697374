//! Why an exchange with a server failed.

use http::StatusCode;

/// Longest detail kept from an answer that is an error, bytes.
pub(crate) const MAX_DETAIL: usize = 512;

/// Why an exchange failed. Whether the server acted is known only for [`ClientError::Connect`] (it did not) and
/// [`ClientError::Refused`] (it said so).
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there, or not in time.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// `host:port`.
        address: String,
        /// What happened.
        reason: String,
    },
    /// The answer did not come in time.
    #[error("{request}: no answer in time")]
    Timeout {
        /// Method and path.
        request: String,
    },
    /// The connection broke.
    #[error("{request}: the connection broke")]
    Broken {
        /// Method and path.
        request: String,
        /// What happened.
        #[source]
        source: hyper::Error,
    },
    /// The answer is larger than allowed, or no JSON of the expected shape.
    #[error("{request}: the answer is not usable: {reason}")]
    Unusable {
        /// Method and path.
        request: String,
        /// What is wrong.
        reason: String,
    },
    /// The server said no.
    #[error("{request}: the server answered {status}: {detail}")]
    Refused {
        /// Method and path.
        request: String,
        /// The status.
        status: StatusCode,
        /// The beginning of its reason.
        detail: String,
    },
}

impl ClientError {
    /// The status of an answer that is an error.
    #[must_use]
    pub const fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}
