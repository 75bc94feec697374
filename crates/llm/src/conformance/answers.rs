//! Answers, whole and streamed, and what is sent back of them.

use std::time::Duration;

use openhands_protocol::{Content, Message, Role};
use openhands_testkit::{ScriptedModel, SeenRequest, Turn};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::cases::{Case, Wire};
use crate::{Delta, DeltaSink, LlmError, LlmRequest, LlmResponse, OfferedTool, client_for};

/// What the scripted models prove their reasoning with.
pub(super) const SIGNATURE: &str = "c2lnbmF0dXJl";

pub(super) fn two_calls() -> Turn {
    Turn::calls(&[
        ("call_1", "terminal", json!({"command": "echo größe"})),
        ("call_2", "finish", json!({"message": "ok"})),
    ])
    .saying("Ich führe es aus.")
    .thinking("Überlegung")
    .signed(SIGNATURE)
    .usage(Some(json!({
        "prompt_tokens": 100, "completion_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 20},
        "completion_tokens_details": {"reasoning_tokens": 3},
    })))
}

pub(super) fn asked() -> LlmRequest {
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    LlmRequest {
        messages: vec![
            Message::new(Role::System, vec![Content::text("static"), Content::text("dynamic")]),
            Message::new(Role::User, vec![Content::text("hi")]),
        ],
        tools: vec![OfferedTool { name: "terminal".to_owned(), description: "runs".to_owned(), parameters }],
    }
}

pub(super) fn result(id: &str) -> Message {
    Message { tool_call_id: Some(id.to_owned()), ..Message::new(Role::Tool, vec![Content::text("done")]) }
}

pub(super) async fn ask(
    case: &Case,
    request: &LlmRequest,
    turns: impl IntoIterator<Item = Turn>,
    streamed: bool,
) -> (Result<LlmResponse, LlmError>, Vec<Delta>, Vec<SeenRequest>) {
    let model = ScriptedModel::start(turns).await;
    let client = client_for(&case.config(&model), &Default::default()).unwrap();
    let mut deltas = Vec::new();
    let mut sink = |delta| deltas.push(delta);
    let sink: Option<DeltaSink<'_>> = if streamed { Some(&mut sink) } else { None };
    let response = client.complete(request, sink, &CancellationToken::new()).await;
    (response, deltas, model.requests())
}

/// Ids that the client had to make up are the only difference that is allowed.
fn comparable(mut response: LlmResponse, case: &Case) -> LlmResponse {
    if case.wire == Wire::Bedrock {
        response.id.clear();
        response.usage.response_id.clear();
    }
    response
}

pub(super) async fn whole(case: &Case) {
    let (response, _, seen) = ask(case, &asked(), [two_calls()], false).await;
    let message = response.unwrap().message;
    assert_eq!(message.joined_text(), "Ich führe es aus.");
    assert_eq!(message.reasoning_content.as_deref(), Some("Überlegung"));
    let calls: Vec<_> = message.tool_calls.iter().flatten().collect();
    let calls: Vec<_> =
        calls.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(
        calls,
        [("call_1", "terminal", r#"{"command":"echo größe"}"#), ("call_2", "finish", r#"{"message":"ok"}"#)]
    );
    let [seen] = &seen[..] else { panic!("one request") };
    assert_eq!(seen.path, case.path);
    assert_eq!(seen.headers[case.key.0], case.key.1);
    let body = seen.body.to_string();
    assert!(body.contains("\"terminal\"") && body.contains("\"runs\""), "the tool is offered: {body}");
}

pub(super) async fn counts(case: &Case) {
    let response = ask(case, &asked(), [two_calls()], false).await.0.unwrap();
    let usage = response.usage;
    let written = if case.tells_written { 20 } else { 0 };
    assert_eq!(
        (usage.prompt_tokens, usage.completion_tokens, usage.cache_read_tokens, usage.per_turn_token),
        (100, 10, 40, 110)
    );
    assert_eq!((usage.cache_write_tokens, usage.reasoning_tokens), (written, 3));
    assert_eq!(usage.model, case.model);
    let is_listed = crate::table::find(case.model).is_some();
    assert_eq!(response.cost > 0.0, is_listed, "the table has a price");
    assert_eq!(usage.context_window > 0, is_listed);
}

pub(super) async fn streamed(case: &Case) {
    let whole = ask(case, &asked(), [two_calls()], false).await.0.unwrap();
    let (response, deltas, seen) = ask(case, &asked(), [two_calls()], true).await;
    assert_eq!(comparable(response.unwrap(), case), comparable(whole, case));
    let (mut said, mut thought, mut arguments) = (String::new(), String::new(), vec![String::new(); 2]);
    let pieces = deltas.len();
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
    assert!(pieces > 6, "it came in pieces");
    assert_eq!((said.as_str(), thought.as_str()), ("Ich führe es aus.", "Überlegung"));
    assert_eq!(arguments, [r#"terminal:{"command":"echo größe"}"#, r#"finish:{"message":"ok"}"#]);
    let asked_for_stream = seen[0].body["stream"] == true
        || seen[0].path.ends_with(":streamGenerateContent")
        || seen[0].path.ends_with("/converse-stream");
    assert!(asked_for_stream);
}

pub(super) fn split_anywhere(case: &Case) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let strategy = (1usize..200, "\\PC{0,40}", "\\PC{0,20}");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 24, ..ProptestConfig::default() });
    runner
        .run(&strategy, |(size, text, argument)| {
            let turn = || two_calls().saying(&format!("x{text}")).thinking(&format!("y{argument}"));
            runtime.block_on(async {
                let whole = ask(case, &asked(), [turn()], false).await.0.unwrap();
                let split = turn().pieces(size, Duration::ZERO);
                let streamed = ask(case, &asked(), [split], true).await.0.unwrap();
                prop_assert_eq!(comparable(streamed, case), comparable(whole, case));
                Ok(())
            })
        })
        .unwrap();
}

pub(super) async fn broken(case: &Case) {
    let long = || Turn::text("a text that is long enough to be cut somewhere in its middle, wherever that may be");
    for turn in [long().cut_after(900), long().end_after(900)] {
        let (response, deltas, seen) = ask(case, &asked(), [turn, Turn::text("whole")], true).await;
        assert_eq!(response.unwrap().message.joined_text(), "whole");
        let restart = deltas.iter().position(|delta| *delta == Delta::Restart).unwrap();
        assert!(restart > 0);
        assert!(!deltas[restart + 1..].contains(&Delta::Restart));
        assert_eq!(seen.len(), 2);
    }
}

pub(super) async fn replayed(case: &Case) {
    let mut request = asked();
    let answer = ask(case, &request, [two_calls()], false).await.0.unwrap();
    // As the history keeps it.
    let stored: Message = serde_json::from_value(serde_json::to_value(answer.message).unwrap()).unwrap();
    request.messages.extend([stored, result("call_1"), result("call_2")]);
    let (response, _, seen) = ask(case, &request, [Turn::text("done")], false).await;
    response.unwrap();
    let body = &seen[0].body;
    assert_eq!(body.to_string().contains(SIGNATURE), !case.signs.is_empty(), "{body}");
    let (place, expected) = match case.wire {
        Wire::Chat if case.signs.is_empty() => return,
        Wire::Chat => (
            "/messages/2/thinking_blocks",
            json!([{"type": "thinking", "thinking": "Überlegung", "signature": SIGNATURE}]),
        ),
        Wire::Responses => (
            "/input/1",
            json!({
                "type": "reasoning", "id": "rs_1", "encrypted_content": SIGNATURE,
                "summary": [{"type": "summary_text", "text": "Überlegung"}],
            }),
        ),
        Wire::Anthropic => {
            ("/messages/1/content/0", json!({"type": "thinking", "thinking": "Überlegung", "signature": SIGNATURE}))
        }
        Wire::Gemini => ("/contents/1/parts/1/thoughtSignature", json!(SIGNATURE)),
        Wire::Bedrock => (
            "/messages/1/content/0/reasoningContent/reasoningText",
            json!({"text": "Überlegung", "signature": SIGNATURE}),
        ),
    };
    assert_eq!(body.pointer(place), Some(&expected), "{body}");
    if case.wire == Wire::Responses {
        assert_eq!(body.pointer("/input/3/id"), Some(&json!("fc_item_0")), "items keep their ids");
    }
}

pub(super) async fn images(case: &Case) {
    let image = |url: &str| Content::Image { cache_prompt: false, image_urls: vec![url.to_owned()] };
    let mut request = asked();
    request.messages[1].content.push(image("data:image/png;base64,AA=="));
    let answer = ask(case, &request, [two_calls()], false).await.0.unwrap();
    let mut shown = result("call_1");
    shown.content.push(image("data:image/png;base64,AA=="));
    request.messages.extend([answer.message, shown, result("call_2")]);
    let (response, _, seen) = ask(case, &request, [Turn::text("seen")], false).await;
    response.unwrap();
    let unmarked = seen[0].body.to_string().replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    assert_eq!(unmarked.matches(case.image).count(), 2, "the user's and the tool's: {unmarked}");
}

pub(super) async fn marked(case: &Case) {
    let body = |seen: Vec<SeenRequest>| seen[0].body.to_string();
    let sent = body(ask(case, &asked(), [Turn::text("a")], false).await.2);
    if case.mark.is_empty() {
        assert!(!sent.contains("cache_control") && !sent.contains("cachePoint"), "it caches by itself: {sent}");
        return;
    }
    assert_eq!(sent.matches(case.mark).count(), 2, "static system prompt and last message: {sent}");
    // Refused marks are left out at once.
    let refusal = case.error(400, "invalid", "The minimum token count to start caching is 4096.");
    let (response, _, seen) = ask(case, &asked(), [refusal, Turn::text("b")], false).await;
    assert_eq!(response.unwrap().message.joined_text(), "b");
    assert!(!seen[1].body.to_string().contains(case.mark));
}

pub(super) async fn refused(case: &Case) {
    for (status, kind, text, code) in [
        (400, "invalid_request_error", "something is wrong", "LLMBadRequestError"),
        (400, "invalid_request_error", case.too_long(), "LLMContextWindowExceedError"),
        (401, "authentication_error", "wrong key test-key", "LLMAuthenticationError"),
        (403, "permission_error", "not for you", "LLMAuthenticationError"),
        (404, "not_found_error", "no such model", "LLMBadRequestError"),
        (408, "timeout", "late", "LLMTimeoutError"),
        (429, "rate_limit_error", "slow down", "LLMRateLimitError"),
        (500, "api_error", "oops", "LLMServiceUnavailableError"),
        (503, "overloaded_error", "busy", "LLMServiceUnavailableError"),
    ] {
        let turns = [case.error(status, kind, text), case.error(status, kind, text)];
        let (response, _, seen) = ask(case, &asked(), turns, false).await;
        let error = response.unwrap_err();
        assert_eq!(error.code(), code, "{status} {error}");
        assert!(error.to_string().contains(&text.replace("test-key", "**********")), "{error}");
        let again = if error.is_retryable() { 2 } else { 1 };
        assert_eq!(seen.len(), again, "{error}");
    }
    let body: Value = serde_json::from_str("{}").unwrap();
    let turns = [Turn::raw(200, &body.to_string()), Turn::text("after the retry")];
    assert_eq!(ask(case, &asked(), turns, false).await.0.unwrap().message.joined_text(), "after the retry");
}
