//! Google's generateContent.

use serde_json::{Value, json};

use super::{Figures, input, pieces};
use crate::turn::{ScriptedCall, Turn};

pub(super) fn document(turn: &Turn, id: &str) -> String {
    let mut parts: Vec<Value> = turn.reasoning.iter().map(|text| json!({"text": text, "thought": true})).collect();
    parts.extend(turn.text.iter().map(|text| json!({"text": text})));
    parts.extend(turn.calls.iter().enumerate().map(|(number, call)| call_part(turn, number, call)));
    chunk(turn, id, parts, true).to_string()
}

pub(super) fn stream(turn: &Turn, id: &str) -> String {
    let mut chunks = Vec::new();
    for piece in pieces(turn.reasoning.as_deref()) {
        chunks.push(chunk(turn, id, vec![json!({"text": piece, "thought": true})], false));
    }
    for piece in pieces(turn.text.as_deref()) {
        chunks.push(chunk(turn, id, vec![json!({"text": piece})], false));
    }
    for (number, call) in turn.calls.iter().enumerate() {
        chunks.push(chunk(turn, id, vec![call_part(turn, number, call)], false));
    }
    if turn.finish_reason.is_some() {
        chunks.push(chunk(turn, id, vec![json!({"text": ""})], true));
    }
    chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect()
}

/// Only the first call of several carries the signature.
fn call_part(turn: &Turn, number: usize, call: &ScriptedCall) -> Value {
    let mut function = json!({"name": call.name, "args": input(&call.arguments)});
    if !call.id.is_empty() {
        function["id"] = call.id.as_str().into();
    }
    let mut part = json!({ "functionCall": function });
    if let Some(signature) = turn.signature.as_ref().filter(|_| number == 0) {
        part["thoughtSignature"] = signature.as_str().into();
    }
    part
}

fn chunk(turn: &Turn, id: &str, parts: Vec<Value>, is_last: bool) -> Value {
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    if let Some(reason) = turn.finish_reason.as_deref().filter(|_| is_last) {
        candidate["finishReason"] = match reason {
            "length" => "MAX_TOKENS",
            "stop" | "tool_calls" => "STOP",
            other => other,
        }
        .into();
    }
    let mut chunk = json!({"candidates": [candidate], "responseId": id, "modelVersion": "scripted"});
    if let Some(Figures { prompt, completion, cached, reasoning, .. }) = Figures::of(turn) {
        chunk["usageMetadata"] = json!({
            "promptTokenCount": prompt, "candidatesTokenCount": completion.saturating_sub(reasoning),
            "thoughtsTokenCount": reasoning, "cachedContentTokenCount": cached,
            "totalTokenCount": prompt + completion,
        });
    }
    chunk
}
