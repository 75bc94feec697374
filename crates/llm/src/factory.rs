//! From a model's configuration to a client.

use std::{collections::BTreeMap, sync::Arc};

use openhands_protocol::LlmConfig;

use crate::{
    ClientOptions, LlmClient, LlmError,
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

/// An agent's prompt and tools alone take most of less (F1-LLM-12), tokens.
const SMALLEST_WINDOW: u64 = 16_384;
/// Lets smaller ones through.
const ALLOW_SHORT: &str = "ALLOW_SHORT_CONTEXT_WINDOWS";

/// Variables that may hold a provider's key. Given on purpose: the process's own environment is never looked at.
pub type Environment = BTreeMap<String, String>;

/// The client of a model slot, with default options; see [`client_with`].
///
/// # Errors
/// As [`client_with`].
pub fn client_for(config: &LlmConfig, environment: &Environment) -> Result<Arc<dyn LlmClient>, LlmError> {
    client_with(config, environment, &ClientOptions::default())
}

/// The client of a model slot. Connects to nothing yet.
///
/// # Errors
/// [`LlmError::NotSupported`] names a provider or setting without an adapter, [`LlmError::BadRequest`] the member that is wrong,
/// [`LlmError::Authentication`] where a key may be set.
pub fn client_with(
    config: &LlmConfig,
    environment: &Environment,
    options: &ClientOptions,
) -> Result<Arc<dyn LlmClient>, LlmError> {
    let endpoint = Endpoint::of(config, environment)?;
    let http = http_client().map_err(|error| LlmError::ServiceUnavailable(error.to_string()))?;
    let abilities = Abilities::of(config);
    check_window(config, &abilities, environment)?;
    let stop = if config.native_tool_calling { Vec::new() } else { vec![prompted::STOP.to_owned()] };
    let setup = Setup { config: config.clone(), endpoint, abilities, stop };
    let client: Arc<dyn LlmClient> = match (setup.endpoint.provider.interface, setup.endpoint.mode) {
        (Interface::OpenAi | Interface::Azure, Mode::Chat) => Arc::new(Caller::new(OpenAi::new(setup), http, options)?),
        (Interface::OpenAi | Interface::Azure, Mode::Responses) => {
            Arc::new(Caller::new(Responses::new(setup), http, options)?)
        }
        (Interface::Anthropic, _) => Arc::new(Caller::new(Anthropic::new(setup), http, options)?),
        (Interface::Gemini, _) => Arc::new(Caller::new(Gemini::new(setup), http, options)?),
        (Interface::Bedrock, _) => Arc::new(Caller::new(Bedrock::new(setup, environment)?, http, options)?),
        (Interface::Other, _) => {
            return Err(LlmError::NotSupported(format!("provider {:?}", setup.endpoint.provider.prefix)));
        }
    };
    Ok(if config.native_tool_calling { client } else { Arc::new(Prompted::new(client, config.max_message_chars)) })
}

fn check_window(config: &LlmConfig, abilities: &Abilities, environment: &Environment) -> Result<(), LlmError> {
    let is_allowed =
        environment.get(ALLOW_SHORT).is_some_and(|word| matches!(word.trim(), "true" | "True" | "1" | "yes"));
    // 0 is a window that nobody knows.
    if is_allowed || !(1..SMALLEST_WINDOW).contains(&abilities.context_window) {
        return Ok(());
    }
    Err(LlmError::ContextWindowTooSmall(format!(
        "{} has a context window of {} tokens, an agent needs {SMALLEST_WINDOW}; use another model, correct llm.max_input_tokens, or set \
         {ALLOW_SHORT}=true",
        config.model, abilities.context_window
    )))
}

#[cfg(test)]
mod tests {
    use openhands_protocol::secret::SecretText;

    use super::*;

    #[test]
    fn small_windows_are_refused_unless_allowed() {
        let made = |model: &str, window: Option<u64>, environment: &[(&str, &str)]| {
            let config = LlmConfig {
                model: model.to_owned(),
                api_key: Some(SecretText::new("k")),
                max_input_tokens: window,
                ..LlmConfig::default()
            };
            let environment =
                environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            client_for(&config, &environment).err().map(|error| error.code())
        };
        let refused = Some("LLMContextWindowTooSmallError");
        assert_eq!(made("openai/gpt-4", None, &[]), refused);
        assert_eq!(made("openai/gpt-4", None, &[("ALLOW_SHORT_CONTEXT_WINDOWS", "true")]), None);
        assert_eq!(made("openai/gpt-4", Some(32_000), &[]), None);
        assert_eq!(made("openai/unknown", Some(4096), &[]), refused);
        assert_eq!(made("openai/unknown", None, &[]), None);
    }
}
