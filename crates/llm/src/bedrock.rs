//! The adapter for Converse of AWS Bedrock, by bearer token or signed requests.

mod request;
mod response;

use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Map, Value};
use url::Url;

use self::response::Assembly;
use crate::{
    Credentials, LlmError, LlmRequest,
    adapter::{Adapter, Attempt, Framing, Setup},
    caller::secret_header,
    clouds::aws::{Keys, Signing},
    failure::{self, Reported},
};

/// The name that signatures know it by.
const SERVICE: &str = "bedrock";

/// A model behind Converse.
pub(crate) struct Bedrock {
    setup: Setup,
}

impl Bedrock {
    pub(crate) const fn new(setup: Setup) -> Self {
        Self { setup }
    }
}

impl Adapter for Bedrock {
    type Reading = Assembly;
    const FRAMING: Framing = Framing::Aws;
    const INLINE_IMAGES: bool = true;

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn url(&self, streamed: bool) -> Url {
        let mut url = self.setup.endpoint.url.clone();
        let path = format!("{}/{}", url.path(), if streamed { "converse-stream" } else { "converse" });
        url.set_path(&path);
        url
    }

    fn body(&self, request: &LlmRequest, attempt: Attempt) -> Result<Map<String, Value>, LlmError> {
        Ok(request::Rendering { setup: &self.setup, attempt }.members(request))
    }

    fn headers(&self) -> Result<HeaderMap, LlmError> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.setup.endpoint.key {
            headers.insert(AUTHORIZATION, secret_header(&format!("Bearer {}", token.expose().trim()), "llm.api_key")?);
        }
        Ok(headers)
    }

    fn sign(&self, credentials: &Credentials, url: &Url, headers: &mut HeaderMap, body: &[u8]) -> Result<(), LlmError> {
        let Some(keys) = Keys::of(credentials) else { return Ok(()) };
        let signing = Signing { keys: &keys, region: &self.setup.endpoint.region, service: SERVICE };
        signing.sign(url, headers, body, jiff::Timestamp::now())
    }

    fn reported(&self, document: &Value) -> Option<Reported> {
        document.get("error").filter(|error| error.is_object()).map(failure::reported)
    }
}

#[cfg(test)]
mod tests;
