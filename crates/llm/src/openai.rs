//! The adapter for Chat Completions and everything that speaks it, Azure's deployments too.

mod caching;
mod error;
mod request;
mod response;
mod stream;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use self::response::Assembly;
use crate::{
    LlmError, LlmRequest,
    adapter::{Adapter, Attempt, Setup},
    caller::secret_header,
    endpoint::Endpoint,
    failure::Reported,
    models::Thinking,
    providers::KeyHeader,
};

/// Lets Claude think between its calls; needed beside a thinking budget.
pub(crate) const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";

/// A model behind Chat Completions.
pub(crate) struct OpenAi {
    setup: Setup,
}

impl OpenAi {
    pub(crate) const fn new(setup: Setup) -> Self {
        Self { setup }
    }
}

impl Adapter for OpenAi {
    type Reading = Assembly;

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn body(&self, request: &LlmRequest, attempt: Attempt) -> Result<Map<String, Value>, LlmError> {
        Ok(request::Rendering { setup: &self.setup, attempt }.members(request))
    }

    fn headers(&self) -> Result<HeaderMap, LlmError> {
        let mut headers = key_headers(&self.setup.endpoint)?;
        if self.is_openrouter() {
            let config = &self.setup.config;
            for (name, value) in
                [("http-referer", &config.openrouter_site_url), ("x-title", &config.openrouter_app_name)]
            {
                if let Ok(value) = HeaderValue::from_str(value) {
                    headers.insert(HeaderName::from_static(name), value);
                }
            }
        } else if self.setup.abilities.thinking == Thinking::Budget {
            headers.insert("anthropic-beta", HeaderValue::from_static(INTERLEAVED));
        }
        Ok(headers)
    }

    fn reported(&self, document: &Value) -> Option<Reported> {
        error::in_document(document)
    }
}

impl OpenAi {
    fn is_openrouter(&self) -> bool {
        request::is_openrouter(&self.setup)
    }
}

/// The key, in the header that the provider reads.
pub(crate) fn key_headers(endpoint: &Endpoint) -> Result<HeaderMap, LlmError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = &endpoint.key {
        let key = key.expose().trim();
        let is_azure =
            |host: &str| [".services.ai.azure.com", ".openai.azure.com"].iter().any(|end| host.ends_with(end));
        let in_own_header = match endpoint.provider.key_header {
            KeyHeader::Bearer => false,
            KeyHeader::ApiKey => true,
            KeyHeader::ByHost => endpoint.url.host_str().is_some_and(is_azure),
        };
        if in_own_header {
            headers.insert("api-key", secret_header(key, "llm.api_key")?);
        } else {
            headers.insert(AUTHORIZATION, secret_header(&format!("Bearer {key}"), "llm.api_key")?);
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
