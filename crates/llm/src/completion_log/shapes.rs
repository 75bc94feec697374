//! Neutral messages and answers in the public shapes of Chat Completions and Responses, for logs.
//!
//! Not for requests: what a provider is sent is the adapters' business.

use openhands_protocol::{Content, Message, ToolCall, metrics::TokenUsage};
use serde_json::{Map, Value, json};

use crate::{LlmRequest, LlmResponse};

/// The messages as Chat Completions has them.
pub(super) fn chat_messages(request: &LlmRequest) -> Value {
    request.messages.iter().map(chat_message).collect()
}

/// The tools as Chat Completions has them.
pub(super) fn chat_tools(request: &LlmRequest) -> Value {
    let tool = |tool: &crate::OfferedTool| {
        json!({
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        })
    };
    request.tools.iter().map(tool).collect()
}

/// An answer as Chat Completions has it.
pub(super) fn chat_answer(response: &LlmResponse, now: f64) -> Value {
    json!({
        "id": response.id,
        "object": "chat.completion",
        "created": now.floor(),
        "model": response.usage.model,
        "choices": [{
            "index": 0,
            "finish_reason": response.finish_reason.as_deref().unwrap_or("stop"),
            "message": chat_message(&response.message),
        }],
        "usage": chat_usage(&response.usage),
    })
}

/// An answer as Responses has it.
pub(super) fn responses_answer(response: &LlmResponse, now: f64) -> Value {
    let message = &response.message;
    let mut output: Vec<Value> = message.responses_reasoning_item.iter().cloned().collect();
    let text = message.joined_text();
    if !text.is_empty() {
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        output.push(json!({"type": "message", "role": "assistant", "status": "completed", "content": content}));
    }
    for call in message.tool_calls.iter().flatten() {
        output.push(json!({
            "type": "function_call", "id": call.responses_item_id, "call_id": call.id, "name": call.name,
            "arguments": call.arguments,
        }));
    }
    let usage = &response.usage;
    json!({
        "id": response.id,
        "object": "response",
        "created_at": now.floor(),
        "model": usage.model,
        "status": response.finish_reason,
        "output": output,
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
        },
    })
}

fn chat_usage(usage: &TokenUsage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_creation_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    })
}

fn chat_message(message: &Message) -> Value {
    let mut members = Map::new();
    members.insert("role".to_owned(), json!(message.role));
    members.insert("content".to_owned(), content(&message.content));
    if let Some(calls) = &message.tool_calls {
        members.insert("tool_calls".to_owned(), calls.iter().map(chat_call).collect());
    }
    for (name, value) in [
        ("tool_call_id", &message.tool_call_id),
        ("name", &message.name),
        ("reasoning_content", &message.reasoning_content),
    ] {
        if let Some(value) = value {
            members.insert(name.to_owned(), json!(value));
        }
    }
    if !message.thinking_blocks.is_empty() {
        members.insert("thinking_blocks".to_owned(), json!(message.thinking_blocks));
    }
    members.into()
}

fn chat_call(call: &ToolCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

fn content(parts: &[Content]) -> Value {
    if let [Content::Text { text, .. }] = parts {
        return json!(text);
    }
    let part = |part: &Content| match part {
        Content::Text { text, .. } => vec![json!({"type": "text", "text": text})],
        Content::Image { image_urls, .. } => {
            image_urls.iter().map(|url| json!({"type": "image_url", "image_url": {"url": url}})).collect()
        }
    };
    parts.iter().flat_map(part).collect()
}
