//! From a model's configuration to a client.

use std::{collections::BTreeMap, sync::Arc};

use openhands_protocol::LlmConfig;

use crate::{
    LlmClient, LlmError,
    adapter::Setup,
    anthropic::Anthropic,
    bedrock::Bedrock,
    caller::Caller,
    endpoint::{Endpoint, Mode},
    gemini::Gemini,
    http::http_client,
    models::Abilities,
    openai::OpenAi,
    prompted::{self, Prompted},
    providers::Interface,
    responses::Responses,
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
    let abilities = Abilities::of(config);
    let stop = if config.native_tool_calling { Vec::new() } else { vec![prompted::STOP.to_owned()] };
    let setup = Setup { config: config.clone(), endpoint, abilities, stop };
    let client: Arc<dyn LlmClient> = match (setup.endpoint.provider.interface, setup.endpoint.mode) {
        (Interface::OpenAi | Interface::Azure, Mode::Chat) => Arc::new(Caller::new(OpenAi::new(setup), http)?),
        (Interface::OpenAi | Interface::Azure, Mode::Responses) => Arc::new(Caller::new(Responses::new(setup), http)?),
        (Interface::Anthropic, _) => Arc::new(Caller::new(Anthropic::new(setup), http)?),
        (Interface::Gemini, _) => Arc::new(Caller::new(Gemini::new(setup), http)?),
        (Interface::Bedrock, _) => Arc::new(Caller::new(Bedrock::new(setup, environment)?, http)?),
        (Interface::Other, _) => {
            return Err(LlmError::NotSupported(format!("provider {:?}", setup.endpoint.provider.prefix)));
        }
    };
    Ok(if config.native_tool_calling { client } else { Arc::new(Prompted::new(client, config.max_message_chars)) })
}
