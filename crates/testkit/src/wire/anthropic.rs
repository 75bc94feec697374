//! Anthropic's Messages.

use serde_json::{Map, Value, json};

use super::{Figures, input, named_event, pieces};
use crate::turn::Turn;

pub(super) fn document(turn: &Turn, id: &str, model: &str) -> String {
    let mut document = message(id, model, content(turn));
    if let Some(usage) = usage(turn) {
        document.insert("usage".to_owned(), usage);
    }
    if let Some(reason) = stop_reason(turn) {
        document.insert("stop_reason".to_owned(), reason.into());
    }
    Value::Object(document).to_string()
}

pub(super) fn stream(turn: &Turn, id: &str, model: &str) -> String {
    let mut start = message(id, model, Vec::new());
    if let Some(mut usage) = usage(turn) {
        usage["output_tokens"] = 1.into();
        start.insert("usage".to_owned(), usage);
    }
    let mut body = event("message_start", json!({"message": start}));
    for (index, block) in content(turn).into_iter().enumerate() {
        let text = |member: &str| block.get(member).and_then(Value::as_str).map(ToOwned::to_owned);
        let (begin, deltas) = match block.get("type").and_then(Value::as_str) {
            Some("text") => (
                json!({"type": "text", "text": ""}),
                pieces(text("text").as_deref())
                    .iter()
                    .map(|piece| json!({"type": "text_delta", "text": piece}))
                    .collect(),
            ),
            Some("thinking") => {
                let mut deltas: Vec<Value> = pieces(text("thinking").as_deref())
                    .iter()
                    .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                    .collect();
                deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
                (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
            }
            Some("tool_use") => {
                let arguments = block["input"].to_string();
                let deltas = pieces(Some(&arguments))
                    .iter()
                    .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                    .collect();
                let mut begin = block.clone();
                begin["input"] = json!({});
                (begin, deltas)
            }
            _ => (block.clone(), Vec::new()),
        };
        body.push_str(&event("content_block_start", json!({"index": index, "content_block": begin})));
        for delta in deltas {
            body.push_str(&event("content_block_delta", json!({"index": index, "delta": delta})));
        }
        body.push_str(&event("content_block_stop", json!({"index": index})));
        body.push_str(&event("ping", json!({})));
    }
    if let Some(reason) = stop_reason(turn) {
        let mut end = json!({"delta": {"stop_reason": reason, "stop_sequence": null}});
        if let Some(figures) = Figures::of(turn) {
            end["usage"] = json!({"output_tokens": figures.completion});
        }
        body.push_str(&event("message_delta", end));
    }
    if turn.done_mark {
        body.push_str(&event("message_stop", json!({})));
    }
    body
}

fn event(kind: &str, mut data: Value) -> String {
    data["type"] = kind.into();
    named_event(kind, &data)
}

fn message(id: &str, model: &str, content: Vec<Value>) -> Map<String, Value> {
    let mut message = Map::new();
    message.insert("id".to_owned(), id.into());
    message.insert("type".to_owned(), "message".into());
    message.insert("role".to_owned(), "assistant".into());
    message.insert("model".to_owned(), model.into());
    message.insert("content".to_owned(), content.into());
    message.insert("stop_reason".to_owned(), Value::Null);
    message
}

fn content(turn: &Turn) -> Vec<Value> {
    let mut content = Vec::new();
    if let Some(reasoning) = &turn.reasoning {
        let signature = turn.signature.as_deref().unwrap_or_default();
        content.push(json!({"type": "thinking", "thinking": reasoning, "signature": signature}));
    }
    if let Some(data) = &turn.redacted {
        content.push(json!({"type": "redacted_thinking", "data": data}));
    }
    if let Some(text) = &turn.text {
        content.push(json!({"type": "text", "text": text}));
    }
    for call in &turn.calls {
        content.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input(&call.arguments)}));
    }
    content
}

fn stop_reason(turn: &Turn) -> Option<&str> {
    Some(match turn.finish_reason.as_deref()? {
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        other => other,
    })
}

fn usage(turn: &Turn) -> Option<Value> {
    let Figures { prompt, completion, cached, written, reasoning } = Figures::of(turn)?;
    Some(json!({
        "input_tokens": prompt.saturating_sub(cached + written), "output_tokens": completion,
        "cache_read_input_tokens": cached, "cache_creation_input_tokens": written,
        "output_tokens_details": {"thinking_tokens": reasoning},
    }))
}
