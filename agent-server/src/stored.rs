//! What a user keeps on this server, for handlers and conversations: calls away from the async workers, failures as answers, and
//! the header that shows secrets.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use openhands_conversation::{ProfileProblem, Profiles};
use openhands_protocol::LlmConfig;
use openhands_secrets::Cipher;
use openhands_settings::{Invalid, SettingsError, Show, Stores, is_profile_name};

use serde_json::Value;

use crate::{app::App, error::ApiError, extract::path_parameter, validation::Problem};

const PROFILE_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";

/// Reads or changes what is stored; files block.
///
/// # Errors
/// What `work` fails with, as an answer.
pub async fn stored<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&Stores) -> Result<T, SettingsError> + Send + 'static,
) -> Result<T, ApiError> {
    stored_or(app, work, ApiError::from).await
}

/// The same with another answer to failures.
///
/// # Errors
/// What `answer` makes of them.
pub async fn stored_or<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&Stores) -> Result<T, SettingsError> + Send + 'static,
    answer: impl FnOnce(SettingsError) -> ApiError,
) -> Result<T, ApiError> {
    let app = Arc::clone(app);
    let done = tokio::task::spawn_blocking(move || work(&app.stores)).await.map_err(ApiError::internal)?;
    done.map_err(answer)
}

/// For changes of the settings: what is stored and cannot be read is in the way, and must not be written over.
pub fn in_the_way(error: SettingsError) -> ApiError {
    match error {
        SettingsError::Damaged { .. } => ApiError::Conflict(error.to_string()),
        other => other.into(),
    }
}

impl From<SettingsError> for ApiError {
    fn from(error: SettingsError) -> Self {
        let text = error.to_string();
        match error {
            SettingsError::InvalidName(_) | SettingsError::Damaged { .. } => Self::BadRequest(text),
            SettingsError::NotFound { .. } => Self::Missing(text),
            SettingsError::Exists { .. }
            | SettingsError::Full { .. }
            | SettingsError::InUse(_)
            | SettingsError::LostKey(_) => Self::Conflict(text),
            SettingsError::Invalid(_)
            | SettingsError::NoConnection { .. }
            | SettingsError::KeyElsewhere(_)
            | SettingsError::NoKey(_) => Self::Unprocessable(text),
            SettingsError::NotSupported(what) => Self::NotSupported(what),
            SettingsError::NoCipher | SettingsError::Busy(_) => Self::Unavailable(text),
            SettingsError::Store(error) => Self::internal(error),
        }
    }
}

/// A wrong member of `value`, which stands at `below` in the body.
#[must_use]
pub fn invalid_member(below: &[&str], value: &Value, invalid: Invalid) -> ApiError {
    let refused = invalid.member.iter().try_fold(value, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        other => other.get(name),
    });
    let loc = below.iter().copied().map(str::to_owned).chain(invalid.member.iter().cloned());
    let problem = Problem::new("value_error", std::iter::once("body".to_owned()).chain(loc), invalid.reason);
    ApiError::invalid(match refused {
        Some(refused) => problem.input(refused.clone()),
        None => problem,
    })
}

/// A name that cannot be a profile's.
#[must_use]
pub fn invalid_name(loc: [&str; 2], name: &str) -> ApiError {
    let msg = format!("String should match pattern '{PROFILE_PATTERN}'");
    let problem = Problem::new("string_pattern_mismatch", loc, msg).input(name);
    ApiError::invalid(problem.ctx(serde_json::json!({ "pattern": PROFILE_PATTERN })))
}

/// The `name` of the path, one that a profile can have.
pub struct ProfileName(pub String);

impl<S: Send + Sync> FromRequestParts<S> for ProfileName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let name = path_parameter(parts, state, "name").await?;
        if is_profile_name(&name) { Ok(Self(name)) } else { Err(invalid_name(["path", "name"], &name)) }
    }
}

/// How `X-Expose-Secrets` asks for secrets to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Not at all.
    Hidden,
    /// As tokens that this server alone opens.
    Encrypted,
    /// In clear, for clients that call models themselves.
    Plain,
}

impl Exposure {
    /// The form in which values are written.
    ///
    /// # Errors
    /// 503 when tokens are asked for and there is no key to make them with.
    pub fn show(self, cipher: Option<&Cipher>) -> Result<Show<'_>, ApiError> {
        match (self, cipher) {
            (Self::Hidden, _) => Ok(Show::Masked),
            (Self::Plain, _) => Ok(Show::Plain),
            (Self::Encrypted, Some(cipher)) => Ok(Show::Encrypted(cipher)),
            (Self::Encrypted, None) => {
                Err(ApiError::Unavailable("secrets cannot be encrypted: OH_SECRET_KEY is not configured".to_owned()))
            }
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Exposure {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let header = parts.headers.get("x-expose-secrets").and_then(|value| value.to_str().ok()).unwrap_or_default();
        match header.trim().to_ascii_lowercase().as_str() {
            "" => Ok(Self::Hidden),
            // What older frontends send.
            "encrypted" | "true" => Ok(Self::Encrypted),
            "plaintext" => Ok(Self::Plain),
            _ => {
                let text = "X-Expose-Secrets must be \"encrypted\" or \"plaintext\"";
                Err(ApiError::BadRequest(text.to_owned()))
            }
        }
    }
}

/// The stored profiles as conversations ask for them.
pub struct StoredProfiles(pub Stores);

impl Profiles for StoredProfiles {
    fn names(&self) -> Vec<String> {
        self.0.profiles.names().unwrap_or_else(|error| {
            tracing::warn!(%error, "profiles cannot be listed");
            Vec::new()
        })
    }

    fn load(&self, name: &str) -> Result<LlmConfig, ProfileProblem> {
        self.0.load_profile(name).map_err(|error| match error {
            SettingsError::NotFound { name, known, .. } => ProfileProblem::NotFound { name, known },
            other => ProfileProblem::Unusable { name: name.to_owned(), reason: other.to_string() },
        })
    }

    fn complete(&self, mut llm: LlmConfig) -> Result<LlmConfig, ProfileProblem> {
        let id = llm.provider_connection_id.clone().unwrap_or_default();
        self.0
            .connections
            .resolve("llm", &mut llm, self.0.cipher())
            .map_err(|error| ProfileProblem::Unusable { name: id, reason: error.to_string() })?;
        Ok(llm)
    }
}
