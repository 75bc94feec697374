//! What models take and what they do not: a table over parts of their names, and overrides of the configuration.
//!
//! Rules are tried in order and the last that fits wins, so exceptions stand behind the families they belong to.

use openhands_protocol::LlmConfig;
use serde_json::Value;

/// Rules of one ability: a part of the name, and whether models with it have the ability.
type Rules = &'static [(&'static str, bool)];

const REASONING_EFFORT: Rules = &[
    ("o1", true),
    ("o3", true),
    ("o4-mini", true),
    ("gpt-5", true),
    ("gpt-6", true),
    ("gpt-oss", true),
    ("codex-mini", true),
    ("grok-3-mini", true),
    ("gemini-2.5", true),
    ("gemini-3", true),
    ("kimi-k3", true),
    ("claude-opus-4-5", true),
    ("o1-mini", false),
    ("o1-preview", false),
    ("gpt-5-chat", false),
];

/// These refuse tools beside an effort on Chat Completions.
const EFFORT_WITHOUT_TOOLS_ONLY: Rules = &[("gpt-6", true)];

/// Reasoning models take no sampling parameters, but these do.
const SAMPLING_BESIDE_REASONING: Rules = &[("gemini", true)];

const STRINGS_ONLY: Rules =
    &[("deepseek-v3.2", true), ("glm", true), ("groq/kimi-k2-instruct", true), ("openrouter/minimax", true)];

/// These want their reasoning back with the history.
const REASONING_SENT_BACK: Rules = &[
    ("kimi-k3", true),
    ("kimi-k2-thinking", true),
    ("kimi-k2.5", true),
    ("kimi-k2.6", true),
    ("openrouter/minimax-m2", true),
    ("deepseek/deepseek-reasoner", true),
    ("deepseek/deepseek-v4", true),
];

const CACHE_RETENTION: Rules =
    &[("gpt-5", true), ("gpt-4.1", true), ("mini", false), ("gpt-5.1-codex-mini", true), ("azure/", false)];

/// What one model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    pub(crate) reasoning_effort: bool,
    pub(crate) effort_beside_tools: bool,
    pub(crate) sampling: bool,
    pub(crate) strings_only: bool,
    pub(crate) reasoning_sent_back: bool,
    pub(crate) cache_retention: bool,
    pub(crate) images: bool,
}

impl Abilities {
    pub(crate) fn of(config: &LlmConfig) -> Self {
        let name = config.model_canonical_name.as_deref().unwrap_or(&config.model).to_ascii_lowercase();
        let told = |member: &str| config.capability_overrides.get(member).and_then(Value::as_bool);
        let reasoning_effort = told("supports_reasoning_effort").unwrap_or_else(|| has(&name, REASONING_EFFORT));
        Self {
            reasoning_effort,
            effort_beside_tools: !has(&name, EFFORT_WITHOUT_TOOLS_ONLY),
            sampling: told("supports_sampling_params")
                .unwrap_or_else(|| !reasoning_effort || has(&name, SAMPLING_BESIDE_REASONING)),
            strings_only: config
                .force_string_serializer
                .or_else(|| told("force_string_serializer"))
                .unwrap_or_else(|| has(&name, STRINGS_ONLY)),
            reasoning_sent_back: told("send_reasoning_content").unwrap_or_else(|| has(&name, REASONING_SENT_BACK)),
            cache_retention: told("supports_prompt_cache_retention").unwrap_or_else(|| has(&name, CACHE_RETENTION)),
            images: config.disable_vision != Some(true) && told("supports_vision").unwrap_or(true),
        }
    }
}

fn has(name: &str, rules: Rules) -> bool {
    rules.iter().rev().find(|(part, _)| is_part(name, part)).is_some_and(|(_, has)| *has)
}

/// A part counts where a word of the name begins: `o1` is in `openai/o1-mini`, not in `turbo1`.
fn is_part(name: &str, part: &str) -> bool {
    name.match_indices(part).any(|(at, _)| {
        name.get(..at)
            .and_then(|before| before.chars().next_back())
            .is_none_or(|before| !before.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abilities(model: &str) -> Abilities {
        Abilities::of(&LlmConfig { model: model.to_owned(), ..LlmConfig::default() })
    }

    #[test]
    fn efforts_go_to_reasoning_models_only() {
        for (model, expected) in [
            ("openai/gpt-5-mini", true),
            ("GPT-5.2", true),
            ("openai/gpt-5-chat-latest", false),
            ("o3", true),
            ("o1-mini-2024", false),
            ("openai/gpt-4o", false),
            ("openai/mock-model", false),
            ("turbo1", false),
            ("litellm_proxy/gemini-3-pro", true),
        ] {
            assert_eq!(abilities(model).reasoning_effort, expected, "{model}");
        }
        assert!(!abilities("gpt-5").sampling && abilities("gemini-3-pro").sampling && abilities("gpt-4o").sampling);
        assert!(abilities("gpt-5").cache_retention && !abilities("gpt-5-mini").cache_retention);
    }

    #[test]
    fn the_configuration_overrules_the_table() {
        let mut config = LlmConfig { model: "proxy-alias".to_owned(), ..LlmConfig::default() };
        config.model_canonical_name = Some("openai/gpt-5".to_owned());
        assert!(Abilities::of(&config).reasoning_effort);
        config.capability_overrides.insert("supports_reasoning_effort".to_owned(), false.into());
        assert!(!Abilities::of(&config).reasoning_effort && Abilities::of(&config).sampling);
        config.disable_vision = Some(true);
        config.force_string_serializer = Some(true);
        assert!(!Abilities::of(&config).images && Abilities::of(&config).strings_only);
    }
}
