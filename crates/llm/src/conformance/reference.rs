//! The same conversation as the Python SDK sends it through LiteLLM (`record.py`), compared by meaning with what we send. What differs
//! on purpose is brought into one form here, and listed in `docs/models.md`.

use std::collections::BTreeSet;

use openhands_protocol::{Content, Message, Role, ToolCall, content::CallOrigin};
use serde_json::{Map, Value, json};

use super::histories::body;
use crate::{LlmRequest, OfferedTool};

const IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

pub(super) fn conversation(model: &str) -> LlmRequest {
    let (claude, gpt) = (model.contains("claude"), model.contains("gpt-5"));
    let call = |number: u32, command: &str| ToolCall {
        id: format!("call_{number}"),
        responses_item_id: Some(format!("fc_{number}")),
        name: "run".to_owned(),
        arguments: json!({ "command": command }).to_string(),
        origin: if gpt { CallOrigin::Responses } else { CallOrigin::Completion },
    };
    let result = |number: u32, text: &str| Message {
        tool_call_id: Some(format!("call_{number}")),
        name: Some("run".to_owned()),
        ..Message::new(Role::Tool, vec![Content::text(text)])
    };
    let image = Content::Image { cache_prompt: false, image_urls: vec![IMAGE.to_owned()] };
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
    let item = json!({"id": "rs_1", "summary": ["s"], "content": null, "encrypted_content": "enc", "status": null});
    LlmRequest {
        messages: vec![
            Message::new(Role::System, vec![Content::text("static"), Content::text("dynamic")]),
            Message::new(Role::User, vec![Content::text("look"), image]),
            Message {
                tool_calls: Some(vec![call(1, "ls"), call(2, "pwd")]),
                thinking_blocks: if claude { vec![thinking] } else { Vec::new() },
                responses_reasoning_item: gpt.then_some(item),
                ..Message::new(Role::Assistant, vec![Content::text("I look.")])
            },
            result(1, "files"),
            result(2, "folder"),
            Message::new(Role::Assistant, vec![Content::text("Seen.")]),
            Message::new(Role::User, vec![Content::text("thanks")]),
        ],
        tools: vec![OfferedTool {
            name: "run".to_owned(),
            description: "runs".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
        }],
    }
}

/// One form for what means the same.
fn normal(model: &str, body: Value) -> Value {
    let Value::Object(mut body) = in_camel_case(body) else { panic!("no object") };
    for member in ["tools", "toolConfig", "usage"] {
        body.remove(member);
    }
    // One limit under three names.
    for old in ["maxTokens", "maxOutputTokens"] {
        let limit = body.remove(old);
        if let Some(limit) = limit {
            body.insert("maxCompletionTokens".to_owned(), limit);
        }
    }
    if let Some(effort) = body.get("reasoning").and_then(|reasoning| reasoning.get("effort")).cloned() {
        body.remove("reasoning");
        body.insert("reasoningEffort".to_owned(), effort);
    }
    if model.contains("mock") {
        // The SDK takes every unknown model for one that reasons, and for one that sees nothing.
        body.remove("reasoningEffort");
    }
    if let Some(generation) = body.get_mut("generationConfig").and_then(Value::as_object_mut) {
        // The provider's default.
        generation.remove("temperature");
    }
    for message in body.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten() {
        let message = message.as_object_mut().unwrap();
        if let Some(Value::String(text)) = message.get("content") {
            let part = json!([{"type": "text", "text": text}]);
            message.insert("content".to_owned(), part);
        }
        if let Some(parts) = message.get_mut("content").and_then(Value::as_array_mut) {
            join_texts(parts);
        }
        if model.starts_with("openrouter/") {
            message.remove("thinkingBlocks");
        }
    }
    let text = Value::from(body).to_string();
    let text = text
        .replace(r#""response":{"content":"#, r#""response":{"result":"#)
        .replace("static\\ndynamic", "staticdynamic");
    serde_json::from_str(&text).unwrap()
}

/// Several parts of text without marks are one text.
fn join_texts(parts: &mut Vec<Value>) {
    let is_plain = |part: &Value| part.get("text").is_some() && part.get("cacheControl").is_none();
    if parts.iter().all(is_plain) {
        let texts: Vec<_> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        *parts = vec![json!({"type": "text", "text": texts.join("\n")})];
    }
}

/// Google takes both spellings.
fn in_camel_case(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: Map<String, Value> =
                members.into_iter().map(|(name, value)| (camel_case(&name), in_camel_case(value))).collect();
            members.into()
        }
        Value::Array(items) => items.into_iter().map(in_camel_case).collect(),
        other => other,
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        camel.push_str(&first.to_uppercase());
        camel.push_str(rest);
    }
    camel
}

#[test]
fn requests_mean_what_the_sdk_sends() {
    let record: Vec<Value> = serde_json::from_str(include_str!("reference.json")).unwrap();
    assert_eq!(record.len(), 11);
    let mut differences = Vec::new();
    for entry in record {
        let model = entry["model"].as_str().unwrap();
        let mut request = conversation(model);
        if model.contains("mock") {
            request.messages[1].content.pop();
        }
        let ours = normal(model, body(model, &request));
        let theirs = normal(model, entry["body"].clone());
        let names: BTreeSet<_> = [&ours, &theirs].iter().flat_map(|body| body.as_object().unwrap().keys()).collect();
        for name in names {
            if ours.get(name) != theirs.get(name) {
                differences.push(format!(
                    "{model}: {name}\n ours: {}\n theirs: {}",
                    json!(ours.get(name)),
                    json!(theirs.get(name))
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
