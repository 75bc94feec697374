//! What is said, as the conventions' JSON, for whoever switched it on: messages, instructions, tools. Secrets are hidden.

use std::collections::VecDeque;

use openhands_llm::{LlmRequest, LlmResponse};
use openhands_protocol::{Content, Message, Role};
use openhands_secrets::SecretRegistry;
use opentelemetry::KeyValue;
use serde_json::{Value, json};

/// Longest value, bytes of JSON; older messages are left out first.
const LIMIT: usize = 256 * 1024;

pub(super) fn of_request(request: &LlmRequest, secrets: &SecretRegistry) -> Vec<KeyValue> {
    let is_system = |message: &&Message| message.role == Role::System;
    let instructions = request.messages.iter().filter(is_system).flat_map(parts);
    let messages = request.messages.iter().filter(|message| !is_system(message)).map(message);
    let tool = |tool: &openhands_llm::OfferedTool| json!({"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters});
    [
        ("gen_ai.system_instructions", text(instructions, secrets)),
        ("gen_ai.input.messages", text(messages, secrets)),
        ("gen_ai.tool.definitions", text(request.tools.iter().map(tool), secrets)),
    ]
    .into_iter()
    .filter_map(|(name, text)| Some(KeyValue::new(name, text?)))
    .collect()
}

pub(super) fn of_answer(response: &LlmResponse, secrets: &SecretRegistry) -> Option<KeyValue> {
    let mut said = message(&response.message);
    if let (Some(members), Some(reason)) = (said.as_object_mut(), &response.finish_reason) {
        members.insert("finish_reason".to_owned(), json!(reason));
    }
    Some(KeyValue::new("gen_ai.output.messages", text(std::iter::once(said), secrets)?))
}

/// `None` when there is nothing, or the last item alone is too long. What is left out is not even made: every call has the whole history.
fn text(items: impl DoubleEndedIterator<Item = Value>, secrets: &SecretRegistry) -> Option<String> {
    let (mut kept, mut total) = (VecDeque::new(), 0);
    for mut item in items.rev() {
        secrets.mask_json(&mut item);
        total += item.to_string().len() + 1;
        if total >= LIMIT {
            break;
        }
        kept.push_front(item);
    }
    (!kept.is_empty()).then(|| Value::from(Vec::from(kept)).to_string())
}

fn message(message: &Message) -> Value {
    json!({"role": message.role, "parts": parts(message)})
}

fn parts(message: &Message) -> Vec<Value> {
    let mut parts = Vec::new();
    if let Some(reasoning) = &message.reasoning_content {
        parts.push(json!({"type": "reasoning", "content": reasoning}));
    }
    if message.role == Role::Tool {
        parts
            .push(json!({"type": "tool_call_response", "id": message.tool_call_id, "response": message.joined_text()}));
    }
    for part in &message.content {
        match part {
            Content::Text { text, .. } if message.role != Role::Tool => {
                parts.push(json!({"type": "text", "content": text}));
            }
            Content::Text { .. } => {}
            // The picture itself has no place in a span.
            Content::Image { image_urls, .. } => {
                parts.extend(image_urls.iter().map(|url| match url.starts_with("data:") {
                    true => json!({"type": "blob", "modality": "image", "content": ""}),
                    false => json!({"type": "uri", "modality": "image", "uri": url}),
                }));
            }
        }
    }
    parts.extend(
        message
            .tool_calls
            .iter()
            .flatten()
            .map(|call| json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments})),
    );
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_messages_fit_and_older_ones_are_not_made() {
        let made = std::cell::Cell::new(0);
        let items = (0..1000).map(|number| {
            made.set(made.get() + 1);
            json!({"number": number, "text": "x".repeat(LIMIT / 3)})
        });
        let text = text(items, &SecretRegistry::default()).unwrap();
        let kept: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(kept.iter().map(|item| item["number"].clone()).collect::<Vec<_>>(), [998, 999]);
        assert_eq!(made.get(), 3);
        assert_eq!(super::text(std::iter::empty(), &SecretRegistry::default()), None);
    }
}
