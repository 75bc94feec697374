//! Where a model's calls go: address, interface, key, out of configuration, environment and the provider's row.
//!
//! Keys of the environment go to the provider's own hosts and to addresses that the environment names, never to one that only a
//! configuration names: configurations come from clients and lie in files that an agent's tools can write.

mod address;
mod names;

use std::sync::Arc;

use openhands_protocol::{LlmConfig, secret::SecretText};
use url::Url;

use crate::{
    LlmError, TokenSource, clouds,
    factory::Environment,
    models::Abilities,
    providers::{Interface, Issuer, Provider, named},
};

/// Last of the variables a key is looked for in.
const ANY_KEY: &str = "LLM_API_KEY";
/// The address that belongs to that key.
const ANY_BASE: &str = "LLM_BASE_URL";

/// Which of a provider's interfaces is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Chat,
    Responses,
}

/// Where calls go.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) provider: &'static Provider,
    pub(crate) mode: Mode,
    /// The name the provider knows the model by.
    pub(crate) model: String,
    /// Of the whole call; for Gemini and Bedrock, whose addresses depend on streaming, without its last word.
    pub(crate) url: Url,
    pub(crate) key: Option<SecretText>,
    /// AWS's region; empty elsewhere.
    pub(crate) region: String,
    /// Where credentials come from when there is no key.
    pub(crate) credentials: Option<Arc<dyn TokenSource>>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { provider, mode, model, url, key, region, credentials } = self;
        let mut shown = formatter.debug_struct("Endpoint");
        shown.field("provider", &provider.prefix).field("mode", mode).field("model", model).field("url", &url.as_str());
        shown.field("key", key).field("region", region).field("credentials", &credentials.is_some()).finish()
    }
}

impl Endpoint {
    pub(crate) fn of(config: &LlmConfig, environment: &Environment) -> Result<Self, LlmError> {
        let (provider, model) = named(config);
        if model.is_empty() {
            return Err(LlmError::BadRequest("llm.model is empty, name a model such as openai/gpt-5".to_owned()));
        }
        if provider.interface == Interface::Other {
            return Err(LlmError::NotSupported(format!(
                "provider {:?} of llm.model {:?}; use a model behind an OpenAI-compatible address (openai/<model> with llm.base_url)",
                provider.prefix, config.model
            )));
        }
        if config.is_subscription || config.auth_type == "subscription" {
            return Err(LlmError::NotSupported("llm.auth_type \"subscription\"; configure llm.api_key".to_owned()));
        }
        let mode = mode(config, provider)?;
        let variable = |names: &[&str]| {
            names.iter().filter_map(|name| environment.get(*name)).find(|value| !value.trim().is_empty()).cloned()
        };
        let own = |base: &Option<String>| base.clone().filter(|base| !base.trim().is_empty());
        let ollama = || own(&config.ollama_base_url).filter(|_| provider.prefix.starts_with("ollama"));
        let bedrock = || own(&config.aws_bedrock_runtime_endpoint).filter(|_| provider.interface == Interface::Bedrock);
        let told = own(&config.base_url).or_else(ollama).or_else(bedrock);
        let of_environment = variable(provider.base_variables);
        let key = config.api_key.clone().filter(|key| !key.expose().trim().is_empty());
        let (mut region, mut place, mut credentials, mut known) = (String::new(), None, None, None);
        let mut model = model.to_owned();
        match provider.issuer {
            Issuer::Aws => {
                let (found, name) = names::bedrock(config, environment, &model)?;
                known = Some(format!("https://bedrock-runtime.{found}.{}", clouds::aws::domain(&found)));
                (region, model) = (found, name.to_owned());
            }
            Issuer::Google => {
                let is_token = key.as_ref().is_some_and(|key| !clouds::google::is_document(key));
                let found = if is_token { None } else { Some(clouds::google::tokens_for(config, environment)?) };
                let project = found.as_ref().and_then(|found| found.project.clone());
                let (path, address) = names::vertex(config, environment, &model, project)?;
                (place, known, credentials) = (Some(path), Some(address), found.map(|found| found.tokens));
            }
            Issuer::Nobody | Issuer::Entra if provider.prefix == "huggingface" => model = names::hugging_face(&model),
            Issuer::Nobody | Issuer::Entra => {}
        }
        let known = known.or_else(|| provider.base_url.map(ToOwned::to_owned));
        let base = told.clone().or_else(|| of_environment.clone()).or_else(|| known.clone());
        let base = base.ok_or_else(|| {
            LlmError::BadRequest(format!(
                "llm.base_url is not set, and provider {:?} has no address of its own",
                provider.prefix
            ))
        })?;
        let parts = address::Parts { provider, mode, base: base.trim(), model: &model, place: place.as_deref() };
        let url = address::of(&parts, config, environment)?;
        let is_located = told.is_some() || of_environment.is_some();
        let homes = [of_environment, known, environment.get(ANY_BASE).cloned()];
        let is_home = told.is_none() || is_home(&url, provider, homes.into_iter().flatten());
        // A credentials document is no key by itself.
        let mut key = key.filter(|key| !(provider.issuer == Issuer::Google && clouds::google::is_document(key)));
        if key.is_none() && credentials.is_none() && is_home {
            let any = Some(ANY_KEY).filter(|_| provider.interface != Interface::Bedrock);
            let any = || any.and_then(|name| variable(&[name]));
            let own = || variable(provider.key_variables);
            // That key goes with its address where one is named, and nowhere else then.
            let of_any = match variable(&[ANY_BASE]).and_then(|base| Url::parse(base.trim()).ok()) {
                None => own().or_else(any),
                Some(base) if destination(&base) == destination(&url) => any().or_else(own),
                Some(_) => own(),
            };
            key = of_any.map(SecretText::new);
        }
        if key.is_none() {
            match provider.issuer {
                Issuer::Aws => credentials = Some(clouds::aws::keys_for(config, environment, &region)?),
                Issuer::Entra if is_home => credentials = clouds::microsoft::tokens_for(environment)?,
                Issuer::Nobody | Issuer::Google | Issuer::Entra => {}
            }
        }
        if credentials.is_some() && !is_home && !clouds::is_of_configuration(config, provider.issuer) {
            return Err(LlmError::Authentication(format!(
                "credentials of the environment do not go to {}, which only llm.base_url names: set llm.api_key, or the address by {}",
                url.host_str().unwrap_or_default(),
                provider.base_variables.join(" or ")
            )));
        }
        if key.is_none() && credentials.is_none() && !provider.keyless && !is_located {
            let variables = provider.key_variables.join(" or ");
            return Err(LlmError::Authentication(format!(
                "no key for {}: set llm.api_key or {variables}",
                config.model
            )));
        }
        Ok(Self { provider, mode, model, url, key, region, credentials })
    }
}

/// Whether an address belongs to the provider, or to one that the environment names.
fn is_home(url: &Url, provider: &Provider, homes: impl Iterator<Item = String>) -> bool {
    let host = url.host_str().unwrap_or_default();
    let is_own = url.scheme() == "https" && provider.owns(host);
    is_own
        || homes
            .into_iter()
            .filter_map(|home| Url::parse(home.trim()).ok())
            .any(|home| destination(&home) == destination(url))
}

/// What must be equal for two addresses to be one destination.
fn destination(url: &Url) -> (Option<&str>, Option<u16>, &str) {
    (url.host_str(), url.port_or_known_default(), url.scheme())
}

/// Which interface the model is asked on (F1-LLM-33).
fn mode(config: &LlmConfig, provider: &Provider) -> Result<Mode, LlmError> {
    match config.api_mode.as_str() {
        "chat" => Ok(Mode::Chat),
        "responses" if provider.responses => Ok(Mode::Responses),
        "responses" => Err(LlmError::NotSupported(format!(
            "llm.api_mode \"responses\" with provider {:?}; set it to \"auto\" or \"chat\"",
            provider.prefix
        ))),
        "auto" | "" => {
            let suits = provider.responses && config.native_tool_calling && Abilities::of(config).responses;
            Ok(if suits { Mode::Responses } else { Mode::Chat })
        }
        other => Err(LlmError::BadRequest(format!(
            "llm.api_mode {other:?} is unknown, set it to \"auto\", \"chat\" or \"responses\""
        ))),
    }
}

#[cfg(test)]
mod tests;
