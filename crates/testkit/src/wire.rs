//! The same answer in every provider's format, chosen by the path that was asked.

#![expect(
    clippy::indexing_slicing,
    reason = "members of JSON objects that are made here; indexing them adds what is missing"
)]

mod anthropic;
mod aws;
mod bedrock;
mod chat;
mod gemini;
mod responses;

pub use aws::aws_message;
use serde_json::Value;

use crate::turn::Turn;

/// An answer's content type and body.
pub(crate) type Body = (&'static str, Vec<u8>);

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// The bytes that a turn answers at this path, whole or streamed.
#[must_use]
pub fn answer(turn: &Turn, path: &str, streamed: bool) -> Vec<u8> {
    body(turn, path, 1, &serde_json::json!({ "stream": streamed })).1
}

/// What the turn answers to this request.
pub(crate) fn body(turn: &Turn, path: &str, number: usize, request: &Value) -> Body {
    let streamed = request.get("stream").and_then(Value::as_bool).unwrap_or(false)
        || path.ends_with(":streamGenerateContent")
        || path.ends_with("/converse-stream");
    if let Some(body) = &turn.bytes {
        return body.clone();
    }
    if let Some(raw) = &turn.raw {
        let is_stream = streamed && ["data:", "event:"].iter().any(|begin| raw.starts_with(begin));
        return (if is_stream { EVENTS } else { JSON }, raw.clone().into_bytes());
    }
    if path.ends_with("/converse-stream") {
        return ("application/vnd.amazon.eventstream", bedrock::stream(turn));
    }
    let model = request.get("model").and_then(Value::as_str).unwrap_or_default();
    let text = match (path, streamed) {
        (path, true) if path.ends_with("/messages") || path.ends_with(":streamRawPredict") => {
            anthropic::stream(turn, &format!("msg_{number}"), model)
        }
        (path, false) if path.ends_with("/messages") || path.ends_with(":rawPredict") => {
            anthropic::document(turn, &format!("msg_{number}"), model)
        }
        (path, true) if path.ends_with("/responses") => responses::stream(turn, &format!("resp_{number}"), model),
        (path, false) if path.ends_with("/responses") => {
            responses::document(turn, &format!("resp_{number}"), model).to_string()
        }
        (path, _) if path.ends_with(":streamGenerateContent") => gemini::stream(turn, &format!("gem-{number}")),
        (path, _) if path.ends_with(":generateContent") => gemini::document(turn, &format!("gem-{number}")),
        (path, _) if path.ends_with("/converse") => bedrock::document(turn),
        (_, true) => chat::stream(turn, &format!("chatcmpl-{number}"), model),
        (_, false) => chat::document(turn, &format!("chatcmpl-{number}"), model),
    };
    (if streamed { EVENTS } else { JSON }, text.into_bytes())
}

/// Token figures of a turn, out of the form of Chat Completions.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    /// Cached ones are in it.
    prompt: u64,
    completion: u64,
    cached: u64,
    written: u64,
    reasoning: u64,
}

impl Figures {
    fn of(turn: &Turn) -> Option<Self> {
        let usage = turn.usage.as_ref()?;
        let count = |place: &str| usage.pointer(place).and_then(Value::as_u64).unwrap_or(0);
        Some(Self {
            prompt: count("/prompt_tokens"),
            completion: count("/completion_tokens"),
            cached: count("/prompt_tokens_details/cached_tokens"),
            written: count("/prompt_tokens_details/cache_write_tokens"),
            reasoning: count("/completion_tokens_details/reasoning_tokens"),
        })
    }
}

/// A call's arguments as an object; null where they are none.
fn input(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_default()
}

/// A text in pieces of a few characters.
fn pieces(text: Option<&str>) -> Vec<String> {
    let characters: Vec<char> = text.unwrap_or_default().chars().collect();
    characters.chunks(5).map(|piece| piece.iter().collect()).collect()
}

/// One event, with its name as a line of its own.
fn named_event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
