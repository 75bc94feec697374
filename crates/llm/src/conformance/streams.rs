//! Streams and answers that go wrong: cut anywhere, errors and nonsense inside, nothing in them, calls without ids or with the same.

use std::time::Duration;

use openhands_testkit::{Turn, answer, aws_message};
use serde_json::{Value, json};

use super::{
    answers::{ask, asked, result},
    cases::{Case, Wire},
    validity,
};
use crate::{Delta, LlmError};

/// Text longer than one frame, with characters of two, three and four bytes.
const TEXT: &str = "Grüße, 世界! 👋 Ein längerer Satz, der über viele Stücke geht, damit jeder Schnitt ihn trifft.";

/// A stream's events in the framing of the interface.
fn events(case: &Case, events: &[Value]) -> Turn {
    if case.wire == Wire::Bedrock {
        let message = |event: &Value| {
            let (name, payload) = event.as_object().unwrap().iter().next().unwrap();
            let (kind, of) =
                if name.ends_with("Exception") { ("exception", ":exception-type") } else { ("event", ":event-type") };
            aws_message(&[(":message-type", kind), (of, name)], &payload.to_string())
        };
        return Turn::bytes("application/vnd.amazon.eventstream", events.iter().flat_map(message).collect());
    }
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    Turn::bytes("text/event-stream", body.into_bytes())
}

/// The beginning of a stream: some text.
fn begun(case: &Case) -> Vec<Value> {
    match case.wire {
        Wire::Chat => vec![json!({"id": "c", "choices": [{"index": 0, "delta": {"content": "begun"}}]})],
        Wire::Responses => vec![
            json!({"type": "response.created", "response": {"id": "r", "status": "in_progress"}}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m", "content": []}}),
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "begun"}),
        ],
        Wire::Anthropic => vec![
            json!({"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "begun"}}),
        ],
        Wire::Gemini => vec![json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "begun"}]}}]})],
        Wire::Bedrock => vec![
            json!({"messageStart": {"role": "assistant"}}),
            json!({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "begun"}}}),
        ],
    }
}

/// Errors in the middle of a good answer as the provider documents them, and what they are.
fn errors(case: &Case) -> Vec<(Value, &'static str)> {
    let (down, slow) = ("LLMServiceUnavailableError", "LLMRateLimitError");
    match case.wire {
        Wire::Chat => vec![
            (
                json!({"error": {"message": "The server had an error", "type": "server_error", "param": null, "code": null}}),
                down,
            ),
            (json!({"error": {"message": "slow", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}), slow),
            // OpenRouter's, beside a choice.
            (
                json!({
                    "id": "c", "error": {"code": 502, "message": "Provider disconnected"},
                    "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
                }),
                down,
            ),
        ],
        Wire::Responses => vec![
            (
                json!({"type": "error", "code": "server_error", "message": "oops", "param": null, "sequence_number": 3}),
                down,
            ),
            (json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": null}), slow),
            (
                json!({"type": "response.failed", "response": {
                    "id": "r", "status": "failed", "error": {"code": "server_error", "message": "The model failed"},
                }}),
                down,
            ),
        ],
        Wire::Anthropic => vec![
            (json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), down),
            (json!({"type": "error", "error": {"type": "api_error", "message": "Internal server error"}}), down),
            (json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}), slow),
        ],
        Wire::Gemini => vec![
            (json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}), down),
            (json!({"error": {"code": 429, "message": "exhausted", "status": "RESOURCE_EXHAUSTED"}}), slow),
            (json!([{"error": {"code": 500, "message": "internal", "status": "INTERNAL"}}]), down),
        ],
        Wire::Bedrock => vec![
            (json!({"modelStreamErrorException": {"message": "broken", "originalStatusCode": 424}}), down),
            (json!({"internalServerException": {"message": "oops"}}), down),
            (json!({"serviceUnavailableException": {"message": "busy"}}), down),
            (json!({"throttlingException": {"message": "slow"}}), slow),
        ],
    }
}

/// What came after the last restart, and whether there was one.
fn kept(deltas: &[Delta]) -> (String, bool) {
    let restart = deltas.iter().rposition(|delta| *delta == Delta::Restart);
    let said = deltas[restart.map_or(0, |at| at + 1)..].iter().filter_map(|delta| match delta {
        Delta::Text(text) => Some(text.as_str()),
        _ => None,
    });
    (said.collect(), restart.is_some())
}

pub(super) async fn errors_inside(case: &Case) {
    for (error, code) in errors(case) {
        let turn = || events(case, &[begun(case), vec![error.clone()]].concat());
        let (response, deltas, seen) = ask(case, &asked(), [turn(), Turn::text(TEXT)], true).await;
        assert_eq!(response.unwrap().message.joined_text(), TEXT, "{error}");
        assert_eq!((kept(&deltas), seen.len()), ((TEXT.to_owned(), true), 2));
        let (response, _, _) = ask(case, &asked(), [turn(), turn()], true).await;
        assert_eq!(response.unwrap_err().code(), code, "{error}");
    }
}

/// The path of a streamed call.
pub(super) fn streamed_path(case: &Case) -> String {
    case.path.replace(":generateContent", ":streamGenerateContent").replace(":rawPredict", ":streamRawPredict")
        + if case.wire == Wire::Bedrock { "-stream" } else { "" }
}

/// Wherever a body is cut or ends: the answer is one of the two, never a piece of one.
pub(super) async fn cut_anywhere(case: &Case) {
    let first = || Turn::text(TEXT).thinking("Überlegung").signed("c2ln");
    let mut both = (0, 0);
    let length = answer(&first(), &streamed_path(case), true).len();
    for at in (0..16).map(|step| 1 + step * length / 12) {
        for (turn, size) in [(first().cut_after(at), 4096), (first().end_after(at), 61)] {
            let turns = [turn.pieces(size, Duration::ZERO), Turn::text("the second")];
            let (response, deltas, _) = ask(case, &asked(), turns, true).await;
            let text = response.unwrap().message.joined_text();
            assert_eq!(kept(&deltas).0, text, "what was handed out is what was answered");
            match text.as_str() {
                TEXT => both.0 += 1,
                "the second" => both.1 += 1,
                other => panic!("a piece passed for an answer: {other:?}, cut at {at}"),
            }
        }
        let whole = [first().end_after(at), Turn::text("the second")];
        let text = ask(case, &asked(), whole, false).await.0.unwrap().message.joined_text();
        assert!([TEXT, "the second"].contains(&text.as_str()), "{text:?}");
    }
    assert!(both.0 > 0 && both.1 > 0, "{both:?}");
}

/// Answers with nothing in them, and nonsense instead of answers.
pub(super) async fn empty(case: &Case) {
    let nothing = match case.wire {
        Wire::Chat => json!({"id": "c", "choices": []}),
        Wire::Responses => json!({"id": "r", "status": "in_progress", "output": []}),
        Wire::Anthropic => json!({"type": "message", "id": "m", "content": []}),
        Wire::Gemini => json!({"candidates": []}),
        Wire::Bedrock => json!({"output": {}}),
    };
    let html = || Turn::bytes("text/html", b"<html>welcome</html>".to_vec());
    let wholes =
        [Turn::raw(200, ""), Turn::raw(200, "{"), Turn::raw(200, "null"), Turn::raw(200, &nothing.to_string()), html()];
    let event = |bytes: &[u8]| Turn::bytes("text/event-stream", bytes.to_vec());
    let streams = [
        events(case, &[]),
        events(case, &begun(case)),
        event(b"data: [DONE]\n\n"),
        event(b": ping\n\n: ping\n\n"),
        event(b"data: {broken\n\n"),
        event(b"\xff\xfe\x00"),
        html(),
    ];
    for (turns, streamed) in [(wholes.to_vec(), false), (streams.to_vec(), true)] {
        for turn in turns {
            let shown = format!("{turn:?}");
            let (response, deltas, _) = ask(case, &asked(), [turn.clone(), Turn::text(TEXT)], streamed).await;
            assert_eq!(response.unwrap().message.joined_text(), TEXT, "{shown}");
            assert!(!streamed || kept(&deltas).0 == TEXT);
            let error = ask(case, &asked(), [turn.clone(), turn], streamed).await.0.unwrap_err();
            assert!(matches!(error, LlmError::NoResponse(_)), "{error:?} of {shown}");
        }
    }
}

/// A server that does not know streams answers whole; its answer is handed out all the same.
pub(super) async fn whole_instead_of_a_stream(case: &Case) {
    let whole = String::from_utf8(answer(&Turn::text(TEXT), case.path, false)).unwrap();
    let (response, deltas, _) = ask(case, &asked(), [Turn::raw(200, &whole)], true).await;
    assert_eq!(response.unwrap().message.joined_text(), TEXT);
    assert_eq!(kept(&deltas), (TEXT.to_owned(), false));
}

/// Calls need ids that tell them apart, whatever the provider sends; and what comes of them is a valid history.
pub(super) async fn ids(case: &Case) {
    let calls = |first: &str, second: &str| {
        Turn::calls(&[(first, "a", json!({"k": 1})), (second, "b", json!({"k": 2})), ("call_3", "a", json!({"k": 3}))])
    };
    for (first, second) in [("same", "same"), ("", ""), ("same", "call_3"), ("", "call_3")] {
        for streamed in [false, true] {
            let mut request = asked();
            let (response, deltas, _) = ask(case, &request, [calls(first, second)], streamed).await;
            let message = response.unwrap().message;
            let made = message.tool_calls.clone().unwrap();
            let read: Vec<_> = made.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            assert_eq!(
                read,
                [("a", r#"{"k":1}"#), ("b", r#"{"k":2}"#), ("a", r#"{"k":3}"#)],
                "{first:?} {second:?} {streamed}"
            );
            let unique: std::collections::HashSet<_> = made.iter().map(|call| call.id.as_str()).collect();
            assert!(unique.len() == 3 && !unique.contains(""), "{unique:?}");
            let places: std::collections::BTreeSet<_> = deltas
                .iter()
                .filter_map(|delta| match delta {
                    Delta::ToolArguments { index, .. } => Some(*index),
                    _ => None,
                })
                .collect();
            assert!(!streamed || places.into_iter().eq(0..3));
            request.messages.push(message);
            request.messages.extend(made.iter().map(|call| result(&call.id)));
            let (_, _, seen) = ask(case, &request, [Turn::text("done")], false).await;
            assert_eq!(validity::faults(case, &seen[0].body), Vec::<String>::new());
        }
    }
}

macro_rules! interfaces {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            use crate::conformance::{cases, streams};

            #[tokio::test]
            async fn errors_inside_a_good_answer() {
                streams::errors_inside(&cases::$name()).await;
            }

            #[tokio::test]
            async fn no_piece_passes_for_an_answer() {
                streams::cut_anywhere(&cases::$name()).await;
            }

            #[tokio::test]
            async fn empty_answers_are_asked_again() {
                streams::empty(&cases::$name()).await;
            }

            #[tokio::test]
            async fn a_whole_answer_to_a_stream() {
                streams::whole_instead_of_a_stream(&cases::$name()).await;
            }

            #[tokio::test]
            async fn missing_and_repeated_ids() {
                streams::ids(&cases::$name()).await;
            }
        })*
    };
}

on_every_interface!(interfaces);
