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

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Map, Value};
use url::Url;

use crate::{
    LlmError, LlmRequest,
    adapter::{Adapter, Attempt, Setup},
    caller::secret_header,
    failure::Reported,
    models::Thinking,
    openai::INTERLEAVED,
    providers::Issuer,
};

/// The interface's version.
const VERSION: &str = "2023-06-01";

const VERSION_AT_GOOGLE: &str = "vertex-2023-10-16";

/// A model behind Messages.
pub(crate) struct Anthropic {
    setup: Setup,
}

impl Anthropic {
    pub(crate) const fn new(setup: Setup) -> Self {
        Self { setup }
    }

    /// Whether the model is asked in Google's cloud, which has the interface below addresses of its own.
    fn is_at_google(&self) -> bool {
        self.setup.endpoint.provider.issuer == Issuer::Google
    }
}

impl Adapter for Anthropic {
    type Reading = Assembly;

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn url(&self, streamed: bool) -> Url {
        let mut url = self.setup.endpoint.url.clone();
        if self.is_at_google() {
            let path = format!("{}:{}", url.path(), if streamed { "streamRawPredict" } else { "rawPredict" });
            url.set_path(&path);
        }
        url
    }

    fn body(&self, request: &LlmRequest, attempt: Attempt) -> Result<Map<String, Value>, LlmError> {
        let mut body = request::Rendering { setup: &self.setup, attempt }.members(request);
        if self.is_at_google() {
            // The model is named by the address.
            body.remove("model");
            body.insert("anthropic_version".to_owned(), VERSION_AT_GOOGLE.into());
        }
        Ok(body)
    }

    fn headers(&self) -> Result<HeaderMap, LlmError> {
        let mut headers = HeaderMap::new();
        let key = self.setup.endpoint.key.as_ref().map(|key| key.expose().trim());
        if self.is_at_google() {
            // The version is in the body there.
            if let Some(token) = key {
                headers.insert(AUTHORIZATION, secret_header(&format!("Bearer {token}"), "llm.api_key")?);
            }
        } else {
            headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
            if let Some(key) = key {
                headers.insert("x-api-key", secret_header(key, "llm.api_key")?);
            }
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
