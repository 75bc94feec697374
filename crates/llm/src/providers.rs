//! Which provider a model's name means, and where and how it is reached (F1-LLM-02, F1-LLM-39).

use openhands_protocol::{LlmConfig, secret::SecretText};
use url::Url;

use crate::{LlmError, factory::Environment};

/// The interface a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    /// Chat Completions.
    OpenAi,
    /// One that this build has no adapter for.
    Other,
}

/// A provider. The prefix is taken off the model's name before it is sent.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) prefix: &'static str,
    pub(crate) interface: Interface,
    /// Without one the configuration must say where.
    pub(crate) base_url: Option<&'static str>,
    /// Where its key is looked for when the configuration has none.
    pub(crate) key_variables: &'static [&'static str],
    /// Its word for the longest answer.
    pub(crate) max_tokens_member: &'static str,
    /// Whether it takes `top_k`, which Chat Completions does not have.
    pub(crate) takes_top_k: bool,
}

const fn openai(
    prefix: &'static str,
    base_url: Option<&'static str>,
    key_variables: &'static [&'static str],
    max_tokens_member: &'static str,
    takes_top_k: bool,
) -> Provider {
    Provider { prefix, interface: Interface::OpenAi, base_url, key_variables, max_tokens_member, takes_top_k }
}

const fn other(prefix: &'static str) -> Provider {
    Provider {
        prefix,
        interface: Interface::Other,
        base_url: None,
        key_variables: &[],
        max_tokens_member: "max_tokens",
        takes_top_k: false,
    }
}

const NEW: &str = "max_completion_tokens";
const OLD: &str = "max_tokens";

static PROVIDERS: &[Provider] = &[
    openai("openai", Some("https://api.openai.com/v1"), &["OPENAI_API_KEY"], NEW, false),
    openai("litellm_proxy", None, &["LITELLM_PROXY_API_KEY"], NEW, true),
    openai("openhands", Some("https://llm-proxy.app.all-hands.dev"), &["OPENHANDS_API_KEY"], NEW, true),
    openai("openrouter", Some("https://openrouter.ai/api/v1"), &["OPENROUTER_API_KEY"], OLD, true),
    openai("deepseek", Some("https://api.deepseek.com/v1"), &["DEEPSEEK_API_KEY"], OLD, false),
    openai("groq", Some("https://api.groq.com/openai/v1"), &["GROQ_API_KEY"], NEW, false),
    openai("mistral", Some("https://api.mistral.ai/v1"), &["MISTRAL_API_KEY"], OLD, false),
    openai("xai", Some("https://api.x.ai/v1"), &["XAI_API_KEY"], NEW, false),
    openai("moonshot", Some("https://api.moonshot.ai/v1"), &["MOONSHOT_API_KEY"], OLD, false),
    openai("together_ai", Some("https://api.together.xyz/v1"), &["TOGETHERAI_API_KEY", "TOGETHER_API_KEY"], OLD, true),
    openai(
        "fireworks_ai",
        Some("https://api.fireworks.ai/inference/v1"),
        &["FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"],
        OLD,
        true,
    ),
    openai("hosted_vllm", None, &["HOSTED_VLLM_API_KEY"], OLD, true),
    openai("lm_studio", None, &["LM_STUDIO_API_KEY"], OLD, true),
    openai("custom_openai", None, &[], OLD, false),
    other("anthropic"),
    other("azure"),
    other("azure_ai"),
    other("bedrock"),
    other("cohere"),
    other("gemini"),
    other("ollama"),
    other("ollama_chat"),
    other("sagemaker"),
    other("vertex_ai"),
    other("watsonx"),
];

/// For names without a known prefix: whatever answers at the configured address, asked by the whole name.
static UNNAMED: Provider = openai("", None, &["OPENAI_API_KEY"], NEW, false);

/// Last of the variables a key is looked for in.
const ANY_KEY: &str = "LLM_API_KEY";

/// Where calls go.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) provider: &'static Provider,
    /// The name the provider knows the model by.
    pub(crate) model: String,
    pub(crate) url: Url,
    pub(crate) key: Option<SecretText>,
}

impl Endpoint {
    pub(crate) fn of(config: &LlmConfig, environment: &Environment) -> Result<Self, LlmError> {
        let (provider, model) = named(&config.model);
        if model.is_empty() {
            return Err(LlmError::BadRequest("llm.model is empty, name a model such as openai/gpt-5".to_owned()));
        }
        if provider.interface == Interface::Other {
            return Err(LlmError::NotSupported(format!(
                "provider {:?} of llm.model {:?}; use a model behind an OpenAI-compatible address (openai/<model> with llm.base_url)",
                provider.prefix, config.model
            )));
        }
        if config.api_mode == "responses" {
            return Err(LlmError::NotSupported(
                "llm.api_mode \"responses\"; set it to \"auto\" or \"chat\"".to_owned(),
            ));
        }
        if config.is_subscription || config.auth_type == "subscription" {
            return Err(LlmError::NotSupported("llm.auth_type \"subscription\"; configure llm.api_key".to_owned()));
        }
        let configured = config.base_url.as_deref().map(str::trim).filter(|base| !base.is_empty());
        // A bare name without an address is OpenAI's.
        let fallback = if provider.prefix.is_empty() { named("openai/x").0.base_url } else { provider.base_url };
        let base = configured.or(fallback).ok_or_else(|| {
            LlmError::BadRequest(format!(
                "llm.base_url is not set, and provider {:?} has no address of its own",
                provider.prefix
            ))
        })?;
        let key = config.api_key.clone().or_else(|| {
            let names = provider.key_variables.iter().chain([&ANY_KEY]);
            names.filter_map(|name| environment.get(*name)).find(|key| !key.trim().is_empty()).map(SecretText::new)
        });
        let key = key.filter(|key| !key.expose().trim().is_empty());
        if key.is_none() && configured.is_none() {
            let variables = provider.key_variables.join(" or ");
            return Err(LlmError::Authentication(format!(
                "no key for {}: set llm.api_key or {variables}",
                config.model
            )));
        }
        Ok(Self { provider, model: model.to_owned(), url: completions_url(base)?, key })
    }
}

/// The provider and the model's name there. Only a known prefix is taken off: names of self-served models hold slashes too.
fn named(model: &str) -> (&'static Provider, &str) {
    let model = model.trim();
    model
        .split_once('/')
        .and_then(|(prefix, rest)| Some((PROVIDERS.iter().find(|provider| provider.prefix == prefix)?, rest)))
        .unwrap_or((&UNNAMED, model))
}

fn completions_url(base: &str) -> Result<Url, LlmError> {
    let wrong = |why: &str| LlmError::BadRequest(format!("llm.base_url {base:?} {why}"));
    let mut url = Url::parse(base).map_err(|error| wrong(&format!("is no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("must begin with http:// or https:// and name a host"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with("/chat/completions") {
        url.set_path(&format!("{path}/chat/completions"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(
        model: &str,
        base_url: Option<&str>,
        environment: &[(&str, &str)],
    ) -> Result<(String, String, Option<String>), LlmError> {
        let config =
            LlmConfig { model: model.to_owned(), base_url: base_url.map(ToOwned::to_owned), ..LlmConfig::default() };
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let endpoint = Endpoint::of(&config, &environment)?;
        Ok((endpoint.model, endpoint.url.to_string(), endpoint.key.map(|key| key.expose().to_owned())))
    }

    #[test]
    fn names_and_addresses() {
        let local = Some("http://127.0.0.1:9/s/x/v1/");
        let at = |path: &str| format!("http://127.0.0.1:9{path}");
        for (model, base_url, expected_model, expected_url) in [
            ("openai/mock-model", local, "mock-model", at("/s/x/v1/chat/completions")),
            ("openai/meta/llama", local, "meta/llama", at("/s/x/v1/chat/completions")),
            ("mock-model", local, "mock-model", at("/s/x/v1/chat/completions")),
            ("meta-llama/Llama-3", local, "meta-llama/Llama-3", at("/s/x/v1/chat/completions")),
            ("litellm_proxy/claude-opus", Some("http://127.0.0.1:9"), "claude-opus", at("/chat/completions")),
            ("x", Some("http://127.0.0.1:9/v1/chat/completions/"), "x", at("/v1/chat/completions/")),
            ("x", Some("http://127.0.0.1:9/v1?tenant=a"), "x", at("/v1/chat/completions?tenant=a")),
        ] {
            assert_eq!(
                endpoint(model, base_url, &[]).unwrap(),
                (expected_model.to_owned(), expected_url, None),
                "{model}"
            );
        }
        let key = [("OPENAI_API_KEY", "o"), ("LLM_API_KEY", "l")];
        let expected = |url: &str, key: &str| ("m".to_owned(), url.to_owned(), Some(key.to_owned()));
        assert_eq!(endpoint("m", None, &key).unwrap(), expected("https://api.openai.com/v1/chat/completions", "o"));
        assert_eq!(
            endpoint("groq/m", None, &key).unwrap(),
            expected("https://api.groq.com/openai/v1/chat/completions", "l")
        );
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        for (model, base_url, part) in [
            ("anthropic/claude", Some("http://127.0.0.1:9"), "provider \"anthropic\""),
            ("gemini/pro", None, "provider \"gemini\""),
            ("hosted_vllm/m", None, "llm.base_url is not set"),
            ("gpt-5", None, "set llm.api_key or OPENAI_API_KEY"),
            ("openai/", Some("http://h"), "llm.model is empty"),
            ("m", Some("127.0.0.1:9"), "llm.base_url"),
            ("m", Some("ftp://h/"), "must begin with http"),
        ] {
            let error = endpoint(model, base_url, &[]).unwrap_err();
            assert!(error.to_string().contains(part), "{model}: {error}");
        }
    }
}
