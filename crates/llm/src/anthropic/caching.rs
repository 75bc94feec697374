//! Marks for the provider's cache: the static part of the system prompt, which conversations share, and the last block of the user
//! or of a tool, so that the cached prefix grows with each turn. Tools stand before the system prompt and are cached with it.

use serde_json::{Value, json};

/// Marks a rendered system prompt and rendered messages.
pub(super) fn mark(system: &mut [Value], messages: &mut [Value]) {
    if let Some(part) = system.first_mut() {
        mark_block(part);
    }
    let last = messages.iter_mut().rev().find(|message| message.get("role").and_then(Value::as_str) == Some("user"));
    let content = last.and_then(|message| message.get_mut("content")).and_then(Value::as_array_mut);
    if let Some(block) = content.and_then(|content| content.last_mut()) {
        mark_block(block);
    }
}

fn mark_block(block: &mut Value) {
    if let Some(block) = block.as_object_mut() {
        block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
}
