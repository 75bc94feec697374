//! The address of a call, out of the base that is configured or known: each interface has its own paths.

use openhands_protocol::LlmConfig;
use url::Url;

use super::Mode;
use crate::{
    LlmError, clouds,
    factory::Environment,
    providers::{Interface, Issuer, Provider},
};

const AZURE_VERSION: &str = "2024-12-01-preview";
const FOUNDRY_VERSION: &str = "2024-05-01-preview";

/// What an address is made from.
pub(super) struct Parts<'a> {
    pub(super) provider: &'a Provider,
    pub(super) mode: Mode,
    pub(super) base: &'a str,
    pub(super) model: &'a str,
    /// Google's: `projects/<project>/locations/<location>`.
    pub(super) place: Option<&'a str>,
}

/// Where calls go; for Google's and Amazon's interfaces without the last word, which depends on streaming.
pub(super) fn of(parts: &Parts<'_>, config: &LlmConfig, environment: &Environment) -> Result<Url, LlmError> {
    let Parts { provider, mode, base, model, .. } = *parts;
    let wrong = |why: &str| LlmError::BadRequest(format!("llm.base_url {base:?} {why}"));
    let mut url = Url::parse(base).map_err(|error| wrong(&format!("is no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("must begin with http:// or https:// and name a host"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    let ends = |end: &str| path.ends_with(end);
    let call = if mode == Mode::Responses { "/responses" } else { "/chat/completions" };
    match provider.interface {
        _ if provider.issuer == Issuer::Google => {
            vertex(&mut url, &path, parts).ok_or_else(|| wrong("takes no path"))?;
        }
        Interface::OpenAi | Interface::Other => {
            if !ends(call) {
                let other = if mode == Mode::Responses { "/chat/completions" } else { "/responses" };
                let path = path.strip_suffix(other).unwrap_or(&path);
                // Ollama is configured without the part of its path that speaks this interface.
                let version = match provider.prefix {
                    "ollama" | "ollama_chat" if !path.ends_with("/v1") => "/v1",
                    "azure_ai" if is_foundry(&url) && path.is_empty() => "/models",
                    _ => "",
                };
                url.set_path(&format!("{path}{version}{call}"));
            }
            if provider.prefix == "azure_ai" && is_foundry(&url) && url.path().starts_with("/models/") {
                add_version(&mut url, config.api_version.as_deref().unwrap_or(FOUNDRY_VERSION));
            }
        }
        Interface::Azure => azure(&mut url, &path, call, model, config, environment),
        Interface::Anthropic => {
            if !ends("/messages") {
                let version = match (ends("/v1"), provider.prefix == "azure_ai" && !path.contains("/anthropic")) {
                    (true, _) => "",
                    (false, true) => "/anthropic/v1",
                    (false, false) => "/v1",
                };
                url.set_path(&format!("{path}{version}/messages"));
            }
        }
        Interface::Gemini => {
            add_segments(&mut url, &["models", model.strip_prefix("models/").unwrap_or(model)])
                .ok_or_else(|| wrong("takes no path"))?;
        }
        Interface::Bedrock => {
            // Encoded as strictly as AWS's own clients do: the signature covers it.
            url.set_path(&format!("{path}/model/{}", clouds::encoded(model)));
        }
    }
    Ok(url)
}

fn is_foundry(url: &Url) -> bool {
    url.host_str().is_some_and(|host| host.ends_with(".services.ai.azure.com"))
}

/// Below a version, a project and a location; what is configured may be the host alone or already hold them.
fn vertex(url: &mut Url, path: &str, parts: &Parts<'_>) -> Option<()> {
    let (Parts { provider, model, .. }, place) = (parts, parts.place?);
    if !path.contains("/projects/") {
        let version = if path.is_empty() { "/v1" } else { "" };
        url.set_path(&format!("{path}{version}/{place}"));
    }
    match provider.interface {
        Interface::OpenAi => add_segments(url, &["endpoints", "openapi", "chat", "completions"]),
        interface => {
            let publisher = if interface == Interface::Anthropic { "anthropic" } else { "google" };
            add_segments(url, &["publishers", publisher, "models", model.rsplit('/').next().unwrap_or(model)])
        }
    }
}

/// Deployments have paths of their own; the newer interface below `/openai/v1` takes the name in the body.
fn azure(url: &mut Url, path: &str, call: &str, model: &str, config: &LlmConfig, environment: &Environment) {
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
    if !is_v1 {
        let version =
            config.api_version.as_deref().or_else(|| environment.get("AZURE_API_VERSION").map(String::as_str));
        // Below `/openai/v1` only this version exists.
        let version = if call == "/responses" { Some("preview") } else { version };
        add_version(url, version.unwrap_or(AZURE_VERSION));
    }
}

fn add_version(url: &mut Url, version: &str) {
    if !url.query_pairs().any(|(name, _)| name == "api-version") {
        url.query_pairs_mut().append_pair("api-version", version);
    }
}

/// Adds path segments, each encoded: names of models hold colons and slashes.
fn add_segments(url: &mut Url, segments: &[&str]) -> Option<()> {
    let mut path = url.path_segments_mut().ok()?;
    path.pop_if_empty().extend(segments);
    Some(())
}
