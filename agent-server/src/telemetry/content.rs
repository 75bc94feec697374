//! What is said, as the conventions' JSON, for whoever switched it on: messages, instructions, tools. Secrets are hidden.

use openhands_llm::{LlmRequest, LlmResponse};
use openhands_protocol::{Content, Message, Role};
use openhands_secrets::SecretRegistry;
use opentelemetry::KeyValue;
use serde_json::{Value, json};

/// Longest value, bytes of JSON; older messages are left out first.
const LIMIT: usize = 256 * 1024;

pub(super) fn of_request(request: &LlmRequest, secrets: &SecretRegistry) -> Vec<KeyValue> {
    let is_system = |message: &&Message| message.role == Role::System;
    let instructions: Vec<Value> = request.messages.iter().filter(is_system).flat_map(parts).collect();
    let messages: Vec<Value> = request.messages.iter().filter(|message| !is_system(message)).map(message).collect();
    let tool = |tool: &openhands_llm::OfferedTool| json!({"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters});
    let tools = request.tools.iter().map(tool).collect();
    [
        ("gen_ai.system_instructions", instructions),
        ("gen_ai.input.messages", messages),
        ("gen_ai.tool.definitions", tools),
    ]
    .into_iter()
    .filter_map(|(name, items)| Some(KeyValue::new(name, text(items, secrets)?)))
    .collect()
}

pub(super) fn of_answer(response: &LlmResponse, secrets: &SecretRegistry) -> Option<KeyValue> {
    let mut said = message(&response.message);
    if let (Some(members), Some(reason)) = (said.as_object_mut(), &response.finish_reason) {
        members.insert("finish_reason".to_owned(), json!(reason));
    }
    Some(KeyValue::new("gen_ai.output.messages", text(vec![said], secrets)?))
}

/// `None` when there is nothing, or the last item alone is too long.
fn text(mut items: Vec<Value>, secrets: &SecretRegistry) -> Option<String> {
    items.iter_mut().for_each(|item| secrets.mask_json(item));
    let sizes: Vec<usize> = items.iter().map(|item| item.to_string().len() + 1).collect();
    let mut total = 0;
    let kept = sizes.iter().rev().take_while(|size| {
        total += **size;
        total < LIMIT
    });
    let kept = kept.count();
    let items = items.split_off(items.len() - kept);
    (!items.is_empty()).then(|| Value::from(items).to_string())
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
