//! The configuration of one model slot, with the reference's names and defaults (F1-LLM rows).

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::secret::SecretText;

/// Which saved models are asked when this one cannot answer for now (F2-FALL-01).
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FallbackStrategy {
    /// Names of saved profiles, in the order in which they are tried.
    pub fallback_llms: Vec<String>,
    /// Another place for profiles; a server knows its own only, and refuses this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_store_dir: Option<String>,
}

/// One model slot. Secrets are masked when this is serialised; [`crate::AgentSpec::json`] shows them on purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmConfig {
    /// Provider-prefixed model name.
    pub model: String,
    /// The provider's key.
    pub api_key: Option<SecretText>,
    /// A stored provider connection that holds the key.
    pub provider_connection_id: Option<String>,
    /// `api_key` or `subscription`.
    pub auth_type: String,
    /// `openai` with a subscription.
    pub subscription_vendor: Option<String>,
    /// Where the provider answers; the provider's own address when absent.
    pub base_url: Option<String>,
    /// Azure's interface version.
    pub api_version: Option<String>,
    /// AWS credentials.
    pub aws_access_key_id: Option<SecretText>,
    /// AWS credentials.
    pub aws_secret_access_key: Option<SecretText>,
    /// AWS credentials.
    pub aws_session_token: Option<SecretText>,
    /// AWS region.
    pub aws_region_name: Option<String>,
    /// AWS profile.
    pub aws_profile_name: Option<String>,
    /// AWS role.
    pub aws_role_name: Option<String>,
    /// AWS role session.
    pub aws_session_name: Option<String>,
    /// AWS endpoint.
    pub aws_bedrock_runtime_endpoint: Option<String>,
    /// Sent to OpenRouter.
    pub openrouter_site_url: String,
    /// Sent to OpenRouter.
    pub openrouter_app_name: String,
    /// Attempts in all.
    pub num_retries: u32,
    /// Factor of the exponential back-off.
    pub retry_multiplier: f64,
    /// Shortest wait, seconds.
    pub retry_min_wait: u64,
    /// Longest wait, seconds.
    pub retry_max_wait: u64,
    /// Seconds for a whole call; `None` for no limit.
    pub timeout: Option<u64>,
    /// Seconds without a piece of a stream; `None` for no limit.
    pub stream_idle_timeout: Option<f64>,
    /// Longest text of one message shown to the model, characters.
    pub max_message_chars: usize,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Top-k sampling.
    pub top_k: Option<f64>,
    /// Limit of the prompt.
    pub max_input_tokens: Option<u64>,
    /// Limit of the answer.
    pub max_output_tokens: Option<u64>,
    /// Model name for look-ups where `model` is an alias.
    pub model_canonical_name: Option<String>,
    /// `auto`, `chat` or `responses`.
    pub api_mode: String,
    /// Overrides of the capability table.
    pub capability_overrides: Map<String, Value>,
    /// More request headers.
    pub extra_headers: Option<Map<String, Value>>,
    /// US dollars a token read.
    pub input_cost_per_token: Option<f64>,
    /// US dollars a token written.
    pub output_cost_per_token: Option<f64>,
    /// Where Ollama answers.
    pub ollama_base_url: Option<String>,
    /// Stream the answer.
    pub stream: bool,
    /// Drop parameters that the model does not take.
    pub drop_params: bool,
    /// Send no images.
    pub disable_vision: Option<bool>,
    /// Send no stop words.
    pub disable_stop_word: Option<bool>,
    /// Mark cacheable prefixes.
    pub caching_prompt: bool,
    /// Log requests and answers.
    pub log_completions: bool,
    /// Where completions are logged.
    pub log_completions_folder: String,
    /// Tokenizer for counting.
    pub custom_tokenizer: Option<String>,
    /// Tools as the provider's own tool calls; else by prompt.
    pub native_tool_calling: bool,
    /// Send text instead of parts.
    pub force_string_serializer: Option<bool>,
    /// Fetch images and send them inline.
    pub inline_image_urls: Option<bool>,
    /// `low`, `medium`, `high`, `xhigh`, `none`.
    pub reasoning_effort: Option<String>,
    /// `auto`, `concise`, `detailed`.
    pub reasoning_summary: Option<String>,
    /// Ask for reasoning that can be replayed.
    pub enable_encrypted_reasoning: bool,
    /// How long the provider keeps its cache.
    pub prompt_cache_retention: Option<String>,
    /// Tokens for thinking.
    pub extended_thinking_budget: Option<u64>,
    /// Sampling seed.
    pub seed: Option<i64>,
    /// The slot's name in statistics.
    pub usage_id: String,
    /// More request members.
    pub litellm_extra_body: Map<String, Value>,
    /// Whether a subscription pays.
    pub is_subscription: bool,
    /// Google's `safetySettings`; sent to Google only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_settings: Option<Vec<Map<String, Value>>>,
    /// Who is asked when this model cannot answer for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_strategy: Option<FallbackStrategy>,
    /// With `llms_for_routing`: who chooses among them, `multimodal_router` or `random_router`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_name: Option<String>,
    /// The models of a router, by name.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub llms_for_routing: IndexMap<String, LlmConfig>,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl LlmConfig {
    /// Fills in what depends on another member of a configuration that somebody wrote: without a `stream_idle_timeout` the
    /// `timeout` holds between the pieces of a stream too.
    pub fn complete(written: &mut Value) {
        if let Some(members) = written.as_object_mut()
            && !members.contains_key("stream_idle_timeout")
            && let Some(timeout) = members.get("timeout").cloned()
        {
            members.insert("stream_idle_timeout".to_owned(), timeout);
        }
    }

    /// The keys in it, those of a router's models included: what outputs must not show.
    #[must_use]
    pub fn secret_values(&self) -> Vec<SecretText> {
        let own = [&self.api_key, &self.aws_access_key_id, &self.aws_secret_access_key, &self.aws_session_token];
        let own = own.into_iter().flatten().cloned();
        own.chain(self.llms_for_routing.values().flat_map(Self::secret_values)).collect()
    }

    /// The configuration as JSON with its secrets in clear, for what is stored encrypted or handed to a trusted peer.
    #[must_use]
    pub fn plain_json(&self) -> Value {
        let mut json = serde_json::to_value(self).unwrap_or_default();
        for (name, secret) in [
            ("api_key", &self.api_key),
            ("aws_access_key_id", &self.aws_access_key_id),
            ("aws_secret_access_key", &self.aws_secret_access_key),
            ("aws_session_token", &self.aws_session_token),
        ] {
            if let (Some(place), Some(secret)) = (json.get_mut(name), secret) {
                *place = secret.expose().into();
            }
        }
        if let Some(routed) = json.get_mut("llms_for_routing").and_then(Value::as_object_mut) {
            for (name, config) in &self.llms_for_routing {
                routed.insert(name.clone(), config.plain_json());
            }
        }
        json
    }
}

impl Default for LlmConfig {
    fn default() -> Self {
        Self {
            model: "gpt-5.6".to_owned(),
            api_key: None,
            provider_connection_id: None,
            auth_type: "api_key".to_owned(),
            subscription_vendor: None,
            base_url: None,
            api_version: None,
            aws_access_key_id: None,
            aws_secret_access_key: None,
            aws_session_token: None,
            aws_region_name: None,
            aws_profile_name: None,
            aws_role_name: None,
            aws_session_name: None,
            aws_bedrock_runtime_endpoint: None,
            openrouter_site_url: "https://docs.all-hands.dev/".to_owned(),
            openrouter_app_name: "OpenHands".to_owned(),
            num_retries: 5,
            retry_multiplier: 8.0,
            retry_min_wait: 8,
            retry_max_wait: 64,
            timeout: Some(300),
            stream_idle_timeout: Some(300.0),
            max_message_chars: 30_000,
            temperature: None,
            top_p: None,
            top_k: None,
            max_input_tokens: None,
            max_output_tokens: None,
            model_canonical_name: None,
            api_mode: "auto".to_owned(),
            capability_overrides: Map::new(),
            extra_headers: None,
            input_cost_per_token: None,
            output_cost_per_token: None,
            ollama_base_url: None,
            stream: false,
            drop_params: true,
            disable_vision: None,
            disable_stop_word: Some(false),
            caching_prompt: true,
            log_completions: false,
            log_completions_folder: "logs/completions".to_owned(),
            custom_tokenizer: None,
            native_tool_calling: true,
            force_string_serializer: None,
            inline_image_urls: None,
            reasoning_effort: Some("high".to_owned()),
            reasoning_summary: None,
            enable_encrypted_reasoning: true,
            prompt_cache_retention: Some("24h".to_owned()),
            extended_thinking_budget: Some(200_000),
            seed: None,
            usage_id: "default".to_owned(),
            litellm_extra_body: Map::new(),
            is_subscription: false,
            safety_settings: None,
            fallback_strategy: None,
            router_name: None,
            llms_for_routing: IndexMap::new(),
            extra: Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_and_defaults_are_the_references() {
        let reference: Value = serde_json::from_str(include_str!("llm/reference.json")).unwrap();
        assert_eq!(serde_json::to_value(LlmConfig::default()).unwrap(), reference);
        assert_eq!(serde_json::from_value::<LlmConfig>(reference).unwrap(), LlmConfig::default());
    }

    #[test]
    fn our_own_members_are_written_when_they_are_set_and_keys_in_them_are_hidden() {
        let written = json!({
            "model": "router", "router_name": "random_router", "fallback_strategy": {"fallback_llms": ["a"]},
            "safety_settings": [{"category": "c"}], "llms_for_routing": {"b": {"model": "m", "api_key": "hidden"}},
        });
        let config: LlmConfig = serde_json::from_value(written.clone()).unwrap();
        let json = serde_json::to_value(&config).unwrap();
        for member in ["router_name", "fallback_strategy", "safety_settings"] {
            assert_eq!(json[member], written[member]);
        }
        assert_eq!(json["llms_for_routing"]["b"]["api_key"], crate::secret::MASK);
        assert_eq!(config.plain_json()["llms_for_routing"]["b"]["api_key"], "hidden");
        assert!(!format!("{config:?}").contains("hidden"));
    }

    #[test]
    fn streams_wait_as_long_as_calls_unless_told_otherwise() {
        for (mut written, expected) in [
            (json!({"model": "m", "timeout": 60}), Some(60.0)),
            (json!({"model": "m", "timeout": 60, "stream_idle_timeout": 5}), Some(5.0)),
            (json!({"model": "m", "timeout": null}), None),
            (json!({"model": "m"}), Some(300.0)),
        ] {
            LlmConfig::complete(&mut written);
            let config: LlmConfig = serde_json::from_value(written).unwrap();
            assert_eq!(config.stream_idle_timeout, expected);
        }
    }
}
