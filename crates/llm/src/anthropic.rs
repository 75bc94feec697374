//! The adapter for Anthropic's Messages.

mod caching;
mod error;
mod request;
mod response;
mod stream;
mod thinking;

pub(crate) use self::{
    request::whole,
    response::Assembly,
    thinking::{ask_to_think, ends_in_unsigned_calls, is_signed},
};

use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Map, Value};

use crate::{
    LlmError, LlmRequest,
    adapter::{Adapter, Attempt, Setup},
    caller::secret_header,
    failure::Reported,
    models::Thinking,
    openai::INTERLEAVED,
};

/// The interface's version.
const VERSION: &str = "2023-06-01";

/// A model behind Messages.
pub(crate) struct Anthropic {
    setup: Setup,
}

impl Anthropic {
    pub(crate) const fn new(setup: Setup) -> Self {
        Self { setup }
    }
}

impl Adapter for Anthropic {
    type Reading = Assembly;

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn body(&self, request: &LlmRequest, attempt: Attempt) -> Result<Map<String, Value>, LlmError> {
        Ok(request::Rendering { setup: &self.setup, attempt }.members(request))
    }

    fn headers(&self) -> Result<HeaderMap, LlmError> {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
        if let Some(key) = &self.setup.endpoint.key {
            headers.insert("x-api-key", secret_header(key.expose().trim(), "llm.api_key")?);
        }
        if self.setup.abilities.thinking == Thinking::Budget {
            headers.insert("anthropic-beta", HeaderValue::from_static(INTERLEAVED));
        }
        Ok(headers)
    }

    fn reported(&self, document: &Value) -> Option<Reported> {
        error::in_document(document)
    }
}

/// Why it stopped, in the words of Chat Completions.
pub(crate) fn finish_reason(stop: &str) -> String {
    match stop {
        "end_turn" | "stop_sequence" | "pause_turn" => "stop",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" => "tool_calls",
        "refusal" | "guardrail_intervened" | "content_filtered" => "content_filter",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests;
