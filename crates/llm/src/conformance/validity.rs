//! What providers check of a history before they answer, after their public documentation.

use std::collections::HashSet;

use serde_json::Value;

use super::cases::{Case, Wire};

/// Why a body would be refused; empty when it would not.
pub(super) fn faults(case: &Case, body: &Value) -> Vec<String> {
    match case.wire {
        Wire::Chat => chat(body),
        Wire::Responses => responses(body),
        Wire::Anthropic => sides(&body["messages"], "content", "assistant", |block| match text(block, "type") {
            "tool_use" => Part::Call(text(block, "id").to_owned(), block["input"].is_object()),
            "tool_result" => Part::Result(text(block, "tool_use_id").to_owned()),
            "text" => Part::Text(!text(block, "text").trim().is_empty()),
            "thinking" => Part::Text(!text(block, "signature").is_empty()),
            "redacted_thinking" | "image" => Part::Text(true),
            _ => Part::Text(false),
        }),
        Wire::Gemini => sides(&body["contents"], "parts", "model", |part| {
            if let Some(call) = part.get("functionCall") {
                Part::Call(text(call, "id").to_owned(), call["args"].is_object())
            } else if let Some(result) = part.get("functionResponse") {
                Part::Result(text(result, "id").to_owned())
            } else {
                Part::Text(["text", "inlineData", "fileData"].iter().any(|member| part.get(member).is_some()))
            }
        }),
        Wire::Bedrock => sides(&body["messages"], "content", "assistant", |block| {
            if let Some(call) = block.get("toolUse") {
                Part::Call(text(call, "toolUseId").to_owned(), call["input"].is_object())
            } else if let Some(result) = block.get("toolResult") {
                let is_filled = result["content"].as_array().is_some_and(|content| !content.is_empty());
                if is_filled { Part::Result(text(result, "toolUseId").to_owned()) } else { Part::Text(false) }
            } else if block.get("text").is_some() {
                Part::Text(!text(block, "text").trim().is_empty())
            } else {
                Part::Text(["image", "reasoningContent", "cachePoint"].iter().any(|kind| block.get(kind).is_some()))
            }
        }),
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// An id may not be empty, and not come twice.
fn note_id(id: &str, seen: &mut HashSet<String>, faults: &mut Vec<String>) {
    if id.is_empty() || id.len() > 64 || !seen.insert(id.to_owned()) {
        faults.push(format!("bad or repeated id {id:?}"));
    }
}

fn chat(body: &Value) -> Vec<String> {
    let (mut faults, mut seen, mut open) = (Vec::new(), HashSet::new(), Vec::<String>::new());
    for (place, message) in list(&body["messages"]).iter().enumerate() {
        let role = text(message, "role");
        if role == "tool" {
            let id = text(message, "tool_call_id");
            match open.iter().position(|known| known == id) {
                Some(at) => drop(open.remove(at)),
                None => faults.push(format!("{place}: a result without its call {id:?}")),
            }
            continue;
        }
        if !open.is_empty() {
            faults.push(format!("{place}: calls without results {open:?}"));
        }
        for call in list(&message["tool_calls"]) {
            note_id(text(call, "id"), &mut seen, &mut faults);
            open.push(text(call, "id").to_owned());
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                faults.push(format!("{place}: arguments {arguments:?}"));
            }
        }
        if role == "system" && place > 0 {
            faults.push(format!("{place}: a system message in the middle"));
        }
    }
    if !open.is_empty() {
        faults.push(format!("at the end: calls without results {open:?}"));
    }
    faults
}

fn responses(body: &Value) -> Vec<String> {
    let (mut faults, mut seen, mut open) = (Vec::new(), HashSet::new(), HashSet::new());
    for item in list(&body["input"]) {
        match text(item, "type") {
            "function_call" => {
                note_id(text(item, "call_id"), &mut seen, &mut faults);
                open.insert(text(item, "call_id").to_owned());
            }
            "function_call_output" if !open.remove(text(item, "call_id")) => {
                faults.push(format!("a result without its call: {item}"));
            }
            "reasoning" if text(item, "encrypted_content").is_empty() => faults.push("empty reasoning".to_owned()),
            _ => {}
        }
    }
    if !open.is_empty() {
        faults.push(format!("calls without results {open:?}"));
    }
    faults
}

enum Part {
    /// Its id, and whether its arguments are an object.
    Call(String, bool),
    Result(String),
    /// Anything else, and whether it is in order.
    Text(bool),
}

/// Interfaces where the sides take turns and results are the next thing the user says.
fn sides(turns: &Value, content: &str, model: &str, read: impl Fn(&Value) -> Part) -> Vec<String> {
    let (mut faults, mut seen, mut open) = (Vec::new(), HashSet::new(), HashSet::new());
    for (place, turn) in list(turns).iter().enumerate() {
        let expected = if place % 2 == 0 { "user" } else { model };
        if text(turn, "role") != expected || list(&turn[content]).is_empty() {
            faults.push(format!("{place}: {expected} should say something: {turn}"));
        }
        let mut next = HashSet::new();
        for part in list(&turn[content]) {
            match read(part) {
                Part::Call(id, is_object) => {
                    note_id(&id, &mut seen, &mut faults);
                    next.insert(id);
                    if !is_object || expected == "user" {
                        faults.push(format!("{place}: {part}"));
                    }
                }
                Part::Result(id) if open.remove(&id) && expected == "user" => {}
                Part::Result(id) => faults.push(format!("{place}: a result without its call {id:?}")),
                Part::Text(true) => {}
                Part::Text(false) => faults.push(format!("{place}: {part}")),
            }
        }
        if !open.is_empty() {
            faults.push(format!("{place}: calls without results {open:?}"));
        }
        open = next;
    }
    if list(turns).len().is_multiple_of(2) {
        faults.push("the user does not have the last word".to_owned());
    }
    faults
}
