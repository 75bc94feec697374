//! The adapter against a scripted model on real sockets.

use std::time::Duration;

use openhands_protocol::{Content, LlmConfig, Message, Role, ToolCall, metrics::TokenUsage};
use openhands_testkit::{ScriptedModel, Turn, llm_config};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{Delta, LlmError, LlmRequest, LlmResponse, client_for};

fn request() -> LlmRequest {
    LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: Vec::new() }
}

fn config(model: &ScriptedModel) -> LlmConfig {
    let mut config = llm_config(model);
    config.model = "anthropic/claude-sonnet-4-5".to_owned();
    config.base_url = Some(model.base_url().trim_end_matches("/v1").to_owned());
    config
}

async fn ask(model: &ScriptedModel, streamed: bool) -> (Result<LlmResponse, LlmError>, Vec<Delta>) {
    let client = client_for(&config(model), &Default::default()).unwrap();
    let mut deltas = Vec::new();
    let mut sink = |delta| deltas.push(delta);
    let sink: Option<crate::DeltaSink<'_>> = if streamed { Some(&mut sink) } else { None };
    let result = client.complete(&request(), sink, &CancellationToken::new()).await;
    (result, deltas)
}

fn two_calls() -> Turn {
    Turn::calls(&[
        ("toolu_1", "terminal", json!({"command": "echo größe"})),
        ("toolu_2", "finish", json!({"message": "ok"})),
    ])
    .saying("Ich führe es aus.")
    .thinking("Überlegung")
    .signed("c2ln")
    .redacted("cmVk")
    .usage(Some(json!({
        "prompt_tokens": 100, "completion_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 20},
        "completion_tokens_details": {"reasoning_tokens": 3},
    })))
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
        id: "msg_1".to_owned(),
        message: Message {
            tool_calls: Some(vec![
                call("toolu_1", "terminal", r#"{"command":"echo größe"}"#),
                call("toolu_2", "finish", r#"{"message":"ok"}"#),
            ]),
            reasoning_content: Some("Überlegung".to_owned()),
            thinking_blocks: vec![
                json!({"type": "thinking", "thinking": "Überlegung", "signature": "c2ln"}),
                json!({"type": "redacted_thinking", "data": "cmVk"}),
            ],
            ..Message::new(Role::Assistant, vec![Content::text("Ich führe es aus.")])
        },
        usage: TokenUsage {
            model: "anthropic/claude-sonnet-4-5".to_owned(),
            prompt_tokens: 100,
            completion_tokens: 10,
            cache_read_tokens: 40,
            cache_write_tokens: 20,
            reasoning_tokens: 3,
            context_window: 200_000,
            per_turn_token: 110,
            response_id: "msg_1".to_owned(),
        },
        cost: (40.0 * 3.0 + 40.0 * 0.3 + 20.0 * 3.75 + 10.0 * 15.0) / 1e6,
        finish_reason: Some("tool_calls".to_owned()),
        usage_id: None,
    }
}

fn assert_answer(mut answer: LlmResponse) {
    let expected = expected_answer();
    assert!((answer.cost - expected.cost).abs() < 1e-12, "{}", answer.cost);
    answer.cost = expected.cost;
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn anthropic_answers_whole_with_signed_thinking_and_parallel_calls() {
    let model = ScriptedModel::start([two_calls()]).await;
    assert_answer(ask(&model, false).await.0.unwrap());
    let [seen] = &model.requests()[..] else { panic!("one request") };
    assert_eq!(seen.path, "/v1/messages");
    assert_eq!(seen.headers["x-api-key"], "test-key");
    assert_eq!(seen.headers["anthropic-version"], "2023-06-01");
    assert_eq!(seen.headers["anthropic-beta"], "interleaved-thinking-2025-05-14");
    assert!(!seen.headers.contains_key("authorization"));
    assert_eq!(seen.body["thinking"], json!({"type": "enabled", "budget_tokens": 63_999}));
}

#[tokio::test]
async fn anthropic_streams_the_same_answer_wherever_its_bytes_are_split() {
    for piece in [1, 2, 3, 7, 64, usize::MAX] {
        let model = ScriptedModel::start([two_calls().pieces(piece, Duration::ZERO)]).await;
        let (answer, deltas) = ask(&model, true).await;
        assert_answer(answer.unwrap());
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
        assert_eq!(model.requests()[0].body["stream"], true);
    }
}

#[tokio::test]
async fn anthropic_gets_its_signed_thinking_back() {
    let model = ScriptedModel::start([two_calls(), Turn::text("done")]).await;
    let client = client_for(&config(&model), &Default::default()).unwrap();
    let mut request = request();
    let answer = client.complete(&request, None, &CancellationToken::new()).await.unwrap();
    // As the history keeps it.
    let stored: Message = serde_json::from_value(serde_json::to_value(answer.message).unwrap()).unwrap();
    request.messages.push(stored);
    for id in ["toolu_1", "toolu_2"] {
        let result = Message::new(Role::Tool, vec![Content::text("ok")]);
        request.messages.push(Message { tool_call_id: Some(id.to_owned()), ..result });
    }
    client.complete(&request, None, &CancellationToken::new()).await.unwrap();
    let said = &model.requests()[1].body["messages"][1];
    assert_eq!(
        said["content"],
        json!([
            {"type": "thinking", "thinking": "Überlegung", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "cmVk"},
            {"type": "text", "text": "Ich führe es aus."},
            {"type": "tool_use", "id": "toolu_1", "name": "terminal", "input": {"command": "echo größe"}},
            {"type": "tool_use", "id": "toolu_2", "name": "finish", "input": {"message": "ok"}},
        ])
    );
}

#[tokio::test]
async fn anthropic_refusals_are_named() {
    for (status, kind, text, code) in [
        (400, "invalid_request_error", "messages: bad", "LLMBadRequestError"),
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", "LLMContextWindowExceedError"),
        (401, "authentication_error", "invalid x-api-key", "LLMAuthenticationError"),
        (403, "permission_error", "no", "LLMAuthenticationError"),
        (404, "not_found_error", "model: x", "LLMBadRequestError"),
        (429, "rate_limit_error", "slow", "LLMRateLimitError"),
        (500, "api_error", "oops", "LLMServiceUnavailableError"),
        (529, "overloaded_error", "busy", "LLMServiceUnavailableError"),
    ] {
        let body = json!({"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"});
        let turn = Turn::raw(status, &body.to_string());
        let model = ScriptedModel::start([turn.clone(), turn]).await;
        let error = ask(&model, false).await.0.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn anthropic_errors_inside_streams_are_taken_back_and_tried_again() {
    let start = json!({"type": "message_start", "message": {"id": "m", "usage": {}}});
    let begin = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}});
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    let body: String = [start, begin, error].iter().map(|event| format!("event: x\ndata: {event}\n\n")).collect();
    let long = "a text that is long enough to be cut in the middle";
    for turn in [Turn::raw(200, &body), Turn::text(long).cut_after(700), Turn::text(long).end_after(700)] {
        let model = ScriptedModel::start([turn, Turn::text("whole")]).await;
        let (answer, deltas) = ask(&model, true).await;
        assert_eq!(answer.unwrap().message.joined_text(), "whole");
        let restart = deltas.iter().position(|delta| *delta == Delta::Restart).unwrap();
        assert!(restart > 0);
    }
}

#[tokio::test]
async fn anthropic_streams_need_not_be_read_to_their_end() {
    // A reason without the closing event is an answer too, and after the closing event nothing is waited for.
    let short = Turn::text("a").without_done();
    let model = ScriptedModel::start([short]).await;
    assert_eq!(ask(&model, true).await.0.unwrap().message.joined_text(), "a");
    let empty = Turn::raw(200, &json!({"id": "m", "content": [], "stop_reason": "end_turn"}).to_string());
    let model = ScriptedModel::start([empty]).await;
    let answer = ask(&model, false).await.0.unwrap();
    assert_eq!((answer.message.content, answer.finish_reason.as_deref()), (vec![], Some("stop")));
}
