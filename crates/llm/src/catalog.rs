//! Which providers and models there are, for those who choose one: the providers with an adapter, the models of the table under the
//! names that users write, and the short list that the Python SDK recommends.

use std::collections::BTreeSet;

use crate::{providers, table};

/// The models that SDK 1.58.2 recommends, a provider a line (`prices/verified.py`).
static VERIFIED: &str = include_str!("../prices/verified.tsv");

/// Beginnings of bare names in the table, with their providers.
const BARE: [(&str, &str); 8] = [
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("codex-", "openai"),
    ("claude-", "anthropic"),
    ("gemini-", "gemini"),
];
/// Publishers, and regions before them, that begin the names of Bedrock's models.
const BEDROCK: [&str; 20] = [
    "ai21",
    "amazon",
    "anthropic",
    "cohere",
    "deepseek",
    "google",
    "meta",
    "minimax",
    "mistral",
    "moonshot",
    "moonshotai",
    "nvidia",
    "openai",
    "qwen",
    "writer",
    "zai",
    "us",
    "eu",
    "apac",
    "global",
];
const BEDROCK_REGIONS: [&str; 4] = ["jp", "au", "ca", "us-gov"];

/// The prefixes of all providers with an adapter, sorted.
#[must_use]
pub fn providers() -> Vec<&'static str> {
    let names: BTreeSet<_> = providers::supported().map(|provider| provider.prefix).collect();
    names.into_iter().collect()
}

/// All known models, sorted, or those of one provider. Models of Bedrock are named with its prefix and left out of the list of all:
/// which of them there are depends on the account.
#[must_use]
pub fn models(provider: Option<&str>) -> Vec<String> {
    let recommended = verified().flat_map(|(of, models)| models.into_iter().map(move |model| (of, model.to_owned())));
    // Those of OpenRouter are its own routes, under its prefix.
    let recommended = recommended.map(|(of, model)| {
        let name = if of == "openrouter" { format!("openrouter/{model}") } else { model };
        (Some(of), name)
    });
    let listed = table::names().map(|name| {
        let of = provider_of(name);
        let name = if of == Some("bedrock") { format!("bedrock/{name}") } else { name.to_owned() };
        (of, name)
    });
    let wanted = |of: Option<&str>| match provider {
        Some(provider) => of == Some(provider),
        None => of != Some("bedrock"),
    };
    let names: BTreeSet<_> = listed.chain(recommended).filter(|(of, _)| wanted(*of)).map(|(_, name)| name).collect();
    names.into_iter().collect()
}

/// The recommended models by provider, in their order.
pub fn verified() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    VERIFIED.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (provider, models) = line.split_once('\t')?;
        Some((provider, models.split('\t').collect()))
    })
}

fn provider_of(name: &str) -> Option<&'static str> {
    if let Some((prefix, _)) = name.split_once('/') {
        return providers::supported().find(|provider| provider.prefix == prefix).map(|provider| provider.prefix);
    }
    if let Some((first, _)) = name.split_once('.')
        && (BEDROCK.contains(&first) || BEDROCK_REGIONS.contains(&first))
    {
        return Some("bedrock");
    }
    BARE.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, provider)| *provider)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_those_with_an_adapter() {
        let providers = providers();
        assert!(providers.is_sorted() && providers.len() > 30);
        for (name, is_there) in [("anthropic", true), ("groq", true), ("sagemaker", false), ("", false)] {
            assert_eq!(providers.contains(&name), is_there, "{name}");
        }
    }

    #[test]
    fn models_are_listed_by_provider() {
        let all = models(None);
        assert!(all.is_sorted() && all.len() > 500);
        assert!(!all.iter().any(|name| name.starts_with("bedrock/") || name.starts_with("anthropic.")));
        for (provider, model) in [
            ("anthropic", "claude-sonnet-4-5"),
            ("openai", "gpt-4.1"),
            ("openai", "o3"),
            ("gemini", "gemini/gemini-2.5-pro"),
            ("openrouter", "openrouter/anthropic/claude-opus-5"),
            ("bedrock", "bedrock/us.anthropic.claude-opus-4-8"),
            ("moonshot", "kimi-k3"),
        ] {
            assert!(models(Some(provider)).iter().any(|name| name == model), "{provider}: {model}");
        }
        assert!(models(Some("nobody")).is_empty());
    }

    #[test]
    fn recommended_models_keep_their_order() {
        let verified: Vec<_> = verified().collect();
        assert_eq!(verified.len(), 13);
        assert_eq!(verified[0].0, "openhands");
        assert!(verified.iter().all(|(_, models)| !models.is_empty() && models.iter().all(|model| !model.is_empty())));
    }
}
