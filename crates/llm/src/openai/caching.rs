//! Marks for the provider's cache, as LiteLLM's proxy and OpenRouter take them for Claude.
//!
//! Two places are marked: the static part of the system prompt, which conversations share, and the last message of the user or a
//! tool, so that the cached prefix grows with each turn. The dynamic part of the system prompt stays unmarked.

use serde_json::{Map, Value, json};

/// The mark.
pub(crate) fn mark() -> Value {
    json!({"type": "ephemeral"})
}

/// Marks rendered messages.
pub(super) fn mark_messages(messages: &mut [Value], marks_in_parts: bool) {
    if let Some(first) = messages.first_mut().filter(|first| role(first) == Some("system")) {
        let parts = as_parts(first);
        if let Some(Value::Object(part)) = parts.and_then(|parts| parts.first_mut()) {
            part.insert("cache_control".to_owned(), mark());
        }
    }
    let last = messages.iter_mut().rev().find(|message| matches!(role(message), Some("user" | "tool")));
    let Some(last) = last else { return };
    // A mark inside a tool's parts is lost on its way through LiteLLM; on the message it arrives.
    if role(last) == Some("tool") && !marks_in_parts {
        as_parts(last);
        if let Some(message) = last.as_object_mut() {
            message.insert("cache_control".to_owned(), mark());
        }
    } else if let Some(Value::Object(part)) = as_parts(last).and_then(|parts| parts.last_mut()) {
        part.insert("cache_control".to_owned(), mark());
    }
}

fn role(message: &Value) -> Option<&str> {
    message.get("role").and_then(Value::as_str)
}

/// The content as a list of parts, which marks need.
fn as_parts(message: &mut Value) -> Option<&mut Vec<Value>> {
    let content = message.as_object_mut()?.get_mut("content")?;
    if let Value::String(text) = content {
        let mut part = Map::new();
        part.insert("type".to_owned(), "text".into());
        part.insert("text".to_owned(), std::mem::take(text).into());
        *content = Value::Array(vec![part.into()]);
    }
    content.as_array_mut()
}
