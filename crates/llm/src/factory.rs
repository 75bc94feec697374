//! From a model's configuration to a client.

use std::{collections::BTreeMap, sync::Arc};

use openhands_protocol::LlmConfig;

use crate::{
    ClientOptions, LlmClient, LlmError,
    adapter::Setup,
    anthropic::Anthropic,
    bedrock::Bedrock,
    caller::Caller,
    completion_log::Files,
    endpoint::{Endpoint, Mode},
    fallback::{self, Fallback},
    gemini::Gemini,
    http::http_client,
    info,
    models::Abilities,
    openai::OpenAi,
    plan,
    prompted::{self, Prompted},
    providers::Interface,
    responses::Responses,
    router::{self, Routed, RoutedModel},
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

/// The client of a model slot, with its router and its fallbacks. Connects to nothing yet. With `log_completions` and without an observer each call is written to a file.
///
/// # Errors
/// [`LlmError::NotSupported`] names a provider or setting without an adapter, [`LlmError::BadRequest`] the member that is wrong,
/// [`LlmError::Authentication`] where a key may be set.
pub fn client_with(
    config: &LlmConfig,
    environment: &Environment,
    options: &ClientOptions,
) -> Result<Arc<dyn LlmClient>, LlmError> {
    let client = if config.router_name.is_none() && config.llms_for_routing.is_empty() {
        single(config, environment, options)?
    } else {
        routed(config, environment, options)?
    };
    let Some(strategy) = config.fallback_strategy.as_ref().filter(|strategy| !strategy.fallback_llms.is_empty()) else {
        return Ok(client);
    };
    let look_up = options.profiles.clone().ok_or_else(|| {
        LlmError::NotSupported("llm.fallback_strategy without saved profiles; leave it out".to_owned())
    })?;
    let (environment, options) = (environment.clone(), options.clone());
    // A fallback's own router and fallbacks stay out of it.
    let make: fallback::Make = Arc::new(move |config| single(config, &environment, &options));
    Ok(Arc::new(Fallback::new(client, &config.model, strategy, look_up, make)?))
}

/// A router over the clients of its models, which have their own fallbacks.
fn routed(
    config: &LlmConfig,
    environment: &Environment,
    options: &ClientOptions,
) -> Result<Arc<dyn LlmClient>, LlmError> {
    let router = router::named(config.router_name.as_deref())?;
    let models = config.llms_for_routing.iter().map(|(name, model)| {
        if model.router_name.is_some() || !model.llms_for_routing.is_empty() {
            return Err(LlmError::NotSupported(format!(
                "llm.llms_for_routing.{name} is a router among them; name models"
            )));
        }
        Ok((name.clone(), RoutedModel::new(model.clone(), client_with(model, environment, options)?)))
    });
    Ok(Arc::new(Routed::new(router, models.collect::<Result<_, _>>()?)?))
}

/// The client of one model.
fn single(
    config: &LlmConfig,
    environment: &Environment,
    options: &ClientOptions,
) -> Result<Arc<dyn LlmClient>, LlmError> {
    info::check(config)?;
    let mut options = options.clone();
    if options.observer.is_none() && config.log_completions {
        options.observer = Some(Arc::new(Files::new(&config.log_completions_folder)));
    }
    let endpoint = if plan::is_paid_by_plan(config) {
        plan::endpoint(config, &options)?
    } else {
        Endpoint::of(config, environment)?
    };
    let http = http_client().map_err(|error| LlmError::ServiceUnavailable(error.to_string()))?;
    let mut abilities = Abilities::of(config);
    abilities.inline_images |= endpoint.provider.inline_images;
    if !plan::is_paid_by_plan(config) {
        // A plan's token belongs to its provider alone, also where this is another model's fallback.
        options.credentials.clone_from(&endpoint.credentials);
    }
    let options = &options;
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
        (Interface::Bedrock, _) => Arc::new(Caller::new(Bedrock::new(setup), http, options)?),
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
