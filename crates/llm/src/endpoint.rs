//! Where a model's calls go: address, interface, key, out of configuration, environment and the provider's row.

use openhands_protocol::{LlmConfig, secret::SecretText};
use url::Url;

use crate::{
    LlmError,
    factory::Environment,
    models::Abilities,
    providers::{Interface, Provider, named},
};

/// Last of the variables a key is looked for in.
const ANY_KEY: &str = "LLM_API_KEY";
const AZURE_VERSION: &str = "2024-12-01-preview";

/// Which of a provider's interfaces is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Chat,
    Responses,
}

/// Where calls go.
#[derive(Clone, Debug)]
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
        let configured = own(&config.base_url).or_else(ollama).or_else(|| variable(provider.base_variables));
        let (region, model) = if provider.interface == Interface::Bedrock {
            bedrock_region(config, environment, model)?
        } else {
            (String::new(), model)
        };
        let bedrock = || (!region.is_empty()).then(|| format!("https://bedrock-runtime.{region}.amazonaws.com"));
        let base = configured
            .clone()
            .or_else(|| own(&config.aws_bedrock_runtime_endpoint).filter(|_| !region.is_empty()))
            .or_else(|| provider.base_url.map(ToOwned::to_owned))
            .or_else(bedrock);
        let base = base.ok_or_else(|| {
            LlmError::BadRequest(format!(
                "llm.base_url is not set, and provider {:?} has no address of its own",
                provider.prefix
            ))
        })?;
        let key = config.api_key.clone().filter(|key| !key.expose().trim().is_empty());
        let any: &[&str] = if provider.interface == Interface::Bedrock { &[] } else { &[ANY_KEY] };
        let key = key.or_else(|| variable(provider.key_variables).or_else(|| variable(any)).map(SecretText::new));
        // Bedrock's keys come in other ways too; its adapter looks for them.
        if key.is_none() && configured.is_none() && !provider.keyless && provider.interface != Interface::Bedrock {
            let variables = provider.key_variables.join(" or ");
            return Err(LlmError::Authentication(format!(
                "no key for {}: set llm.api_key or {variables}",
                config.model
            )));
        }
        let url = call_url(provider, mode, base.trim(), model, config, environment)?;
        Ok(Self { provider, mode, model: model.to_owned(), url, key, region })
    }
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

/// The region of a Bedrock model, and its name without one.
fn bedrock_region<'a>(
    config: &LlmConfig,
    environment: &Environment,
    model: &'a str,
) -> Result<(String, &'a str), LlmError> {
    let model = model.strip_prefix("converse/").unwrap_or(model);
    let is_region = |text: &str| {
        text.matches('-').count() >= 2 && text.ends_with(|last: char| last.is_ascii_digit()) && !text.contains('.')
    };
    if let Some((region, rest)) = model.split_once('/').filter(|(region, _)| is_region(region)) {
        return Ok((region.to_owned(), rest));
    }
    let variables = ["AWS_REGION_NAME", "AWS_REGION", "AWS_DEFAULT_REGION"];
    let region = config
        .aws_region_name
        .clone()
        .or_else(|| variables.iter().find_map(|name| environment.get(*name).cloned()))
        .map_or_else(|| "us-west-2".to_owned(), |region| region.trim().to_owned());
    let is_sound = !region.is_empty()
        && region.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if is_sound {
        Ok((region, model))
    } else {
        Err(LlmError::BadRequest(format!("llm.aws_region_name {region:?} is no region, such as us-east-1")))
    }
}

fn call_url(
    provider: &Provider,
    mode: Mode,
    base: &str,
    model: &str,
    config: &LlmConfig,
    environment: &Environment,
) -> Result<Url, LlmError> {
    let wrong = |why: &str| LlmError::BadRequest(format!("llm.base_url {base:?} {why}"));
    let mut url = Url::parse(base).map_err(|error| wrong(&format!("is no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("must begin with http:// or https:// and name a host"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    let ends = |end: &str| path.ends_with(end);
    let call = if mode == Mode::Responses { "/responses" } else { "/chat/completions" };
    match provider.interface {
        Interface::OpenAi | Interface::Other => {
            if !ends(call) {
                let other = if mode == Mode::Responses { "/chat/completions" } else { "/responses" };
                let path = path.strip_suffix(other).unwrap_or(&path);
                // Ollama is configured without the part of its path that speaks this interface.
                let version = if provider.prefix.starts_with("ollama") && !path.ends_with("/v1") { "/v1" } else { "" };
                url.set_path(&format!("{path}{version}{call}"));
            }
        }
        Interface::Azure => azure_url(&mut url, &path, call, model, config, environment),
        Interface::Anthropic => {
            if !ends("/messages") {
                let version = if ends("/v1") { "" } else { "/v1" };
                url.set_path(&format!("{path}{version}/messages"));
            }
        }
        Interface::Gemini => {
            add_segments(&mut url, &["models", model.strip_prefix("models/").unwrap_or(model)])
                .ok_or_else(|| wrong("takes no path"))?;
        }
        Interface::Bedrock => {
            // Encoded as strictly as AWS's own clients do: the signature covers it.
            url.set_path(&format!("{path}/model/{}", crate::bedrock::encoded(model)));
        }
    }
    Ok(url)
}

/// Deployments have paths of their own; the newer interface below `/openai/v1` takes the name in the body.
fn azure_url(url: &mut Url, path: &str, call: &str, model: &str, config: &LlmConfig, environment: &Environment) {
    let (root, is_v1) = match path.split_once("/openai") {
        Some((root, rest)) => (root, rest.starts_with("/v1")),
        None => (path, false),
    };
    if is_v1 || call == "/responses" {
        url.set_path(&format!("{root}/openai/v1{call}"));
    } else {
        let mut encoded = url.clone();
        encoded.set_path(root);
        let _ = add_segments(&mut encoded, &["openai", "deployments", model]);
        url.set_path(&format!("{}{call}", encoded.path()));
    }
    let asked = url.query_pairs().any(|(name, _)| name == "api-version");
    if !asked && !is_v1 {
        let version = config.api_version.clone().or_else(|| environment.get("AZURE_API_VERSION").cloned());
        // Below `/openai/v1` only this version exists.
        let version = if call == "/responses" { Some("preview".to_owned()) } else { version };
        url.query_pairs_mut().append_pair("api-version", version.as_deref().unwrap_or(AZURE_VERSION));
    }
}

/// Adds path segments, each encoded: names of models hold colons and slashes.
fn add_segments(url: &mut Url, segments: &[&str]) -> Option<()> {
    let mut path = url.path_segments_mut().ok()?;
    path.pop_if_empty().extend(segments);
    Some(())
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
            ("vertex_ai/claude", Some("http://127.0.0.1:9"), "provider \"vertex_ai\""),
            ("gemini/pro", None, "set llm.api_key or GEMINI_API_KEY"),
            ("azure/m", None, "llm.base_url is not set"),
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

    #[test]
    fn each_interface_has_its_addresses() {
        for (model, base, expected) in [
            ("anthropic/claude-x", "http://h", "http://h/v1/messages"),
            ("anthropic/claude-x", "http://h/v1/", "http://h/v1/messages"),
            ("anthropic/claude-x", "http://h/v1/messages", "http://h/v1/messages"),
            ("gemini/g-1", "http://h/v1beta", "http://h/v1beta/models/g-1"),
            ("bedrock/us.anthropic.c-v1:0", "http://h", "http://h/model/us.anthropic.c-v1%3A0"),
            (
                "bedrock/arn:aws:bedrock:x:1:profile/y",
                "http://h",
                "http://h/model/arn%3Aaws%3Abedrock%3Ax%3A1%3Aprofile%2Fy",
            ),
            ("ollama/m", "http://h:11434", "http://h:11434/v1/chat/completions"),
            ("ollama/m", "http://h:11434/v1", "http://h:11434/v1/chat/completions"),
            (
                "azure/gpt-4o",
                "https://r.openai.azure.com/",
                "https://r.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-12-01-preview",
            ),
            (
                "azure/gpt-5",
                "https://r.openai.azure.com",
                "https://r.openai.azure.com/openai/v1/responses?api-version=preview",
            ),
            ("azure/d", "https://r/openai/v1", "https://r/openai/v1/chat/completions"),
            ("openai/gpt-5", "http://h/v1", "http://h/v1/responses"),
            ("openai/gpt-5", "http://h/v1/chat/completions", "http://h/v1/responses"),
            ("openai/gpt-4o", "http://h/v1/responses", "http://h/v1/chat/completions"),
        ] {
            assert_eq!(endpoint(model, Some(base), &[]).unwrap().1, expected, "{model} at {base}");
        }
        let alone = |model: &str, variables: &[(&str, &str)]| endpoint(model, None, variables).unwrap();
        assert_eq!(alone("claude-x", &[("ANTHROPIC_API_KEY", "k")]).1, "https://api.anthropic.com/v1/messages");
        assert_eq!(alone("ollama/m", &[("OLLAMA_API_BASE", "http://o")]).1, "http://o/v1/chat/completions");
        assert_eq!(alone("ollama/m", &[]).1, "http://localhost:11434/v1/chat/completions");
        for (model, region) in [("bedrock/eu-west-1/m", "eu-west-1"), ("bedrock/converse/m", "us-west-2")] {
            let expected = format!("https://bedrock-runtime.{region}.amazonaws.com/model/m");
            assert_eq!(alone(model, &[]).1, expected);
        }
    }

    #[test]
    fn the_interface_is_chosen_by_mode_and_model() {
        let of = |model: &str, mode: &str| {
            let config = LlmConfig {
                model: model.to_owned(),
                api_mode: mode.to_owned(),
                base_url: Some("http://h".to_owned()),
                ..LlmConfig::default()
            };
            Endpoint::of(&config, &Environment::default()).map(|endpoint| endpoint.mode)
        };
        assert_eq!(of("openai/gpt-5-mini", "auto").unwrap(), Mode::Responses);
        assert_eq!(of("litellm_proxy/gpt-5", "auto").unwrap(), Mode::Responses);
        assert_eq!(of("openai/gpt-5-mini", "chat").unwrap(), Mode::Chat);
        assert_eq!(of("openai/gpt-4.1-x", "auto").unwrap(), Mode::Chat);
        assert_eq!(of("openai/other", "responses").unwrap(), Mode::Responses);
        assert!(of("groq/m", "responses").unwrap_err().to_string().contains("llm.api_mode"));
        assert!(of("openai/m", "fast").unwrap_err().to_string().contains("llm.api_mode"));
    }
}
