//! The providers: which one a model's name means, its addresses, key variables and quirks, one row each (F1-LLM-02, F1-LLM-39).

use openhands_protocol::LlmConfig;

use crate::history::CallIds;

/// The interface a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    /// Chat Completions; Responses too where `responses` is set.
    OpenAi,
    /// The same behind Azure's addresses and headers.
    Azure,
    /// Messages.
    Anthropic,
    /// Google's generateContent.
    Gemini,
    /// Converse of AWS Bedrock.
    Bedrock,
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
    /// Where its address is looked for when the configuration has none.
    pub(crate) base_variables: &'static [&'static str],
    /// Where its key is looked for when the configuration has none.
    pub(crate) key_variables: &'static [&'static str],
    /// Its word for the longest answer.
    pub(crate) max_tokens_member: &'static str,
    /// Whether it takes `top_k`, which Chat Completions does not have.
    pub(crate) takes_top_k: bool,
    /// What ids of calls it takes.
    pub(crate) call_ids: CallIds,
    /// Whether it has the Responses interface.
    pub(crate) responses: bool,
    /// Whether a call without a key is worth trying.
    pub(crate) keyless: bool,
}

const NEW: &str = "max_completion_tokens";
const OLD: &str = "max_tokens";

impl Provider {
    const fn new(prefix: &'static str, interface: Interface) -> Self {
        Self {
            prefix,
            interface,
            base_url: None,
            base_variables: &[],
            key_variables: &[],
            max_tokens_member: OLD,
            takes_top_k: false,
            call_ids: CallIds::Any(64),
            responses: false,
            keyless: false,
        }
    }

    const fn at(mut self, base_url: &'static str) -> Self {
        self.base_url = Some(base_url);
        self
    }

    const fn located_by(mut self, variables: &'static [&'static str]) -> Self {
        self.base_variables = variables;
        self
    }

    const fn key(mut self, variables: &'static [&'static str]) -> Self {
        self.key_variables = variables;
        self
    }

    const fn new_limit(mut self) -> Self {
        self.max_tokens_member = NEW;
        self
    }

    const fn top_k(mut self) -> Self {
        self.takes_top_k = true;
        self
    }

    const fn ids(mut self, ids: CallIds) -> Self {
        self.call_ids = ids;
        self
    }

    const fn with_responses(mut self) -> Self {
        self.responses = true;
        self
    }

    const fn without_key(mut self) -> Self {
        self.keyless = true;
        self
    }
}

const fn openai(prefix: &'static str) -> Provider {
    Provider::new(prefix, Interface::OpenAi)
}

/// Google's, which its two prefixes share.
const GOOGLE: &str = "https://generativelanguage.googleapis.com/v1beta";
const OLLAMA: &str = "http://localhost:11434/v1";

static PROVIDERS: &[Provider] = &[
    openai("openai")
        .at("https://api.openai.com/v1")
        .located_by(&["OPENAI_BASE_URL", "OPENAI_API_BASE"])
        .key(&["OPENAI_API_KEY"])
        .new_limit()
        .with_responses(),
    openai("litellm_proxy")
        .located_by(&["LITELLM_PROXY_API_BASE"])
        .key(&["LITELLM_PROXY_API_KEY"])
        .new_limit()
        .top_k()
        .with_responses(),
    openai("openhands")
        .at("https://llm-proxy.app.all-hands.dev")
        .key(&["OPENHANDS_API_KEY"])
        .new_limit()
        .top_k()
        .with_responses(),
    openai("openrouter").at("https://openrouter.ai/api/v1").key(&["OPENROUTER_API_KEY"]).top_k(),
    openai("deepseek").at("https://api.deepseek.com/v1").key(&["DEEPSEEK_API_KEY"]),
    openai("groq").at("https://api.groq.com/openai/v1").key(&["GROQ_API_KEY"]).new_limit(),
    openai("mistral").at("https://api.mistral.ai/v1").key(&["MISTRAL_API_KEY"]).ids(CallIds::Nine),
    openai("xai").at("https://api.x.ai/v1").key(&["XAI_API_KEY"]).new_limit(),
    openai("moonshot").at("https://api.moonshot.ai/v1").key(&["MOONSHOT_API_KEY"]),
    openai("dashscope")
        .at("https://dashscope-intl.aliyuncs.com/compatible-mode/v1")
        .key(&["DASHSCOPE_API_KEY"])
        .top_k(),
    openai("qwen").at("https://dashscope-intl.aliyuncs.com/compatible-mode/v1").key(&["DASHSCOPE_API_KEY"]).top_k(),
    openai("together_ai")
        .at("https://api.together.xyz/v1")
        .key(&["TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"])
        .top_k(),
    openai("fireworks_ai")
        .at("https://api.fireworks.ai/inference/v1")
        .key(&["FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"])
        .top_k(),
    openai("deepinfra").at("https://api.deepinfra.com/v1/openai").key(&["DEEPINFRA_API_KEY"]).top_k(),
    openai("cerebras").at("https://api.cerebras.ai/v1").key(&["CEREBRAS_API_KEY"]).new_limit(),
    openai("nvidia_nim").at("https://integrate.api.nvidia.com/v1").key(&["NVIDIA_NIM_API_KEY"]),
    openai("sambanova").at("https://api.sambanova.ai/v1").key(&["SAMBANOVA_API_KEY"]).top_k(),
    openai("minimax").at("https://api.minimax.io/v1").key(&["MINIMAX_API_KEY"]),
    openai("zai").at("https://api.z.ai/api/paas/v4").key(&["ZAI_API_KEY"]),
    openai("hosted_vllm").located_by(&["HOSTED_VLLM_API_BASE"]).key(&["HOSTED_VLLM_API_KEY"]).top_k(),
    openai("vllm").located_by(&["HOSTED_VLLM_API_BASE"]).key(&["HOSTED_VLLM_API_KEY"]).top_k(),
    openai("lm_studio").located_by(&["LM_STUDIO_API_BASE"]).key(&["LM_STUDIO_API_KEY"]).top_k(),
    openai("ollama").at(OLLAMA).located_by(&["OLLAMA_API_BASE"]).key(&["OLLAMA_API_KEY"]).without_key(),
    openai("ollama_chat").at(OLLAMA).located_by(&["OLLAMA_API_BASE"]).key(&["OLLAMA_API_KEY"]).without_key(),
    openai("custom_openai"),
    Provider::new("azure", Interface::Azure)
        .located_by(&["AZURE_API_BASE"])
        .key(&["AZURE_API_KEY", "AZURE_OPENAI_API_KEY"])
        .new_limit()
        .with_responses(),
    Provider::new("anthropic", Interface::Anthropic)
        .at("https://api.anthropic.com")
        .located_by(&["ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"])
        .key(&["ANTHROPIC_API_KEY"])
        .ids(CallIds::Word)
        .top_k(),
    Provider::new("gemini", Interface::Gemini)
        .at(GOOGLE)
        .located_by(&["GEMINI_API_BASE"])
        .key(&["GEMINI_API_KEY", "GOOGLE_API_KEY"])
        .top_k(),
    Provider::new("bedrock", Interface::Bedrock).key(&["AWS_BEARER_TOKEN_BEDROCK"]).ids(CallIds::Word).top_k(),
    Provider::new("bedrock_converse", Interface::Bedrock).key(&["AWS_BEARER_TOKEN_BEDROCK"]).ids(CallIds::Word).top_k(),
    Provider::new("azure_ai", Interface::Other),
    Provider::new("cohere", Interface::Other),
    Provider::new("sagemaker", Interface::Other),
    Provider::new("vertex_ai", Interface::Other),
    Provider::new("watsonx", Interface::Other),
];

/// For names without a known prefix: whatever answers at the configured address, asked by the whole name.
static UNNAMED: Provider = openai("")
    .at("https://api.openai.com/v1")
    .located_by(&["OPENAI_BASE_URL", "OPENAI_API_BASE"])
    .key(&["OPENAI_API_KEY"])
    .new_limit()
    .with_responses();

/// Beginnings of bare names that can only mean one provider.
const BARE: [(&str, &str); 2] = [("claude-", "anthropic"), ("gemini-", "gemini")];

/// The provider and the model's name there. Only a known prefix is taken off: names of self-served models hold slashes too.
pub(crate) fn named(config: &LlmConfig) -> (&'static Provider, &str) {
    let model = config.model.trim();
    let of = |prefix: &str| PROVIDERS.iter().find(|provider| provider.prefix == prefix);
    if let Some((prefix, rest)) = model.split_once('/')
        && let Some(provider) = of(prefix)
    {
        return (provider, rest);
    }
    // With an address of its own a bare name is asked in the common language.
    let bare = BARE.iter().find(|(begin, _)| model.starts_with(begin) && config.base_url.is_none());
    (bare.and_then(|(_, prefix)| of(prefix)).unwrap_or(&UNNAMED), model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{endpoint::Endpoint, factory::Environment};

    #[test]
    fn every_prefix_has_its_address_and_key() {
        let environment: Environment = PROVIDERS
            .iter()
            .flat_map(|provider| provider.key_variables.iter().take(1))
            .map(|name| ((*name).to_owned(), format!("key of {name}")))
            .collect();
        let mut seen = std::collections::HashSet::new();
        for provider in PROVIDERS {
            assert!(seen.insert(provider.prefix), "{} is there twice", provider.prefix);
            let config = LlmConfig { model: format!("{}/m", provider.prefix), ..LlmConfig::default() };
            let reached = Endpoint::of(&config, &environment);
            let has_address = provider.base_url.is_some() || provider.interface == Interface::Bedrock;
            assert_eq!(reached.is_ok(), has_address && provider.interface != Interface::Other, "{}", provider.prefix);
            if let (Ok(endpoint), Some(variable)) = (reached, provider.key_variables.first()) {
                assert_eq!(endpoint.key.unwrap().expose(), format!("key of {variable}"));
            }
        }
    }
}
