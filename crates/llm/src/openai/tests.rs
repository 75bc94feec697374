//! The adapter against a scripted model on real sockets.

use std::time::Duration;

use openhands_protocol::{Content, LlmConfig, Message, Role, ToolCall, metrics::TokenUsage};
use openhands_testkit::{ScriptedModel, Turn, llm_config};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{Delta, DeltaSink, LlmError, LlmRequest, LlmResponse, client_for};

fn request() -> LlmRequest {
    LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: Vec::new() }
}

async fn ask(model: &ScriptedModel, change: impl FnOnce(&mut LlmConfig)) -> Result<LlmResponse, LlmError> {
    let mut config = llm_config(model);
    change(&mut config);
    client_for(&config, &Default::default())?.complete(&request(), None, &CancellationToken::new()).await
}

async fn ask_streamed(
    model: &ScriptedModel,
    change: impl FnOnce(&mut LlmConfig),
) -> (Result<LlmResponse, LlmError>, Vec<Delta>) {
    let mut config = llm_config(model);
    change(&mut config);
    let client = client_for(&config, &Default::default()).unwrap();
    let mut deltas = Vec::new();
    let mut sink = |delta| deltas.push(delta);
    let result = client.complete(&request(), Some(&mut sink), &CancellationToken::new()).await;
    (result, deltas)
}

fn two_calls() -> Turn {
    Turn::calls(&[
        ("call-1", "terminal", json!({"command": "echo größe"})),
        ("call-2", "finish", json!({"message": "ok"})),
    ])
    .saying("Ich führe es aus.")
    .thinking("Überlegung")
}

fn expected_answer() -> LlmResponse {
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        responses_item_id: None,
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        origin: Default::default(),
    };
    LlmResponse {
        id: "chatcmpl-1".to_owned(),
        message: Message {
            tool_calls: Some(vec![
                call("call-1", "terminal", r#"{"command":"echo größe"}"#),
                call("call-2", "finish", r#"{"message":"ok"}"#),
            ]),
            reasoning_content: Some("Überlegung".to_owned()),
            ..Message::new(Role::Assistant, vec![Content::text("Ich führe es aus.")])
        },
        usage: TokenUsage {
            model: "openai/scripted".to_owned(),
            prompt_tokens: 100,
            completion_tokens: 10,
            cache_read_tokens: 40,
            reasoning_tokens: 3,
            per_turn_token: 110,
            response_id: "chatcmpl-1".to_owned(),
            ..TokenUsage::default()
        },
        cost: 0.0,
        finish_reason: Some("tool_calls".to_owned()),
        usage_id: None,
    }
}

#[tokio::test]
async fn a_whole_answer() {
    let model = ScriptedModel::start([two_calls()]).await;
    assert_eq!(ask(&model, |_| {}).await.unwrap(), expected_answer());
    let [seen] = &model.requests()[..] else { panic!("one request") };
    assert_eq!(seen.path, "/v1/chat/completions");
    assert_eq!(seen.headers["authorization"], "Bearer test-key");
    assert!(seen.headers["user-agent"].to_str().unwrap().starts_with("openhands-operator/"));
    assert_eq!(seen.body, json!({"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}));
}

#[tokio::test]
async fn an_address_that_is_not_there_is_told_apart_from_a_model() {
    let turns = [Turn::raw(404, "404 page not found"), Turn::raw(404, r#"{"error": {"message": "no such model"}}"#)];
    let model = ScriptedModel::start(turns).await;
    let nowhere = ask(&model, |_| {}).await.unwrap_err().to_string();
    assert!(nowhere.contains("nothing is at /v1/chat/completions there, check llm.base_url"), "{nowhere}");
    let unknown = ask(&model, |_| {}).await.unwrap_err().to_string();
    assert!(unknown.starts_with("no such model (from"), "{unknown}");
}

#[tokio::test]
async fn a_streamed_answer_is_the_same_wherever_its_bytes_are_split() {
    for piece in [1, 2, 3, 7, 64, usize::MAX] {
        let model = ScriptedModel::start([two_calls().pieces(piece, Duration::ZERO)]).await;
        let (answer, deltas) = ask_streamed(&model, |_| {}).await;
        assert_eq!(answer.unwrap(), expected_answer(), "in pieces of {piece} bytes");
        let (mut said, mut thought, mut arguments) = (String::new(), String::new(), vec![String::new(); 2]);
        for delta in deltas {
            match delta {
                Delta::Text(text) => said.push_str(&text),
                Delta::Reasoning(text) => thought.push_str(&text),
                Delta::ToolArguments { index, name, arguments: more } => {
                    arguments[index].push_str(&name.map(|name| format!("{name}:")).unwrap_or_default());
                    arguments[index].push_str(&more);
                }
                Delta::Restart => panic!("nothing failed"),
            }
        }
        assert_eq!((said.as_str(), thought.as_str()), ("Ich führe es aus.", "Überlegung"));
        assert_eq!(arguments, [r#"terminal:{"command":"echo größe"}"#, r#"finish:{"message":"ok"}"#]);
        let body = &model.requests()[0].body;
        assert_eq!((&body["stream"], &body["stream_options"]), (&json!(true), &json!({"include_usage": true})));
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let whole =
        json!({"id": "x", "choices": [{"message": {"content": [{"type": "text", "text": "hello"}]}}]}).to_string();
    let model = ScriptedModel::start([Turn::raw(200, &whole)]).await;
    let (answer, deltas) = ask_streamed(&model, |_| {}).await;
    assert_eq!(answer.unwrap().message.joined_text(), "hello");
    assert_eq!(deltas, [Delta::Text("hello".to_owned())]);
}

#[tokio::test]
async fn marks_ids_and_usage_may_be_missing() {
    let calls = || Turn::calls(&[("", "a", json!({})), ("", "b", json!(""))]).usage(None).without_done();
    let model = ScriptedModel::start([calls(), calls()]).await;
    for answer in [ask(&model, |_| {}).await, ask_streamed(&model, |_| {}).await.0] {
        let answer = answer.unwrap();
        let calls = answer.message.tool_calls.unwrap();
        assert_eq!(calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(calls.iter().all(|call| call.id.starts_with("call_") && call.arguments == "{}"));
        assert_ne!(calls[0].id, calls[1].id);
        assert_eq!(answer.usage.prompt_tokens, 0);
    }
}

/// One event a line, each the only choice's delta.
fn streamed(deltas: &[Value]) -> Turn {
    let events: String =
        deltas.iter().map(|delta| format!("data: {}\r\n\r\n", json!({"choices": [{"delta": delta}]}))).collect();
    Turn::raw(200, &(events + ": a comment\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}"))
}

#[tokio::test]
async fn calls_are_told_apart_in_every_numbering() {
    let call = |members: Value| json!({"tool_calls": [members]});
    let numbered_zero = [
        call(json!({"index": 0, "id": "x", "function": {"name": "a", "arguments": "{}"}})),
        call(json!({"index": 0, "id": "y", "function": {"name": "b", "arguments": "{\"k\":"}})),
        call(json!({"index": 0, "function": {"arguments": "1}"}})),
    ];
    let by_id = [
        call(json!({"id": "x", "function": {"name": "a", "arguments": "{"}})),
        call(json!({"id": "y", "function": {"name": "b", "arguments": "{\"k\":"}})),
        call(json!({"id": "x", "function": {"arguments": "}"}})),
        call(json!({"id": "y", "function": {"name": "b", "arguments": "1}"}})),
    ];
    let unnumbered = [
        call(json!({"id": "x", "function": {"name": "a"}})),
        call(json!({"function": {"arguments": "{}"}})),
        call(json!({"id": "y", "function": {"name": "b", "arguments": {"k": 1}}})),
    ];
    let interleaved = [
        call(json!({"index": 4, "id": "x", "function": {"name": "a", "arguments": "{"}})),
        call(json!({"index": 7, "id": "y", "function": {"name": "b", "arguments": "{\"k\":"}})),
        call(json!({"index": 4, "function": {"arguments": "}"}})),
        call(json!({"index": 7, "function": {"arguments": "1}"}})),
    ];
    for deltas in [&numbered_zero[..], &by_id, &unnumbered, &interleaved] {
        let model = ScriptedModel::start([streamed(deltas)]).await;
        let calls = ask_streamed(&model, |_| {}).await.0.unwrap().message.tool_calls.unwrap();
        let calls: Vec<_> =
            calls.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, [("x", "a", "{}"), ("y", "b", "{\"k\":1}")], "{deltas:?}");
    }
}

#[tokio::test]
async fn refusals_are_named_and_carry_the_providers_words() {
    for (turn, code, words) in [
        (Turn::error(400, "invalid", "mock: invalid request"), "LLMBadRequestError", "mock: invalid request"),
        (Turn::error(401, "invalid_api_key", "wrong key test-key"), "LLMAuthenticationError", "wrong key **********"),
        (Turn::error(400, "context_length_exceeded", "too long"), "LLMContextWindowExceedError", "too long"),
        (Turn::error(429, "insufficient_quota", "pay first"), "LLMRateLimitError", "pay first"),
        (Turn::raw(307, "").header("location", "https://elsewhere/"), "LLMBadRequestError", "https://elsewhere/"),
    ] {
        let model = ScriptedModel::start([turn]).await;
        let error = ask(&model, |_| {}).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(words) && error.to_string().contains("openai/scripted"), "{error}");
        assert_eq!(model.requests().len(), 1, "{error} does not heal");
    }
}

#[tokio::test]
async fn what_may_heal_is_tried_again_and_the_last_error_is_told() {
    for turn in [
        Turn::error(429, "rate_limit", "slow down").header("retry-after", "1"),
        Turn::error(500, "server_error", "oops"),
        Turn::error(503, "overloaded", "busy"),
        Turn::raw(200, "{\"choices\": []}"),
        Turn::raw(200, "<html>"),
        Turn::raw(200, r#"{"error": {"message": "later", "code": 429}}"#),
        Turn::text("half").cut_after(20),
    ] {
        let model = ScriptedModel::start([turn.clone(), Turn::text("after the retry")]).await;
        assert_eq!(ask(&model, |_| {}).await.unwrap().message.joined_text(), "after the retry", "{turn:?}");
        let model = ScriptedModel::start([turn.clone(), Turn::error(502, "x", "last words")]).await;
        let error = ask(&model, |_| {}).await.unwrap_err();
        assert!(error.to_string().contains("last words"), "{error}");
        assert_eq!(model.requests().len(), 2);
    }
}

#[tokio::test]
async fn an_empty_answer_at_temperature_zero_is_asked_again_with_another() {
    let model = ScriptedModel::start([Turn::raw(200, "{\"choices\": []}"), Turn::text("ok")]).await;
    ask(&model, |config| config.temperature = Some(0.0)).await.unwrap();
    let temperatures: Vec<_> = model.requests().iter().map(|seen| seen.body["temperature"].clone()).collect();
    assert_eq!(temperatures, [json!(0.0), json!(1.0)]);
}

#[tokio::test]
async fn a_broken_stream_is_taken_back_and_tried_again() {
    let long = "a text that is long enough to be cut in the middle";
    let error_event = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n";
    for turn in [Turn::text(long).cut_after(600), Turn::text(long).end_after(600), Turn::raw(200, error_event)] {
        let model = ScriptedModel::start([turn, Turn::text("whole")]).await;
        let (answer, deltas) = ask_streamed(&model, |_| {}).await;
        assert_eq!(answer.unwrap().message.joined_text(), "whole");
        let restart = deltas.iter().position(|delta| *delta == Delta::Restart).unwrap();
        assert!(restart > 0);
        assert_eq!(deltas[restart + 1..], [Delta::Text("whole".to_owned())]);
    }
}

#[tokio::test]
async fn time_outs_name_their_setting() {
    let model = ScriptedModel::start([Turn::text("late").delay(Duration::from_secs(60))]).await;
    let once = |config: &mut LlmConfig| (config.num_retries, config.timeout) = (1, Some(1));
    let error = ask(&model, once).await.unwrap_err();
    assert!(matches!(&error, LlmError::Timeout(text) if text.contains("llm.timeout")), "{error}");
    model.idle().await;

    let model = ScriptedModel::start([Turn::text("a text that stops").stall_after(400)]).await;
    let (answer, deltas) = ask_streamed(&model, |config| {
        (config.num_retries, config.stream_idle_timeout) = (1, Some(0.2));
    })
    .await;
    let error = answer.unwrap_err();
    assert!(matches!(&error, LlmError::Timeout(text) if text.contains("llm.stream_idle_timeout")), "{error}");
    assert!(!deltas.is_empty());
    model.idle().await;

    let model = ScriptedModel::start([Turn::text("never begins").stall_after(0)]).await;
    let error = ask_streamed(&model, once).await.0.unwrap_err();
    assert!(matches!(&error, LlmError::Timeout(text) if text.contains("llm.timeout")), "{error}");
}

#[tokio::test]
async fn a_slow_stream_lives_as_long_as_pieces_come() {
    let turn = Turn::text("slow but steady").pieces(200, Duration::from_millis(120));
    let model = ScriptedModel::start([turn]).await;
    let answer =
        ask_streamed(&model, |config| (config.timeout, config.stream_idle_timeout) = (Some(1), Some(5.0))).await.0;
    assert_eq!(answer.unwrap().message.joined_text(), "slow but steady");
}

#[tokio::test]
async fn cancelling_closes_the_connection() {
    for streamed in [false, true] {
        let model = ScriptedModel::start([Turn::text("never ends").stall_after(10)]).await;
        let client = client_for(&llm_config(&model), &Default::default()).unwrap();
        let cancel = CancellationToken::new();
        let request = request();
        let mut sink = |_| {};
        let deltas: Option<DeltaSink<'_>> = if streamed { Some(&mut sink) } else { None };
        let (result, ()) = tokio::join!(client.complete(&request, deltas, &cancel), async {
            model.answering().await;
            cancel.cancel();
        });
        assert!(matches!(result, Err(LlmError::Cancelled)));
        tokio::time::timeout(Duration::from_secs(20), model.idle()).await.unwrap();
        assert_eq!(model.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_unreachable_provider_is_named() {
    let model = ScriptedModel::start([]).await;
    let mut config = llm_config(&model);
    drop(model);
    // Some people keep their key in the address.
    config.base_url.as_mut().unwrap().push_str("?key=hidden-key");
    let client = client_for(&config, &Default::default()).unwrap();
    // The aborted server closes its socket on its own time.
    let error = loop {
        match client.complete(&request(), None, &CancellationToken::new()).await {
            Err(error @ LlmError::ServiceUnavailable(_)) => break error,
            other => assert!(matches!(&other, Err(LlmError::Internal(_))), "{other:?}"),
        }
    };
    let text = error.to_string();
    assert!(text.contains("openai/scripted at 127.0.0.1") && !text.contains("hidden-key"), "{text}");
}

#[tokio::test]
async fn answers_and_settings_are_bounded() {
    let endless = format!("data: {}\n\n", json!({"choices": [{"delta": {"content": "x".repeat(1 << 20)}}]})).repeat(40);
    let model = ScriptedModel::start([Turn::raw(200, &endless), Turn::raw(200, &"x".repeat(40 << 20))]).await;
    for error in [ask_streamed(&model, |_| {}).await.0.unwrap_err(), ask(&model, |_| {}).await.unwrap_err()] {
        assert!(error.to_string().contains("larger than 32 MiB"), "{error}");
    }
    let refused = |change: fn(&mut LlmConfig)| {
        let mut config = llm_config(&model);
        change(&mut config);
        client_for(&config, &Default::default()).err().unwrap().to_string()
    };
    assert!(refused(|config| config.api_mode = "fast".to_owned()).contains("llm.api_mode"));
    assert!(
        refused(|config| config.extra_headers = json!({"a b": "c"}).as_object().cloned()).contains("llm.extra_headers")
    );
}

#[tokio::test]
async fn costs_and_headers_come_from_where_they_are_set() {
    let model = ScriptedModel::start([
        Turn::text("a").header("x-litellm-response-cost", "0.25"),
        Turn::text("b").usage(Some(json!({"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.5}))),
        Turn::text("c"),
    ])
    .await;
    let extra = |config: &mut LlmConfig| config.extra_headers = json!({"X-Team": "blue"}).as_object().cloned();
    assert!((ask(&model, extra).await.unwrap().cost - 0.25).abs() < 1e-9);
    assert!((ask(&model, extra).await.unwrap().cost - 0.5).abs() < 1e-9);
    let priced =
        |config: &mut LlmConfig| (config.input_cost_per_token, config.output_cost_per_token) = (Some(0.01), Some(0.1));
    assert!((ask(&model, priced).await.unwrap().cost - 2.0).abs() < 1e-9);
    assert_eq!(model.requests()[0].headers["x-team"], "blue");
}

#[tokio::test]
async fn openrouter_gets_its_reasoning_details_back() {
    let detail = |text: &str, signature: Value| json!({"type": "reasoning.text", "text": text, "signature": signature, "format": "anthropic-claude-v1", "index": 0});
    let call = json!({"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}});
    let deltas = [
        json!({"reasoning": "th", "reasoning_details": [detail("th", Value::Null)]}),
        json!({"reasoning": "ink", "reasoning_details": [detail("ink", Value::Null)]}),
        json!({"reasoning_details": [detail("", json!("sig"))], "tool_calls": [call]}),
    ];
    let model = ScriptedModel::start([streamed(&deltas), Turn::text("done")]).await;
    let set = |config: &mut LlmConfig| config.model = "openrouter/anthropic/claude-sonnet-4.5".to_owned();
    let message = ask_streamed(&model, set).await.0.unwrap().message;
    assert_eq!(message.reasoning_content.as_deref(), Some("think"));
    let mut config = llm_config(&model);
    set(&mut config);
    let mut again = request();
    again.messages.push(message);
    let client = client_for(&config, &Default::default()).unwrap();
    client.complete(&again, None, &CancellationToken::new()).await.unwrap();
    let seen = &model.requests()[1];
    assert_eq!(seen.body["messages"][1]["reasoning_details"], json!([detail("think", json!("sig"))]));
    assert_eq!((&seen.body["reasoning"], &seen.body["usage"]), (&json!({"effort": "high"}), &json!({"include": true})));
    // The mark stands in the part; the last message is the tool's.
    let marked = json!([{"type": "text", "text": "No result of this call is known: the run was cut off.",
        "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(seen.body["messages"][2]["content"], marked);
}
