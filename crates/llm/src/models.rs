//! What models take and what they do not: a table over parts of their names, and overrides of the configuration.
//!
//! Rules are tried in order and the last that fits wins, so exceptions stand behind the families they belong to.

use openhands_protocol::LlmConfig;
use serde_json::Value;

use crate::table::{self, Row};

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

/// These answer on the Responses interface, and are asked there by default.
const RESPONSES: Rules = &[("gpt-5", true), ("gpt-6", true), ("codex-mini-latest", true)];

/// Thinking with a budget of tokens, where the table of models does not say that they decide themselves.
const THINKING_BUDGET: Rules = &[("claude-sonnet-4-5", true), ("claude-sonnet-4-6", true), ("claude-haiku-4-5", true)];

/// Explicit marks for the provider's cache. Gemini stays out: marks would freeze its cache at the static prefix.
const CACHE_MARKS: Rules = &[
    ("claude-3-7-sonnet", true),
    ("claude-sonnet-3-7-latest", true),
    ("claude-3-5-sonnet", true),
    ("claude-3-5-haiku", true),
    ("claude-3-haiku-20240307", true),
    ("claude-3-opus-20240229", true),
    ("claude-sonnet-4", true),
    ("claude-opus-4", true),
    ("claude-haiku-4-5", true),
    ("claude-haiku-5-5", true),
    ("claude-opus-5", true),
    ("claude-sonnet-5", true),
    ("claude-fable-5", true),
];

const NO_STOP_WORDS: Rules = &[
    ("o1", true),
    ("o3", true),
    ("grok-4-0709", true),
    ("grok-code-fast-1", true),
    ("deepseek-r1-0528", true),
    ("openai.gpt-", true),
];

/// Only these take images as addresses of `data:` alone.
const INLINE_IMAGES: Rules = &[("moonshot/kimi-k2.6", true), ("moonshot/kimi-k3", true), ("openhands/kimi-k3", true)];

/// Their longest answer, whatever the table says.
const LONG_ANSWERS: Rules = &[("claude-3-7-sonnet", true), ("claude-sonnet-4", true), ("kimi-k2-thinking", true)];
const LONG_ANSWER: u64 = 64_000;

/// Behind an address of the user's own the model may be another than the table's.
const ELSEWHERE: u64 = 16_384;

/// How a model is asked to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// It is not.
    Not,
    /// With a budget of tokens.
    Budget,
    /// It decides by itself, within an effort.
    Adaptive,
    /// By an effort alone.
    Effort,
}

/// What one model takes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Abilities {
    pub(crate) reasoning_effort: bool,
    pub(crate) effort_beside_tools: bool,
    pub(crate) thinking: Thinking,
    /// Whether efforts `xhigh` and `max` are taken.
    pub(crate) highest_efforts: (bool, bool),
    /// Whether the effort is told as `output_config`.
    pub(crate) output_config: bool,
    pub(crate) sampling: bool,
    pub(crate) stop_words: bool,
    pub(crate) strings_only: bool,
    pub(crate) reasoning_sent_back: bool,
    /// Whether prefixes can be marked for the cache.
    pub(crate) cache_marks: bool,
    pub(crate) cache_retention: bool,
    pub(crate) images: bool,
    /// Whether images must carry their bytes, whatever the interface takes.
    pub(crate) inline_images: bool,
    /// Whether large images are refused.
    pub(crate) small_images: bool,
    pub(crate) responses: bool,
    /// Tokens, 0 when unknown.
    pub(crate) context_window: u64,
    /// Tokens; `None` when neither the configuration nor the table knows.
    pub(crate) max_output: Option<u64>,
    /// The table's row.
    pub(crate) row: Option<Row>,
}

impl Abilities {
    pub(crate) fn of(config: &LlmConfig) -> Self {
        let name = table::canonical(config);
        let row = table::find(&name);
        let listed = |flag: char| row.is_some_and(|row| row.has(flag));
        let told = |member: &str| config.capability_overrides.get(member).and_then(Value::as_bool);
        // The table calls every model of these families a reasoning model; the rules know the exceptions.
        let reasoning_effort =
            told("supports_reasoning_effort").or_else(|| ruled(&name, REASONING_EFFORT)).unwrap_or_else(|| listed('r'));
        let thinking = thinking(config, &name, row.as_ref());
        let samples = if listed('S') { false } else { !reasoning_effort || has(&name, SAMPLING_BESIDE_REASONING) };
        let caches = has(&name, CACHE_MARKS) || (listed('c') && name.contains("claude"));
        let responses = match row {
            Some(row) if row.has('R') => true,
            Some(row) if row.has('C') => false,
            _ => has(&name, RESPONSES),
        };
        let known_window = row.and_then(|row| row.context_window);
        Self {
            reasoning_effort,
            effort_beside_tools: !has(&name, EFFORT_WITHOUT_TOOLS_ONLY),
            thinking,
            highest_efforts: (listed('x'), listed('m')),
            output_config: listed('a') || listed('o'),
            sampling: told("supports_sampling_params").unwrap_or(samples) && thinking != Thinking::Budget,
            stop_words: told("supports_stop_words").unwrap_or_else(|| !has(&name, NO_STOP_WORDS))
                && config.disable_stop_word != Some(true),
            strings_only: config
                .force_string_serializer
                .or_else(|| told("force_string_serializer"))
                .unwrap_or_else(|| has(&name, STRINGS_ONLY)),
            reasoning_sent_back: told("send_reasoning_content").unwrap_or_else(|| has(&name, REASONING_SENT_BACK)),
            cache_marks: told("supports_prompt_cache").unwrap_or(caches),
            cache_retention: told("supports_prompt_cache_retention").unwrap_or_else(|| has(&name, CACHE_RETENTION)),
            images: config.disable_vision != Some(true)
                && told("supports_vision").unwrap_or_else(|| row.is_none_or(|row| row.has('v'))),
            inline_images: config.inline_image_urls.unwrap_or_else(|| has(&name, INLINE_IMAGES)),
            small_images: name.contains("claude"),
            responses: told("supports_responses_api").unwrap_or(responses),
            context_window: config.max_input_tokens.or(known_window).unwrap_or(0),
            max_output: max_output(config, &name, row.as_ref()),
            row,
        }
    }

    /// The configured effort, lowered to what the model takes; `None` when it is asked for none.
    pub(crate) fn effort<'a>(&self, config: &'a LlmConfig) -> Option<&'a str> {
        let effort = config.reasoning_effort.as_deref().filter(|effort| *effort != "none")?;
        Some(match (effort, self.highest_efforts) {
            ("minimal", _) => "low",
            ("xhigh", (false, _)) | ("max", (false, false)) => "high",
            ("max", (true, false)) => "xhigh",
            (effort, _) => effort,
        })
    }
}

impl Abilities {
    /// A thinking budget below the longest answer, for models that think by one.
    pub(crate) fn thinking_budget(&self, config: &LlmConfig) -> Option<Value> {
        let wanted = config.extended_thinking_budget.filter(|budget| *budget > 0)?;
        let room = self.max_output?.checked_sub(1)?;
        let is_asked = self.thinking == Thinking::Budget && config.reasoning_effort.as_deref() != Some("none");
        is_asked.then(|| serde_json::json!({"type": "enabled", "budget_tokens": wanted.min(room)}))
    }
}

fn thinking(config: &LlmConfig, name: &str, row: Option<&Row>) -> Thinking {
    match config.capability_overrides.get("thinking_mode").and_then(Value::as_str) {
        Some("adaptive") => return Thinking::Adaptive,
        Some("manual") => return Thinking::Budget,
        Some("none") => return Thinking::Not,
        Some("unknown") => return Thinking::Effort,
        _ => {}
    }
    match row {
        Some(row) if row.has('a') => Thinking::Adaptive,
        _ if has(name, THINKING_BUDGET) => Thinking::Budget,
        Some(row) if row.has('r') => Thinking::Effort,
        _ => Thinking::Not,
    }
}

/// The longest answer that is asked for (F1-LLM-12).
fn max_output(config: &LlmConfig, name: &str, row: Option<&Row>) -> Option<u64> {
    if config.max_output_tokens.is_some() {
        return config.max_output_tokens;
    }
    if has(name, LONG_ANSWERS) {
        return Some(LONG_ANSWER);
    }
    let listed = row?.max_output?;
    // An answer as long as the window would leave no room for the prompt.
    let window = config.max_input_tokens.or_else(|| row?.context_window);
    let fitting = if window.is_some_and(|window| listed >= window) { listed / 2 } else { listed };
    let elsewhere = config.base_url.is_some() && !config.model.starts_with("litellm_proxy/");
    Some(if elsewhere { fitting.min(ELSEWHERE) } else { fitting })
}

fn has(name: &str, rules: Rules) -> bool {
    ruled(name, rules) == Some(true)
}

/// What the last rule that fits says; `None` when none does.
fn ruled(name: &str, rules: Rules) -> Option<bool> {
    rules.iter().rev().find(|(part, _)| is_part(name, part)).map(|(_, has)| *has)
}

/// A part counts where a word of the name begins: `o1` is in `openai/o1-mini`, not in `turbo1`.
pub(crate) fn is_part(name: &str, part: &str) -> bool {
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
        assert_eq!(Abilities::of(&config).context_window, 272_000, "limits come from the table");
        config.force_string_serializer = Some(true);
        assert!(!Abilities::of(&config).images && Abilities::of(&config).strings_only);
    }

    #[test]
    fn models_think_in_their_own_ways() {
        for (model, expected) in [
            ("anthropic/claude-sonnet-4-5", Thinking::Budget),
            ("litellm_proxy/claude-sonnet-4-5-20250929", Thinking::Budget),
            ("anthropic/claude-opus-4-8", Thinking::Adaptive),
            ("bedrock/anthropic.claude-opus-4-1-20250805-v1:0", Thinking::Effort),
            ("openai/gpt-5", Thinking::Effort),
            ("openai/gpt-4o", Thinking::Not),
            ("claude-from-tomorrow", Thinking::Not),
        ] {
            assert_eq!(abilities(model).thinking, expected, "{model}");
        }
        let mut config = LlmConfig { model: "anthropic/claude-sonnet-4-5".to_owned(), ..LlmConfig::default() };
        config.capability_overrides.insert("thinking_mode".to_owned(), "none".into());
        assert_eq!(Abilities::of(&config).thinking, Thinking::Not);
        config.model = "anthropic/claude-opus-4-5".to_owned();
        config.reasoning_effort = Some("xhigh".to_owned());
        assert_eq!(Abilities::of(&config).effort(&config), Some("high"));
        config.model = "anthropic/claude-opus-4-8".to_owned();
        assert_eq!(Abilities::of(&config).effort(&config), Some("xhigh"));
        config.reasoning_effort = Some("none".to_owned());
        assert_eq!(Abilities::of(&config).effort(&config), None);
    }

    #[test]
    fn marks_images_and_interfaces_by_model() {
        for (model, marks, images, responses) in [
            ("anthropic/claude-sonnet-4-5", true, true, false),
            ("litellm_proxy/claude-opus-4-8", true, true, false),
            ("openrouter/anthropic/claude-haiku-4.5", true, true, false),
            ("gemini/gemini-2.5-pro", false, true, false),
            ("openai/gpt-5.2", false, true, true),
            ("openai/gpt-3.5-turbo", false, false, false),
            ("openai/mock-model", false, true, false),
            ("deepseek/deepseek-chat", false, false, false),
        ] {
            let found = abilities(model);
            assert_eq!((found.cache_marks, found.images, found.responses), (marks, images, responses), "{model}");
        }
        assert!(!abilities("o3").stop_words && abilities("gpt-4o").stop_words);
        assert!(!abilities("anthropic/claude-opus-4-8").sampling);
    }

    #[test]
    fn the_longest_answer_comes_from_the_table() {
        let longest = |model: &str, base_url: Option<&str>, own: Option<u64>| {
            max_output_of(LlmConfig {
                model: model.to_owned(),
                base_url: base_url.map(ToOwned::to_owned),
                max_output_tokens: own,
                ..LlmConfig::default()
            })
        };
        let elsewhere = Some("http://127.0.0.1:9");
        assert_eq!(longest("anthropic/claude-sonnet-4-5", None, None), Some(64_000));
        assert_eq!(longest("anthropic/claude-opus-4-8", None, None), Some(128_000));
        assert_eq!(longest("anthropic/claude-opus-4-8", elsewhere, None), Some(16_384));
        assert_eq!(longest("litellm_proxy/claude-opus-4-8", elsewhere, None), Some(128_000));
        assert_eq!(longest("openai/mock-model", elsewhere, None), None);
        assert_eq!(longest("openai/mock-model", None, Some(7)), Some(7));
    }

    fn max_output_of(config: LlmConfig) -> Option<u64> {
        Abilities::of(&config).max_output
    }
}
