//! The adapter for OpenAI's Responses, stateless: reasoning is replayed encrypted, nothing is stored at the provider.

mod request;
mod response;
mod stream;

use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

use self::response::Assembly;
use crate::{
    LlmError, LlmRequest,
    adapter::{Adapter, Attempt, Setup},
    failure::{self, Reported},
    openai::key_headers,
};

/// A model behind Responses.
pub(crate) struct Responses {
    setup: Setup,
}

impl Responses {
    pub(crate) const fn new(setup: Setup) -> Self {
        Self { setup }
    }
}

impl Adapter for Responses {
    type Reading = Assembly;

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn body(&self, request: &LlmRequest, attempt: Attempt) -> Result<Map<String, Value>, LlmError> {
        Ok(request::Rendering { setup: &self.setup, attempt }.members(request))
    }

    fn headers(&self) -> Result<HeaderMap, LlmError> {
        key_headers(&self.setup.endpoint)
    }

    fn reported(&self, document: &Value) -> Option<Reported> {
        match document.get("type").and_then(Value::as_str) {
            // Flat or nested.
            Some("error") => {
                Some(failure::reported(document.get("error").filter(|error| error.is_object()).unwrap_or(document)))
            }
            Some("response.failed") => Some(failure::reported(document.pointer("/response/error").unwrap_or(document))),
            Some(_) => None,
            None => document.get("error").filter(|error| !error.is_null()).map(failure::reported),
        }
    }
}

#[cfg(test)]
mod tests;
