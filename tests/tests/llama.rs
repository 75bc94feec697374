//! Our model layer before llama.cpp's own server: real tokens, limits, grammars and slots of a server that is not ours, on its
//! three interfaces. Its model has random weights, so nothing here depends on what it says.
//!
//! `OPENHANDS_LLAMA_PYTHON` is a Python that has xllamacpp and gguf.

#![expect(clippy::panic, reason = "a check that fails should say where")]

use std::{collections::BTreeMap, sync::LazyLock, thread, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use openhands_llm::{Delta, LlmError, LlmRequest, LlmResponse, OfferedTool, client_for};
use openhands_protocol::{Content, LlmConfig, Message, Role, secret::SecretText};
use openhands_tests::{agent_server::AgentServer, needs, peer::Peer};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Tokens; the prompt of our own agent fits.
const CONTEXT: u32 = 32_768;
const TOKENS: u64 = 24;

type Server = LazyLock<Result<Peer>>;

/// One that says anything, and one that begins every answer with a call where there are tools.
static TALKS: Server = LazyLock::new(|| start(false));
static CALLS: Server = LazyLock::new(|| start(true));

/// Tests have runtimes of their own, which end with them.
fn start(calls: bool) -> Result<Peer> {
    let started = thread::spawn(move || Runtime::new()?.block_on(Peer::llama(CONTEXT, calls)));
    started.join().map_err(|_| anyhow!("the set-up panicked"))?
}

fn url(server: &'static Server) -> Result<&'static str> {
    server.as_ref().map(|server| server.url.as_str()).map_err(|error| anyhow!("{error:#}"))
}

/// The three interfaces: Chat Completions, Responses, Messages. Always the likeliest token, so that answers can be compared.
fn configs(server: &'static Server) -> Result<Vec<(&'static str, LlmConfig)>> {
    let url = url(server)?;
    let config = |model: &str, path: &str, mode: &str| LlmConfig {
        model: model.to_owned(),
        base_url: Some(format!("{url}{path}")),
        api_key: Some(SecretText::new("not-needed")),
        api_mode: mode.to_owned(),
        num_retries: 1,
        timeout: Some(120),
        temperature: Some(0.0),
        max_output_tokens: Some(TOKENS),
        ..LlmConfig::default()
    };
    Ok(vec![
        ("chat", config("openai/random", "/v1", "chat")),
        ("responses", config("openai/random", "/v1", "responses")),
        ("messages", config("anthropic/random", "", "auto")),
    ])
}

fn asked(text: &str, tools: Vec<OfferedTool>) -> LlmRequest {
    let messages = vec![
        Message::new(Role::System, vec![Content::text("be brief")]),
        Message::new(Role::User, vec![Content::text(text)]),
    ];
    LlmRequest { messages, tools }
}

fn look() -> Vec<OfferedTool> {
    let what = json!({"type": "string", "enum": ["cat", "dog"]});
    vec![OfferedTool {
        name: "look".to_owned(),
        description: "looks at something".to_owned(),
        parameters: json!({"type": "object", "properties": {"what": what}, "required": ["what"]}),
    }]
}

/// The answer and the pieces of its text; whole calls have none.
async fn ask(
    config: &LlmConfig,
    request: &LlmRequest,
    is_streamed: bool,
) -> Result<(LlmResponse, Vec<String>), LlmError> {
    let mut pieces = Vec::new();
    let mut sink = |delta| match delta {
        Delta::Text(piece) => pieces.push(piece),
        Delta::Reasoning(_) | Delta::ToolArguments { .. } => {}
        Delta::Restart => panic!("the stream broke"),
    };
    let client = client_for(config, &BTreeMap::default())?;
    let cancel = CancellationToken::new();
    let response = if is_streamed {
        client.complete(request, Some(&mut sink), &cancel).await?
    } else {
        client.complete(request, None, &cancel).await?
    };
    Ok((response, pieces))
}

#[tokio::test]
async fn answers_whole_and_streamed_are_the_same_and_counted() -> Result<()> {
    needs!(Llama);
    for (name, config) in configs(&TALKS)? {
        let request = asked("tell me of the river", Vec::new());
        let (whole, _) = ask(&config, &request, false).await.with_context(|| name)?;
        let (streamed, pieces) = ask(&config, &request, true).await.with_context(|| name)?;
        let text = whole.message.joined_text();
        assert!(!text.is_empty(), "{name}");
        assert_eq!(streamed.message.joined_text(), text, "{name}");
        assert_eq!(pieces.concat(), text, "{name}");
        assert!(pieces.len() > 4, "{name}: {pieces:?}");
        assert_eq!((whole.usage.completion_tokens, streamed.usage.completion_tokens), (TOKENS, TOKENS), "{name}");
        assert_eq!(streamed.usage.prompt_tokens, whole.usage.prompt_tokens, "{name}");
        assert!(whole.usage.prompt_tokens > 20, "{name}: {:?}", whole.usage);
        assert_eq!(streamed.finish_reason, whole.finish_reason, "{name}");
        // What it has read just now it need not read again, and says so.
        let read = streamed.usage.cache_read_tokens;
        assert!(read > 0 && read < streamed.usage.prompt_tokens, "{name}: {:?}", streamed.usage);
    }
    Ok(())
}

#[tokio::test]
async fn calls_that_a_grammar_enforces_have_arguments_of_the_schema() -> Result<()> {
    needs!(Llama);
    for (name, config) in configs(&CALLS)? {
        // It calls until it is cut off: the last call is a torn one.
        let config = LlmConfig { max_output_tokens: Some(190), ..config };
        let mut seen = Vec::new();
        for is_streamed in [false, true] {
            let (response, _) = ask(&config, &asked("look", look()), is_streamed).await.with_context(|| name)?;
            let calls = response.message.tool_calls.clone().unwrap_or_default();
            let (_, whole) =
                calls.split_last().with_context(|| format!("{name}, streamed {is_streamed}: {response:?}"))?;
            assert!(whole.len() > 1, "{name}, streamed {is_streamed}: {calls:?}");
            for call in whole {
                assert_eq!(call.name, "look", "{name}");
                let arguments: Value = serde_json::from_str(&call.arguments).with_context(|| call.arguments.clone())?;
                assert!(["cat", "dog"].iter().any(|word| arguments == json!({ "what": word })), "{name}: {arguments}");
            }
            let parsed =
                whole.iter().map(|call| serde_json::from_str(&call.arguments)).collect::<Result<Vec<Value>, _>>()?;
            seen.push(parsed);
            // The whole calls and their results are taken back.
            let mut request = asked("look", look());
            request.messages.push(Message { tool_calls: Some(whole.to_vec()), ..response.message.clone() });
            request.messages.extend(whole.iter().map(|call| Message {
                tool_call_id: Some(call.id.clone()),
                name: Some(call.name.clone()),
                ..Message::new(Role::Tool, vec![Content::text("a cat")])
            }));
            let (answer, _) = ask(&config, &request, is_streamed).await.with_context(|| name)?;
            assert!(answer.usage.prompt_tokens > response.usage.prompt_tokens, "{name}: {:?}", answer.usage);
        }
        assert_eq!(seen[0], seen[1], "{name}: whole and streamed");
    }
    Ok(())
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_named() -> Result<()> {
    needs!(Llama);
    let long = "x".repeat(CONTEXT as usize + 100);
    for (name, config) in configs(&TALKS)? {
        for is_streamed in [false, true] {
            let error = ask(&config, &asked(&long, Vec::new()), is_streamed).await.err();
            let error = error.with_context(|| format!("{name}: it was taken"))?;
            assert_eq!(error.code(), "LLMContextWindowExceedError", "{name}, streamed {is_streamed}: {error}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_cancelled_stream_frees_the_only_slot() -> Result<()> {
    needs!(Llama);
    for (name, config) in configs(&TALKS)? {
        let endless = LlmConfig { max_output_tokens: Some(u64::from(CONTEXT) - 2_000), ..config.clone() };
        let cancel = CancellationToken::new();
        let mut sink = {
            let cancel = cancel.clone();
            move |_| cancel.cancel()
        };
        let client = client_for(&endless, &BTreeMap::default())?;
        let error = client.complete(&asked("tell me all", Vec::new()), Some(&mut sink), &cancel).await.err();
        assert!(matches!(error, Some(LlmError::Cancelled)), "{name}: {error:?}");
        // It would write for minutes, and has one slot.
        let next = asked("and now this", Vec::new());
        let next = ask(&config, &next, false);
        tokio::time::timeout(Duration::from_secs(20), next).await.with_context(|| format!("{name}: still busy"))??;
    }
    Ok(())
}

#[tokio::test]
async fn our_server_converses_with_it() -> Result<()> {
    needs!(Llama);
    let server = AgentServer::ours(&[]).await?;
    let llm = json!({
        "model": "openai/random", "base_url": format!("{}/v1", url(&TALKS)?), "api_key": "not-needed", "usage_id": "agent",
        "num_retries": 1, "temperature": 0.0, "max_output_tokens": TOKENS, "stream": true,
    });
    let id = server.create(&llm, &["terminal"]).await?;
    for text in ["Hello.", "Go on."] {
        assert_eq!(server.say(&id, &json!([{"type": "text", "text": text}])).await?, "finished");
    }
    let info = server.ask("GET", &format!("/api/conversations/{id}"), &Value::Null).await?;
    let usage = &info["stats"]["usage_to_metrics"]["agent"]["accumulated_token_usage"];
    assert_eq!(usage["completion_tokens"], 2 * TOKENS, "{usage}");
    assert!(usage["cache_read_tokens"].as_u64() > Some(1_000), "the prompt is read once: {usage}");
    Ok(())
}
