//! Google's access tokens: by a service account's key, by a person's refresh token, or from the metadata server of a machine or pod
//! (workload identity of GKE).
//!
//! Looked for as Google's own libraries document it: `api_key` of the configuration when it is a credentials document,
//! `VERTEXAI_CREDENTIALS` (a document or a file), `GOOGLE_APPLICATION_CREDENTIALS` (a file), gcloud's file below `HOME`, the metadata
//! server.

mod account;
mod metadata;

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use openhands_protocol::{LlmConfig, secret::SecretText};
use serde_json::Value;

use self::account::Account;
use super::{
    Surroundings,
    kept::{Issued, Issuer, Kept},
    surroundings::{self, required},
};
use crate::{LlmError, TokenSource, factory::Environment};

const VARIABLES: [&str; 2] = ["VERTEXAI_CREDENTIALS", "VERTEX_CREDENTIALS"];
const FILE_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

/// Who gives tokens.
enum Google {
    Account(Box<Account>),
    /// The metadata server at this address.
    Metadata(String),
}

#[async_trait]
impl Issuer for Google {
    async fn issue(&self) -> Result<Issued, LlmError> {
        match self {
            Self::Account(account) => account.issue().await,
            Self::Metadata(address) => metadata::issue(address).await,
        }
    }
}

/// What was found: who gives tokens, and the project that the credentials name.
pub(crate) struct Found {
    pub(crate) tokens: Arc<dyn TokenSource>,
    pub(crate) project: Option<String>,
}

/// Whether a key of the configuration is a credentials document rather than a token.
pub(crate) fn is_document(key: &SecretText) -> bool {
    key.expose().trim_start().starts_with('{')
}

/// The tokens for a model.
///
/// # Errors
/// [`LlmError::Authentication`] names the document that is wrong, [`LlmError::NotSupported`] one of an unknown kind.
pub(crate) fn tokens_for(config: &LlmConfig, environment: &Environment) -> Result<Found, LlmError> {
    let surroundings = Surroundings::of(environment);
    let found = match document(config, &surroundings)? {
        Some((document, place)) => {
            let account = Account::of(&document, &place)?;
            let project = account.project.clone();
            (Google::Account(Box::new(account)), project)
        }
        None => (Google::Metadata(metadata::address(&surroundings)), None),
    };
    Ok(Found { tokens: Arc::new(Kept::new(found.0)), project: found.1 })
}

/// The credentials document, and what names it.
fn document(config: &LlmConfig, surroundings: &Surroundings) -> Result<Option<(Value, String)>, LlmError> {
    let parse = |text: &str, place: &str| {
        let document = serde_json::from_str(text).map_err(|error| {
            // The parser's words hold no piece of the text.
            LlmError::Authentication(format!("the Google credentials of {place} are no JSON: {error}"))
        })?;
        Ok(Some((document, place.to_owned())))
    };
    if let Some(key) = config.api_key.as_ref().filter(|key| is_document(key)) {
        return parse(key.expose(), "llm.api_key");
    }
    if let Some((name, value)) = VARIABLES.iter().find_map(|name| Some((*name, surroundings.get(name)?))) {
        let text = if value.starts_with('{') { value.to_owned() } else { required(value, name)? };
        return parse(&text, name);
    }
    if let Some(file) = surroundings.get(FILE_VARIABLE) {
        return parse(&required(file, FILE_VARIABLE)?, FILE_VARIABLE);
    }
    let folder = surroundings.path("CLOUDSDK_CONFIG", ".config/gcloud");
    let file = folder.map(|folder| folder.join("application_default_credentials.json"));
    match file.as_deref().map(surroundings::read).transpose()?.flatten() {
        Some(text) => parse(&text, &shown(file.as_deref())),
        None => Ok(None),
    }
}

fn shown(file: Option<&Path>) -> String {
    file.map(|file| file.display().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
