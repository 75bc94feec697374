//! Tools, calls and results told as text.

use openhands_protocol::{Content, Message, Role};
use serde_json::Value;

use crate::{
    LlmRequest, OfferedTool,
    history::{Call, CallIds, History, Turn},
};

const MANNER: &str = "\
To use a tool, end your answer with exactly one call in this form, and nothing behind it:

<function=NAME>
<parameter=FIRST>value</parameter>
<parameter=SECOND>
a value of
several lines
</parameter>
</function>

Every required parameter must be there. Values are taken as they stand: do not quote or escape them. Write numbers, booleans, lists and
objects as JSON. The result comes as the next message of the user. You may explain before a call what it is for, never behind it.";

/// The request without tools: everything about them is in its texts.
pub(super) fn told(request: &LlmRequest, max_chars: usize) -> LlmRequest {
    let history = History::of(&request.messages, CallIds::Any(usize::MAX));
    let mut system: Vec<Content> = history.system.iter().map(|part| (*part).clone()).collect();
    if !request.tools.is_empty() {
        system.push(Content::text(tools(&request.tools)));
    }
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !system.is_empty() {
        messages.push(Message::new(Role::System, system));
    }
    for turn in &history.turns {
        match turn {
            Turn::User(message) => messages.push((*message).clone()),
            Turn::Assistant { message, calls } => {
                let mut said = vec![message.joined_text()];
                said.extend(calls.iter().map(call));
                said.retain(|text| !text.is_empty());
                messages.push(Message {
                    tool_calls: None,
                    content: vec![Content::text(said.join("\n\n"))],
                    ..(*message).clone()
                });
                if !calls.is_empty() {
                    let results = calls.iter().flat_map(|call| result(call, max_chars)).collect();
                    messages.push(Message::new(Role::User, results));
                }
            }
        }
    }
    LlmRequest { messages, tools: Vec::new() }
}

fn tools(tools: &[OfferedTool]) -> String {
    let mut text = String::from("You have these tools:\n");
    for tool in tools {
        text.push_str(&format!("\n## {}\n{}\n", tool.name, tool.description.trim()));
        let properties = tool.parameters.get("properties").and_then(Value::as_object);
        let required = tool.parameters.get("required").and_then(Value::as_array);
        for (name, schema) in properties.into_iter().flatten() {
            let member = |member: &str| schema.get(member).and_then(Value::as_str).unwrap_or_default();
            let is_required = required.is_some_and(|names| names.iter().any(|required| required == name));
            let need = if is_required { "required" } else { "optional" };
            let kind = if member("type").is_empty() { "any" } else { member("type") };
            text.push_str(&format!("- {name} ({kind}, {need}): {}\n", member("description").trim()));
            if let Some(choices) = schema.get("enum") {
                text.push_str(&format!("  One of: {choices}\n"));
            }
        }
    }
    text.push('\n');
    text.push_str(MANNER);
    text
}

fn call(call: &Call<'_>) -> String {
    let mut text = format!("<function={}>\n", call.call.name);
    for (name, value) in call.input().as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        let value = if value.contains('\n') { format!("\n{value}\n") } else { value };
        text.push_str(&format!("<parameter={name}>{value}</parameter>\n"));
    }
    text.push_str("</function>");
    text
}

fn result(call: &Call<'_>, max_chars: usize) -> Vec<Content> {
    let mut parts = vec![Content::text(format!("Result of {}:\n{}", call.call.name, call.text(max_chars)))];
    parts.extend(call.content().iter().filter(|part| part.as_text().is_none()).cloned());
    parts
}
