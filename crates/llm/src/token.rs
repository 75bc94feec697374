//! Credentials that change while a client lives: plans, service accounts, roles.
//!
//! Knows neither how they are obtained nor where they are kept; a [`TokenSource`] does. A client asks before each attempt, and
//! once more when the provider refuses what it was given.

use std::fmt;

use async_trait::async_trait;
use openhands_protocol::secret::SecretText;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::LlmError;

/// What authorises one attempt.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Sent as `Authorization: Bearer`.
    Bearer {
        /// The token.
        token: SecretText,
        /// Headers that belong to it, such as the account that pays. They win over those of the configuration.
        headers: Vec<(HeaderName, HeaderValue)>,
    },
    /// Signs requests to AWS.
    Aws {
        /// Names the key.
        access_key_id: SecretText,
        /// The key.
        secret_access_key: SecretText,
        /// Present with temporary keys.
        session_token: Option<SecretText>,
    },
}

impl Credentials {
    /// A token without headers of its own.
    pub fn bearer(token: impl Into<String>) -> Self {
        Self::Bearer { token: SecretText::new(token), headers: Vec::new() }
    }

    /// Sets the headers of a bearer token; signing is the adapter's business.
    ///
    /// # Errors
    /// [`LlmError::Authentication`] when no header can carry the token.
    pub fn add_to(&self, headers: &mut HeaderMap) -> Result<(), LlmError> {
        let Self::Bearer { token, headers: own } = self else { return Ok(()) };
        let value = crate::caller::secret_header(&format!("Bearer {}", token.expose().trim()), "the access token")?;
        headers.insert(AUTHORIZATION, value);
        for (name, value) in own {
            headers.insert(name.clone(), value.clone());
        }
        Ok(())
    }

    /// The values that no text may show.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &SecretText> {
        let (one, more, last) = match self {
            Self::Bearer { token, .. } => (token, None, None),
            Self::Aws { access_key_id, secret_access_key, session_token } => {
                (access_key_id, Some(secret_access_key), session_token.as_ref())
            }
        };
        [Some(one), more, last].into_iter().flatten()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bearer { .. } => f.write_str("Bearer"),
            Self::Aws { .. } => f.write_str("Aws"),
        }
    }
}

/// Where a client gets its credentials from. Shared by all calls; implementations see to it that many callers at once cause
/// one renewal.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// The only address that these credentials are for, when they are bound to one; it wins over `llm.base_url`. By default they
    /// go where the configuration says.
    fn base_url(&self) -> Option<Url> {
        None
    }

    /// Credentials that are good now, renewed when their time is nearly over. Answers from memory as a rule: it is asked before
    /// every attempt.
    ///
    /// # Errors
    /// [`LlmError::Authentication`] when somebody must sign in (the text says how), [`LlmError::ServiceUnavailable`] or
    /// [`LlmError::Timeout`] when the issuer cannot be reached.
    async fn current(&self) -> Result<Credentials, LlmError>;

    /// Called once in a call when the provider answers 401: other credentials than `refused`, if there are such.
    ///
    /// # Errors
    /// As [`TokenSource::current`]; the provider's refusal is reported then, with this text.
    async fn renewed(&self, refused: &Credentials) -> Result<Credentials, LlmError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_becomes_headers_and_is_never_shown() {
        let credentials = Credentials::Bearer {
            token: SecretText::new(" secret "),
            headers: vec![(HeaderName::from_static("account"), HeaderValue::from_static("a"))],
        };
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer other"));
        credentials.add_to(&mut headers).unwrap();
        assert_eq!(
            (headers["authorization"].to_str().unwrap(), &headers["account"]),
            ("Bearer secret", &HeaderValue::from_static("a"))
        );
        assert!(headers["authorization"].is_sensitive());
        assert_eq!(format!("{credentials:?}"), "Bearer");
        let error = Credentials::bearer("a\nb").add_to(&mut headers).unwrap_err();
        assert_eq!(error.code(), "LLMAuthenticationError");
    }
}
