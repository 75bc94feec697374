//! The adapter for OpenAI's Responses, stateless: reasoning is replayed encrypted, nothing is stored at the provider.

mod plan;
mod request;
mod response;
mod stream;

use reqwest::header::{HeaderMap, HeaderValue};
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
    fn is_paid_by_plan(&self) -> bool {
        crate::plan::is_paid_by_plan(&self.setup.config)
    }

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
        let rendering = request::Rendering { setup: &self.setup, attempt };
        Ok(if self.is_paid_by_plan() { rendering.plan_members(request) } else { rendering.members(request) })
    }

    fn headers(&self) -> Result<HeaderMap, LlmError> {
        let mut headers = key_headers(&self.setup.endpoint)?;
        if self.is_paid_by_plan() {
            for (name, value) in plan::HEADERS {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
        Ok(headers)
    }

    fn streams_only(&self) -> bool {
        self.is_paid_by_plan()
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
