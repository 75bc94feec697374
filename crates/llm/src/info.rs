//! What can be said of a model slot before it is asked: limits, abilities, prices; and whether its settings are sound.

use openhands_protocol::LlmConfig;

use crate::{LlmError, models::Abilities, providers};

/// The model of every router of the Python SDK.
const SDK_ROUTER: &str = "router";

/// What is known of a model, by its configuration and the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelInfo {
    /// The longest prompt, tokens: configured, else the table's (`effective_max_input_tokens` of the reference).
    pub max_input_tokens: Option<u64>,
    /// The longest answer that is asked for, tokens.
    pub max_output_tokens: Option<u64>,
    /// Whether images are sent (F1-LLM-35).
    pub vision: bool,
    /// Whether prefixes are marked for the provider's cache (F1-LLM-16).
    pub caching_prompt: bool,
    /// Whether it is asked on the Responses interface (F1-LLM-33).
    pub responses_api: bool,
    /// Whether it takes a reasoning effort.
    pub reasoning_effort: bool,
    /// US dollars a token read and written; `None` when nobody knows.
    pub cost_per_token: Option<(f64, f64)>,
}

impl ModelInfo {
    /// What is known of this slot's model; asks nobody.
    #[must_use]
    pub fn of(config: &LlmConfig) -> Self {
        let abilities = Abilities::of(config);
        let (provider, _) = providers::named(config);
        let responses_api = match config.api_mode.as_str() {
            "responses" => true,
            "chat" => false,
            _ => provider.responses && config.native_tool_calling && abilities.responses,
        };
        let listed = abilities.row.map(|row| (row.input.map(per_token), row.output.map(per_token)));
        let (read, written) = listed.unwrap_or_default();
        let cost = (config.input_cost_per_token.or(read), config.output_cost_per_token.or(written));
        Self {
            max_input_tokens: (abilities.context_window > 0).then_some(abilities.context_window),
            max_output_tokens: abilities.max_output,
            vision: abilities.images,
            caching_prompt: config.caching_prompt && abilities.cache_marks,
            responses_api,
            reasoning_effort: abilities.reasoning_effort,
            cost_per_token: cost.0.zip(cost.1),
        }
    }
}

fn per_token(per_million: f64) -> f64 {
    per_million / 1e6
}

/// Refuses settings that no provider could make sense of (F1-LLM-01), with the bounds of the reference.
pub(crate) fn check(config: &LlmConfig) -> Result<(), LlmError> {
    // What the Python SDK sends of a router: its placeholder and nothing of its models.
    if config.model == SDK_ROUTER && config.api_key.is_none() && config.base_url.is_none() {
        return Err(LlmError::NotSupported(
            "llm.model \"router\": the SDK's routers do not send their models; set llm.router_name and llm.llms_for_routing"
                .to_owned(),
        ));
    }
    let within = |name: &str, value: Option<f64>, most: f64| match value {
        Some(value) if !(0.0..=most).contains(&value) => {
            let bounds = if most < f64::MAX { format!("between 0 and {most}") } else { "0 or more".to_owned() };
            Err(LlmError::BadRequest(format!("llm.{name} is {value}, it must be {bounds}")))
        }
        _ => Ok(()),
    };
    within("temperature", config.temperature, f64::MAX)?;
    within("top_p", config.top_p, 1.0)?;
    within("top_k", config.top_k, f64::MAX)?;
    within("retry_multiplier", Some(config.retry_multiplier), f64::MAX)?;
    within("input_cost_per_token", config.input_cost_per_token, f64::MAX)?;
    within("output_cost_per_token", config.output_cost_per_token, f64::MAX)?;
    for (name, value) in
        [("max_input_tokens", config.max_input_tokens), ("max_output_tokens", config.max_output_tokens)]
    {
        if value == Some(0) {
            return Err(LlmError::BadRequest(format!(
                "llm.{name} is 0, it must be 1 or more; leave it out for no limit"
            )));
        }
    }
    match config.reasoning_summary.as_deref() {
        None | Some("auto" | "concise" | "detailed") => Ok(()),
        Some(other) => Err(LlmError::BadRequest(format!(
            "llm.reasoning_summary is {other:?}, it must be \"auto\", \"concise\" or \"detailed\""
        ))),
    }
}

#[cfg(test)]
mod tests {
    use openhands_protocol::secret::SecretText;

    use super::*;
    use crate::client_for;

    fn config(model: &str) -> LlmConfig {
        LlmConfig { model: model.to_owned(), api_key: Some(SecretText::new("k")), ..LlmConfig::default() }
    }

    #[test]
    fn limits_and_abilities_are_told_before_a_call() {
        assert_eq!(
            ModelInfo::of(&config("anthropic/claude-sonnet-4-5")),
            ModelInfo {
                max_input_tokens: Some(200_000),
                max_output_tokens: Some(64_000),
                vision: true,
                caching_prompt: true,
                responses_api: false,
                reasoning_effort: true,
                cost_per_token: Some((3e-6, 15e-6)),
            }
        );
        let mut own = config("openai/mine");
        (own.input_cost_per_token, own.output_cost_per_token) = (Some(0.5), Some(0.25));
        (own.disable_vision, own.max_input_tokens) = (Some(true), Some(40_000));
        assert_eq!(
            ModelInfo::of(&own),
            ModelInfo {
                max_input_tokens: Some(40_000),
                max_output_tokens: None,
                vision: false,
                caching_prompt: false,
                responses_api: false,
                reasoning_effort: false,
                cost_per_token: Some((0.5, 0.25)),
            }
        );
        own = LlmConfig { caching_prompt: false, ..config("anthropic/claude-sonnet-4-5") };
        assert!(!ModelInfo::of(&own).caching_prompt);
    }

    #[test]
    fn gpt_5_and_later_are_asked_on_responses() {
        for (model, expected) in [
            ("openai/gpt-5.2-mini", true),
            ("openai/gpt-5.1-mini", true),
            ("openai/gpt-5.1", true),
            ("openai/gpt-5-codex", true),
            ("litellm_proxy/gpt-5.1", true),
            ("openai/gpt-4.1-nano-of-tomorrow", false),
            ("anthropic/claude-sonnet-4-5", false),
        ] {
            assert_eq!(ModelInfo::of(&config(model)).responses_api, expected, "{model}");
        }
        let chat = LlmConfig { api_mode: "chat".to_owned(), ..config("openai/gpt-5.1") };
        assert!(!ModelInfo::of(&chat).responses_api);
    }

    #[test]
    fn settings_out_of_bounds_are_named() {
        let refused = |change: fn(&mut LlmConfig)| {
            let mut config = config("openai/gpt-4o");
            change(&mut config);
            client_for(&config, &Default::default()).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(refused(|_| {}), "");
        let router = refused(|config| (config.model, config.api_key) = ("router".to_owned(), None));
        assert!(router.starts_with("not supported: llm.model \"router\""), "{router}");
        for (change, expected) in [
            (
                (|config| config.temperature = Some(-0.5)) as fn(&mut LlmConfig),
                "llm.temperature is -0.5, it must be 0 or more",
            ),
            (|config| config.top_p = Some(1.5), "llm.top_p is 1.5, it must be between 0 and 1"),
            (|config| config.top_k = Some(f64::NAN), "llm.top_k is NaN, it must be 0 or more"),
            (
                |config| config.output_cost_per_token = Some(-1.0),
                "llm.output_cost_per_token is -1, it must be 0 or more",
            ),
            (
                |config| config.max_output_tokens = Some(0),
                "llm.max_output_tokens is 0, it must be 1 or more; leave it out for no limit",
            ),
            (
                |config| config.reasoning_summary = Some("long".to_owned()),
                "llm.reasoning_summary is \"long\", it must be \"auto\", \"concise\" or \"detailed\"",
            ),
        ] {
            assert_eq!(refused(change), expected);
        }
    }
}
