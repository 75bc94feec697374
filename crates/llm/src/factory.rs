//! From a model's configuration to a client.

use std::{collections::BTreeMap, sync::Arc};

use openhands_protocol::LlmConfig;

use crate::{
    LlmClient, LlmError,
    http::http_client,
    openai::OpenAiClient,
    providers::{Endpoint, Interface},
};

/// Variables that may hold a provider's key. Given on purpose: the process's own environment is never looked at.
pub type Environment = BTreeMap<String, String>;

/// The client of a model slot. Connects to nothing yet.
///
/// # Errors
/// [`LlmError::NotSupported`] names a provider or setting without an adapter, [`LlmError::BadRequest`] the member that is wrong,
/// [`LlmError::Authentication`] where a key may be set.
pub fn client_for(config: &LlmConfig, environment: &Environment) -> Result<Arc<dyn LlmClient>, LlmError> {
    let endpoint = Endpoint::of(config, environment)?;
    let http = http_client().map_err(|error| LlmError::ServiceUnavailable(error.to_string()))?;
    match endpoint.provider.interface {
        Interface::OpenAi => Ok(Arc::new(OpenAiClient::new(config.clone(), endpoint, http)?)),
        Interface::Other => Err(LlmError::NotSupported(format!("provider {:?}", endpoint.provider.prefix))),
    }
}
