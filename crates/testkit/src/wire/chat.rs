//! Chat Completions: one JSON document, or a stream of events.

use serde_json::{Map, Value, json};

use super::pieces;
use crate::turn::{ScriptedCall, Turn};

/// The whole answer.
pub(super) fn document(turn: &Turn, id: &str, model: &str) -> String {
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    message.insert("content".to_owned(), json!(turn.text));
    if let Some(reasoning) = &turn.reasoning {
        message.insert("reasoning_content".to_owned(), reasoning.as_str().into());
    }
    if let Some(signature) = &turn.signature {
        let block = json!({"type": "thinking", "thinking": turn.reasoning, "signature": signature});
        message.insert("thinking_blocks".to_owned(), json!([block]));
    }
    if !turn.calls.is_empty() {
        message.insert("tool_calls".to_owned(), turn.calls.iter().map(call).collect());
    }
    let mut answer = Map::new();
    answer.insert("id".to_owned(), id.into());
    answer.insert("object".to_owned(), "chat.completion".into());
    answer.insert("model".to_owned(), model.into());
    let choice = json!({"index": 0, "message": message, "finish_reason": turn.finish_reason});
    answer.insert("choices".to_owned(), Value::Array(vec![choice]));
    if let Some(usage) = &turn.usage {
        answer.insert("usage".to_owned(), usage.clone());
    }
    Value::Object(answer).to_string()
}

fn call(call: &ScriptedCall) -> Value {
    let mut json = Map::new();
    if !call.id.is_empty() {
        json.insert("id".to_owned(), call.id.as_str().into());
    }
    json.insert("type".to_owned(), "function".into());
    json.insert("function".to_owned(), json!({"name": call.name, "arguments": call.arguments}));
    json.into()
}

/// The same answer as a stream; texts come in pieces of a few characters.
pub(super) fn stream(turn: &Turn, id: &str, model: &str) -> String {
    let mut events: Vec<Value> = Vec::new();
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({
            "id": id, "object": "chat.completion.chunk", "created": 1, "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        })
    };
    events.push(chunk(json!({"role": "assistant", "content": null}), None));
    for piece in pieces(turn.reasoning.as_deref()) {
        let mut delta = json!({"reasoning_content": piece});
        if turn.signature.is_some() {
            delta["thinking_blocks"] = json!([{"type": "thinking", "thinking": piece, "signature": null}]);
        }
        events.push(chunk(delta, None));
    }
    if let Some(signature) = &turn.signature {
        // As LiteLLM's proxy does: beside the signature the whole text once more.
        let block = json!({"type": "thinking", "thinking": turn.reasoning, "signature": signature});
        events.push(chunk(json!({"thinking_blocks": [block]}), None));
    }
    for piece in pieces(turn.text.as_deref()) {
        events.push(chunk(json!({"content": piece}), None));
    }
    for (index, call) in turn.calls.iter().enumerate() {
        let mut head = Map::new();
        head.insert("index".to_owned(), index.into());
        if !call.id.is_empty() {
            head.insert("id".to_owned(), call.id.as_str().into());
        }
        head.insert("function".to_owned(), json!({"name": call.name, "arguments": ""}));
        events.push(chunk(json!({"tool_calls": [head]}), None));
        for piece in pieces(Some(&call.arguments)) {
            events.push(chunk(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), None));
        }
    }
    if turn.finish_reason.is_some() {
        events.push(chunk(json!({}), turn.finish_reason.as_deref()));
    }
    if let Some(usage) = &turn.usage {
        events
            .push(json!({"id": id, "object": "chat.completion.chunk", "model": model, "choices": [], "usage": usage}));
    }
    let mut body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    if turn.done_mark {
        body.push_str("data: [DONE]\n\n");
    }
    body
}
