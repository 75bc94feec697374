//! The conversation that calls belong to, told to providers that keep its prefixes warm: OpenAI's `prompt_cache_key` and its
//! followers, OpenRouter's `session_id`, the header that LiteLLM's proxy groups calls by.

use openhands_protocol::LlmConfig;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::{
    LlmError,
    adapter::Setup,
    models::is_part,
    providers::{Interface, Provider},
};

/// Whose calls a client makes. Nothing is sent for what is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The conversation's id.
    pub id: Option<String>,
    /// What shares a cached prefix; the conversation's id when absent. A fork may use its parent's.
    pub cache_key: Option<String>,
}

/// These take `prompt_cache_key`.
const KEYED: [&str; 16] = [
    "",
    "openai",
    "azure",
    "openrouter",
    "deepseek",
    "groq",
    "moonshot",
    "together_ai",
    "fireworks_ai",
    "hosted_vllm",
    "vllm",
    "lm_studio",
    "custom_openai",
    "dashscope",
    "qwen",
    "minimax",
];
/// These hand the request on: whose model it is decides.
const PROXIES: [&str; 2] = ["litellm_proxy", "openhands"];
const OPENAIS: [&str; 6] = ["gpt", "chatgpt", "o1", "o3", "o4", "codex"];
const HEADER: HeaderName = HeaderName::from_static("x-litellm-session-id");

impl Session {
    /// Adds what the provider takes; members that the configuration set stay.
    pub(crate) fn mark(&self, body: &mut Map<String, Value>, setup: &Setup) {
        let (config, provider) = (&setup.config, setup.endpoint.provider);
        if let Some(key) = self.cache_key.as_ref().or(self.id.as_ref())
            && takes_cache_key(config, provider)
        {
            body.entry("prompt_cache_key").or_insert_with(|| key.clone().into());
        }
        if let Some(id) = &self.id
            && is_openrouter(config, provider)
        {
            body.entry("session_id").or_insert_with(|| id.clone().into());
        }
    }

    /// The header for proxies: behind an address of the user's own there may be one.
    pub(crate) fn head(&self, headers: &mut HeaderMap, setup: &Setup) -> Result<(), LlmError> {
        let provider = setup.endpoint.provider;
        let may_be_proxy = provider.interface == Interface::OpenAi
            && (PROXIES.contains(&provider.prefix) || setup.config.base_url.is_some());
        if let Some(id) = self.id.as_ref().filter(|_| may_be_proxy) {
            let id = HeaderValue::from_str(id)
                .map_err(|_| LlmError::BadRequest("the conversation's id cannot be sent in a header".to_owned()))?;
            headers.entry(HEADER).or_insert(id);
        }
        Ok(())
    }
}

fn takes_cache_key(config: &LlmConfig, provider: &Provider) -> bool {
    let told = config.capability_overrides.get("supports_prompt_cache_key").and_then(Value::as_bool);
    let speaks = matches!(provider.interface, Interface::OpenAi | Interface::Azure);
    speaks
        && told.unwrap_or_else(|| {
            let name = crate::table::canonical(config);
            if PROXIES.contains(&provider.prefix) || provider.prefix.is_empty() {
                OPENAIS.iter().any(|family| is_part(&name, family))
            } else {
                KEYED.contains(&provider.prefix)
            }
        })
}

fn is_openrouter(config: &LlmConfig, provider: &Provider) -> bool {
    provider.prefix == "openrouter" || config.base_url.as_ref().is_some_and(|base| base.contains("openrouter.ai"))
}

#[cfg(test)]
mod tests {
    use openhands_protocol::{Content, Message, Role};
    use openhands_testkit::{ScriptedModel, Turn, llm_config};
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{ClientOptions, LlmRequest, client_with};

    async fn sent(
        model: &str,
        session: &Session,
        change: impl FnOnce(&mut LlmConfig),
    ) -> (Value, Value, Option<String>) {
        let server = ScriptedModel::start([Turn::text("a")]).await;
        let mut config = LlmConfig { model: model.to_owned(), ..llm_config(&server) };
        change(&mut config);
        let options = ClientOptions { session: session.clone(), ..ClientOptions::default() };
        let client = client_with(&config, &Default::default(), &options).unwrap();
        let request =
            LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: Vec::new() };
        client.complete(&request, None, &CancellationToken::new()).await.unwrap();
        let seen = server.requests().remove(0);
        let header = seen.headers.get(HEADER).map(|id| id.to_str().unwrap().to_owned());
        (seen.body["prompt_cache_key"].clone(), seen.body["session_id"].clone(), header)
    }

    #[tokio::test]
    async fn conversations_are_told_to_those_who_can_use_it() {
        let session = Session { id: Some("c-1".to_owned()), cache_key: None };
        let id = || Some("c-1".to_owned());
        for (model, expected) in [
            ("openai/gpt-4o", (json!("c-1"), Value::Null, id())),
            ("openai/gpt-5", (json!("c-1"), Value::Null, id())),
            ("azure/gpt-4o", (json!("c-1"), Value::Null, None)),
            ("litellm_proxy/gpt-4o", (json!("c-1"), Value::Null, id())),
            ("litellm_proxy/claude-sonnet-4-5", (Value::Null, Value::Null, id())),
            ("openrouter/anthropic/claude-sonnet-4.5", (json!("c-1"), json!("c-1"), id())),
            ("mistral/devstral-2512", (Value::Null, Value::Null, id())),
            ("anthropic/claude-sonnet-4-5", (Value::Null, Value::Null, None)),
            ("gemini/gemini-2.5-pro", (Value::Null, Value::Null, None)),
        ] {
            assert_eq!(sent(model, &session, |_| {}).await, expected, "{model}");
        }
        assert_eq!(sent("openai/gpt-4o", &Session::default(), |_| {}).await, (Value::Null, Value::Null, None));
    }

    #[tokio::test]
    async fn the_configuration_and_forks_have_their_own_keys() {
        let fork = Session { id: Some("c-2".to_owned()), cache_key: Some("parent".to_owned()) };
        let key = |change: fn(&mut LlmConfig)| {
            let fork = fork.clone();
            async move { sent("openai/gpt-4o", &fork, change).await.0 }
        };
        assert_eq!(key(|_| {}).await, "parent");
        let own = key(|config| drop(config.litellm_extra_body.insert("prompt_cache_key".to_owned(), "mine".into())));
        assert_eq!(own.await, "mine");
        let never = key(|config| {
            drop(config.capability_overrides.insert("supports_prompt_cache_key".to_owned(), false.into()));
        });
        assert_eq!(never.await, Value::Null);
    }
}
