//! The adapter for Google's generateContent.

mod request;
mod response;

use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Map, Value};
use url::Url;

use self::response::Assembly;
use crate::{
    LlmError, LlmRequest,
    adapter::{Adapter, Attempt, Setup},
    caller::secret_header,
    failure::{self, Reported},
    providers::Issuer,
};

/// A model behind generateContent.
pub(crate) struct Gemini {
    setup: Setup,
}

impl Gemini {
    pub(crate) const fn new(setup: Setup) -> Self {
        Self { setup }
    }
}

impl Adapter for Gemini {
    type Reading = Assembly;
    const INLINE_IMAGES: bool = true;

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn url(&self, streamed: bool) -> Url {
        let mut url = self.setup.endpoint.url.clone();
        let word = if streamed { "streamGenerateContent" } else { "generateContent" };
        let path = format!("{}:{word}", url.path());
        url.set_path(&path);
        if streamed {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        url
    }

    fn body(&self, request: &LlmRequest, attempt: Attempt) -> Result<Map<String, Value>, LlmError> {
        Ok(request::Rendering { setup: &self.setup, attempt }.members(request))
    }

    fn headers(&self) -> Result<HeaderMap, LlmError> {
        let mut headers = HeaderMap::new();
        if let Some(key) = &self.setup.endpoint.key {
            let key = key.expose().trim();
            if self.setup.endpoint.provider.issuer == Issuer::Google {
                headers.insert(AUTHORIZATION, secret_header(&format!("Bearer {key}"), "llm.api_key")?);
            } else {
                headers.insert("x-goog-api-key", secret_header(key, "llm.api_key")?);
            }
        }
        Ok(headers)
    }

    fn reported(&self, document: &Value) -> Option<Reported> {
        // A refused stream answers with a list of one.
        let document = document.get(0).unwrap_or(document);
        if let Some(error) = document.get("error").filter(|error| !error.is_null()) {
            return Some(failure::reported(error));
        }
        let blocked = document.pointer("/promptFeedback/blockReason").and_then(Value::as_str)?;
        let message = format!("the prompt was blocked: {blocked}");
        let has_answer = document.get("candidates").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        (!has_answer).then(|| Reported { status: Some(400), raw: format!("content_policy {blocked}"), message })
    }
}

#[cfg(test)]
mod tests;
