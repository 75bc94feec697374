//! Our model layer before LiteLLM's proxy, a server that many users have and that is not ours, on its three interfaces. Behind
//! it stand scripted models, so that both sides of it are seen: what the proxy makes of our requests, and we of its answers.
//!
//! `OPENHANDS_LITELLM_PYTHON` is a Python that has `litellm[proxy]`.

#![expect(clippy::indexing_slicing, clippy::panic, reason = "a check that fails should say where")]

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow};
use openhands_llm::{Delta, LlmError, LlmRequest, LlmResponse, OfferedTool, client_for};
use openhands_protocol::{Content, LlmConfig, Message, Role, secret::SecretText};
use openhands_testkit::{ScriptedModel, Turn};
use openhands_tests::{agent_server::AgentServer, needs, peer::Peer};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const KEY: &str = "sk-proxy";
const SIGNATURE: &str = "c2lnbmF0dXJl";
const IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// The proxy's models: as we call them, as the proxy calls them, and whether its upstream's address ends in `/v1`.
const MODELS: &[(&str, &str, bool)] = &[
    ("gpt-tools", "openai/gpt-4o", true),
    ("gpt-errors", "openai/gpt-4o", true),
    ("gpt-stalls", "openai/gpt-4o", true),
    ("gpt-5", "openai/gpt-5", true),
    ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5", false),
    ("claude-opus-4-5", "anthropic/claude-opus-4-5", false),
    ("claude-haiku-4-5", "anthropic/claude-haiku-4-5", false),
];

/// One proxy for all tests, and a scripted model behind each of its models: tests do not meet there.
struct Lab {
    proxy: Peer,
    upstream: BTreeMap<&'static str, ScriptedModel>,
    _runtime: Runtime,
}

static LAB: LazyLock<Result<Lab>> = LazyLock::new(|| {
    // Tests have runtimes of their own, which end with them.
    let built = thread::spawn(|| {
        let runtime = Runtime::new()?;
        let (proxy, upstream) = runtime.block_on(async {
            let mut upstream = BTreeMap::new();
            let mut models = vec![json!({
                "model_name": "mocked",
                "litellm_params": {"model": "openai/gpt-4o", "api_key": "k", "mock_response": "Hello from the proxy."},
            })];
            for (name, model, versioned) in MODELS {
                let script = ScriptedModel::start([]).await;
                let base = script.base_url();
                let base = if *versioned { base.as_str() } else { base.trim_end_matches("/v1") };
                models.push(json!({
                    "model_name": name,
                    "litellm_params": {"model": model, "api_key": "upstream-key", "api_base": base},
                }));
                upstream.insert(*name, script);
            }
            let proxy = Peer::litellm(&json!({
                "model_list": models,
                "general_settings": {"master_key": KEY},
                // An error is to reach us, not to be mended or remembered.
                "router_settings": {"num_retries": 0, "disable_cooldowns": true},
                "litellm_settings": {"num_retries": 0},
            }))
            .await?;
            anyhow::Ok((proxy, upstream))
        })?;
        Ok(Lab { proxy, upstream, _runtime: runtime })
    });
    built.join().map_err(|_| anyhow!("the set-up panicked"))?
});

fn lab() -> Result<&'static Lab> {
    LAB.as_ref().map_err(|error| anyhow!("{error:#}"))
}

impl Lab {
    fn upstream(&self, name: &str) -> Result<&ScriptedModel> {
        self.upstream.get(name).with_context(|| name.to_owned())
    }

    /// A model of the proxy; `path` is what a user adds to its address.
    fn config(&self, model: &str, path: &str) -> LlmConfig {
        LlmConfig {
            model: model.to_owned(),
            base_url: Some(format!("{}{path}", self.proxy.url)),
            api_key: Some(SecretText::new(KEY)),
            num_retries: 1,
            timeout: Some(60),
            ..LlmConfig::default()
        }
    }
}

async fn whole(config: &LlmConfig, request: &LlmRequest) -> Result<LlmResponse, LlmError> {
    client_for(config, &BTreeMap::default())?.complete(request, None, &CancellationToken::new()).await
}

/// The streamed answer, and its text and reasoning out of the pieces.
async fn streamed(config: &LlmConfig, request: &LlmRequest) -> Result<(LlmResponse, String, String), LlmError> {
    let (mut text, mut reasoning) = (String::new(), String::new());
    let mut sink = |delta| match delta {
        Delta::Text(piece) => text.push_str(&piece),
        Delta::Reasoning(piece) => reasoning.push_str(&piece),
        Delta::ToolArguments { .. } => {}
        Delta::Restart => panic!("the stream broke"),
    };
    let client = client_for(config, &BTreeMap::default())?;
    let response = client.complete(request, Some(&mut sink), &CancellationToken::new()).await?;
    Ok((response, text, reasoning))
}

fn asked() -> LlmRequest {
    let image = Content::Image { cache_prompt: false, image_urls: vec![IMAGE.to_owned()] };
    LlmRequest {
        messages: vec![
            Message::new(Role::System, vec![Content::text("static"), Content::text("dynamic")]),
            Message::new(Role::User, vec![Content::text("look"), image]),
        ],
        tools: vec![OfferedTool {
            name: "run".to_owned(),
            description: "runs".to_owned(),
            parameters: json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}),
        }],
    }
}

/// What the model said, and a result for each of its calls.
fn continued(mut request: LlmRequest, answer: &Message) -> LlmRequest {
    request.messages.push(answer.clone());
    for call in answer.tool_calls.iter().flatten() {
        request.messages.push(Message {
            tool_call_id: Some(call.id.clone()),
            name: Some(call.name.clone()),
            ..Message::new(Role::Tool, vec![Content::text(format!("result of {}", call.id))])
        });
    }
    request
}

fn two_calls() -> Turn {
    Turn::calls(&[("call_1", "run", json!({"command": "größe"})), ("call_2", "run", json!({"command": "pwd"}))])
        .saying("I look.")
}

fn calls(message: &Message) -> Vec<(String, String, Value)> {
    let parsed = |text: &str| serde_json::from_str(text).unwrap_or_default();
    message.tool_calls.iter().flatten().map(|c| (c.id.clone(), c.name.clone(), parsed(&c.arguments))).collect()
}

fn wanted_calls() -> Vec<(String, String, Value)> {
    let call = |id: &str, command: &str| (id.to_owned(), "run".to_owned(), json!({ "command": command }));
    vec![call("call_1", "größe"), call("call_2", "pwd")]
}

#[tokio::test]
async fn answers_and_costs_are_the_proxys() -> Result<()> {
    needs!(Litellm);
    let config = lab()?.config("litellm_proxy/mocked", "/v1");
    let response = whole(&config, &asked()).await?;
    assert_eq!(response.message.joined_text(), "Hello from the proxy.");
    assert_eq!((response.usage.prompt_tokens, response.usage.completion_tokens), (10, 20));
    // The proxy's own figure, which it tells in a header: 10 tokens read, 20 written of gpt-4o. No table knows "mocked".
    assert!((response.cost - 0.000_225).abs() < 1e-9, "{}", response.cost);

    let (response, text, _) = streamed(&config, &asked()).await?;
    assert_eq!(text, "Hello from the proxy.");
    assert_eq!(response.message.joined_text(), text);
    assert_eq!(response.finish_reason.as_deref(), Some("stop"));
    assert!(response.usage.completion_tokens > 0, "{:?}", response.usage);
    Ok(())
}

#[tokio::test]
async fn parallel_calls_go_both_ways() -> Result<()> {
    needs!(Litellm);
    let config = lab()?.config("litellm_proxy/gpt-tools", "/v1");
    let upstream = lab()?.upstream("gpt-tools")?;
    upstream.push([two_calls(), Turn::text("Done."), two_calls(), Turn::text("Done.")]);
    for is_streamed in [false, true] {
        let before = upstream.requests().len();
        let ask = async |request: &LlmRequest| {
            if is_streamed { Ok(streamed(&config, request).await?.0) } else { whole(&config, request).await }
        };
        let first = ask(&asked()).await?;
        assert_eq!(calls(&first.message), wanted_calls());
        assert_eq!(first.message.joined_text(), "I look.");
        assert_eq!(
            (first.usage.prompt_tokens, first.usage.cache_read_tokens, first.usage.reasoning_tokens),
            (100, 40, 3)
        );
        let last = ask(&continued(asked(), &first.message)).await?;
        assert_eq!(last.message.joined_text(), "Done.");
        let seen = upstream.requests().split_off(before);
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].body["tools"][0]["function"]["name"], "run");
        assert_eq!(seen[0].body["messages"][1]["content"][1]["image_url"]["url"], IMAGE);
        let messages = seen[1].body["messages"].as_array().context("messages")?;
        let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap_or_default()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "tool"]);
        assert_eq!(messages[3]["tool_call_id"], "call_1");
        assert_eq!(messages[2]["tool_calls"][1]["id"], "call_2");
    }
    Ok(())
}

#[tokio::test]
async fn errors_keep_their_names_behind_the_proxy() -> Result<()> {
    needs!(Litellm);
    let config = lab()?.config("litellm_proxy/gpt-errors", "/v1");
    let upstream = lab()?.upstream("gpt-errors")?;
    let too_long =
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.";
    let refused = "Your request was rejected as a result of our safety system.";
    let cases = [
        (Turn::error(429, "rate_limit_exceeded", "Rate limit reached"), "LLMRateLimitError"),
        (Turn::error(400, "context_length_exceeded", too_long), "LLMContextWindowExceedError"),
        (Turn::error(401, "invalid_api_key", "Incorrect API key provided"), "LLMAuthenticationError"),
        (Turn::error(400, "invalid_request_error", "Unknown parameter: 'x'."), "LLMBadRequestError"),
        (Turn::error(400, "content_policy_violation", refused), "LLMContentPolicyViolationError"),
        (Turn::error(500, "server_error", "The server had an error"), "LLMServiceUnavailableError"),
        (Turn::error(503, "overloaded", "The engine is overloaded"), "LLMServiceUnavailableError"),
    ];
    for (turn, name) in cases {
        for is_streamed in [false, true] {
            upstream.push([turn.clone()]);
            let error = if is_streamed {
                streamed(&config, &asked()).await.map(|(response, ..)| response)
            } else {
                whole(&config, &asked()).await
            };
            let error = error.err().with_context(|| format!("{turn:?} went well"))?;
            assert_eq!(error.code(), name, "streamed {is_streamed}: {error}");
        }
    }
    let missing = whole(&lab()?.config("litellm_proxy/no-such-model", "/v1"), &asked()).await;
    assert_eq!(missing.err().map(|error| error.code()), Some("LLMBadRequestError"));
    // Without a database the proxy cannot look a key up and answers 400 in place of 401.
    let keyless = LlmConfig { api_key: Some(SecretText::new("wrong")), ..config };
    let refused = whole(&keyless, &asked()).await.err().context("a wrong key was taken")?;
    assert_eq!(refused.code(), "LLMBadRequestError", "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_cancelled_call_ends_behind_the_proxy_too() -> Result<()> {
    needs!(Litellm);
    let config = lab()?.config("litellm_proxy/gpt-stalls", "/v1");
    let upstream = lab()?.upstream("gpt-stalls")?;
    upstream.push([Turn::text("It begins and then nothing comes any more.").stall_after(600)]);
    let cancel = CancellationToken::new();
    let client = client_for(&config, &BTreeMap::default())?;
    let mut sink = {
        let cancel = cancel.clone();
        // With the first piece the caller loses interest.
        move |_| cancel.cancel()
    };
    let error = client.complete(&asked(), Some(&mut sink), &cancel).await.err().context("it went well")?;
    assert!(matches!(error, LlmError::Cancelled), "{error}");
    tokio::time::timeout(Duration::from_secs(30), upstream.idle()).await.context("the upstream call goes on")?;
    Ok(())
}

/// The Anthropic request that the proxy made of ours.
fn check_claude(first: &Value, second: &Value) {
    let mark = json!({"type": "ephemeral"});
    assert_eq!(first["system"][0]["cache_control"], mark, "the static part of the prompt is marked: {first}");
    assert_eq!(first["system"][1]["cache_control"], Value::Null, "the other part is not: {first}");
    assert_eq!(first["messages"][0]["content"][1]["type"], "image");
    assert_eq!(first["thinking"]["type"], "enabled", "{first}");
    assert_eq!(first["tools"][0]["name"], "run");
    let kinds = |message: &Value| -> Vec<String> {
        let parts = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        parts.iter().map(|part| part["type"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let (answer, results) = (&second["messages"][1], &second["messages"][2]);
    assert_eq!(kinds(answer), ["thinking", "text", "tool_use", "tool_use"], "{answer}");
    assert_eq!(answer["content"][0], json!({"type": "thinking", "thinking": "Let me see.", "signature": SIGNATURE}));
    assert_eq!(kinds(results), ["tool_result", "tool_result"], "{results}");
    assert!(results.to_string().contains("cache_control"), "the last message is marked: {results}");
}

/// Two calls at a model that thinks, whole and then streamed.
async fn claude(config: &LlmConfig, upstream: &ScriptedModel) -> Result<()> {
    let usage = json!({
        "prompt_tokens": 100, "completion_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 20},
    });
    let look = two_calls().thinking("Let me see.").signed(SIGNATURE).usage(Some(usage));
    upstream.push([look.clone(), Turn::text("Done."), look, Turn::text("Done.")]);
    for is_streamed in [false, true] {
        let before = upstream.requests().len();
        let first = if is_streamed {
            let (response, text, reasoning) = streamed(config, &asked()).await?;
            assert_eq!((text.as_str(), reasoning.as_str()), ("I look.", "Let me see."));
            response
        } else {
            whole(config, &asked()).await?
        };
        assert_eq!(calls(&first.message), wanted_calls(), "streamed {is_streamed}");
        let block = json!({"type": "thinking", "thinking": "Let me see.", "signature": SIGNATURE});
        assert_eq!(first.message.thinking_blocks, [block], "streamed {is_streamed}");
        let usage = &first.usage;
        assert_eq!((usage.prompt_tokens, usage.cache_read_tokens, usage.cache_write_tokens), (100, 40, 20));
        assert!(first.cost > 0.0);
        let last = whole(config, &continued(asked(), &first.message)).await?;
        assert_eq!(last.message.joined_text(), "Done.");
        let seen = upstream.requests().split_off(before);
        assert!(seen.iter().all(|seen| seen.path == "/v1/messages"), "{seen:?}");
        check_claude(&seen[0].body, &seen[1].body);
    }
    Ok(())
}

#[tokio::test]
async fn claude_keeps_its_thinking_and_cache_on_chat_completions() -> Result<()> {
    needs!(Litellm);
    claude(&lab()?.config("litellm_proxy/claude-sonnet-4-5", "/v1"), lab()?.upstream("claude-sonnet-4-5")?).await
}

#[tokio::test]
async fn claude_keeps_its_thinking_and_cache_on_messages() -> Result<()> {
    needs!(Litellm);
    claude(&lab()?.config("anthropic/claude-opus-4-5", ""), lab()?.upstream("claude-opus-4-5")?).await
}

#[tokio::test]
async fn encrypted_reasoning_survives_on_responses() -> Result<()> {
    needs!(Litellm);
    let config = lab()?.config("litellm_proxy/gpt-5", "/v1");
    let upstream = lab()?.upstream("gpt-5")?;
    let look = two_calls().thinking("Let me see.").signed("ZW5jcnlwdGVk");
    upstream.push([look.clone(), Turn::text("Done."), look, Turn::text("Done.")]);
    for is_streamed in [false, true] {
        let before = upstream.requests().len();
        let first = if is_streamed { streamed(&config, &asked()).await?.0 } else { whole(&config, &asked()).await? };
        assert_eq!(calls(&first.message), wanted_calls());
        let last = whole(&config, &continued(asked(), &first.message)).await?;
        assert_eq!(last.message.joined_text(), "Done.");
        let seen = upstream.requests().split_off(before);
        assert!(seen.iter().all(|seen| seen.path == "/v1/responses"), "{seen:?}");
        let items = seen[1].body["input"].as_array().context("input")?;
        let reasoning = items.iter().find(|item| item["type"] == "reasoning").context("no reasoning came back")?;
        assert_eq!(reasoning["encrypted_content"], "ZW5jcnlwdGVk");
        let outputs = items.iter().filter(|item| item["type"] == "function_call_output").count();
        assert_eq!(outputs, 2);
    }
    Ok(())
}

#[tokio::test]
async fn a_conversation_of_our_server_through_the_proxy() -> Result<()> {
    needs!(Litellm);
    let (lab, server) = (lab()?, Arc::new(AgentServer::ours(&[]).await?));
    let upstream = lab.upstream("claude-haiku-4-5")?;
    let run = |id, word| (id, "terminal", json!({"command": format!("echo {word}-output")}));
    let both =
        Turn::calls(&[run("call_a", "first"), run("call_b", "second")]).thinking("Let me see.").signed(SIGNATURE);
    upstream.push([both, Turn::text("Seen."), Turn::text("Still here.")]);
    let llm = json!({
        "model": "litellm_proxy/claude-haiku-4-5", "base_url": format!("{}/v1", lab.proxy.url), "api_key": KEY,
        "usage_id": "agent", "num_retries": 1, "stream": true,
    });
    let id = server.create(&llm, &["terminal"]).await?;
    assert_eq!(server.say(&id, &json!([{"type": "text", "text": "Look."}])).await?, "finished");
    assert_eq!(server.say(&id, &json!([{"type": "text", "text": "Are you there?"}])).await?, "finished");
    let seen = upstream.requests();
    assert_eq!(seen.len(), 3);
    let results = seen[1].body["messages"][2]["content"].to_string();
    assert!(results.contains("first-output") && results.contains("second-output"), "{results}");
    assert_eq!(seen[1].body["messages"][1]["content"][0]["signature"], SIGNATURE);
    let info = server.ask("GET", &format!("/api/conversations/{id}"), &Value::Null).await?;
    let metrics = &info["stats"]["usage_to_metrics"]["agent"];
    assert_eq!(metrics["accumulated_token_usage"]["completion_tokens"], 30, "{metrics}");
    assert!(metrics["accumulated_cost"].as_f64().is_some_and(|cost| cost > 0.0), "{metrics}");
    Ok(())
}
