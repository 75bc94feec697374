//! The adapter for Converse of AWS Bedrock, by bearer token or signed requests.

mod credentials;
mod request;
mod response;
mod signature;

pub(crate) use self::signature::encoded;

use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Map, Value};
use url::Url;

use self::{credentials::Credentials, response::Assembly};
use crate::{
    LlmError, LlmRequest,
    adapter::{Adapter, Attempt, Framing, Setup},
    caller::secret_header,
    factory::Environment,
    failure::{self, Reported},
};

/// A model behind Converse.
pub(crate) struct Bedrock {
    setup: Setup,
    credentials: Credentials,
}

impl Bedrock {
    pub(crate) fn new(setup: Setup, environment: &Environment) -> Result<Self, LlmError> {
        let credentials = Credentials::of(&setup, environment)?;
        Ok(Self { setup, credentials })
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
        if let Credentials::Bearer(token) = &self.credentials {
            headers.insert(AUTHORIZATION, secret_header(&format!("Bearer {}", token.expose().trim()), "llm.api_key")?);
        }
        Ok(headers)
    }

    fn sign(&self, url: &Url, headers: &mut HeaderMap, body: &[u8]) -> Result<(), LlmError> {
        match &self.credentials {
            Credentials::Bearer(_) => Ok(()),
            Credentials::Keys(keys) => {
                signature::sign(keys, &self.setup.endpoint.region, url, headers, body, jiff::Timestamp::now())
            }
        }
    }

    fn reported(&self, document: &Value) -> Option<Reported> {
        document.get("error").filter(|error| error.is_object()).map(failure::reported)
    }
}

#[cfg(test)]
mod tests;
