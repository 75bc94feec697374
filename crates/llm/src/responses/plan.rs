//! What the backend of plans takes of Responses, which is less than the interface offers (F1-LLM-34, F2-SUBS-12r).
//!
//! It stores nothing and always streams. It refuses limits and sampling, answers empty when asked for reasoning, and takes only
//! short instructions: the system text goes in front of the first message.

use serde_json::{Map, Value, json};

use super::request::{Rendering, tool};
use crate::{
    LlmRequest,
    adapter::{Attempt, Setup, add_extra_body, set},
    history::History,
};

/// Members that decide whether the backend answers at all; `litellm_extra_body` cannot change them.
const OURS: [&str; 3] = ["input", "stream", "store"];

const INSTRUCTIONS: &str = "You are an OpenHands agent. Solve the user's task on their computer with the tools you have. The first \
     message opens with the rules that you work by.";
const PREFACE: &str = "The rules that you work by:";

/// Headers that the backend knows its callers by, as the SDK sends them.
pub(super) const HEADERS: [(&str, &str); 2] =
    [("originator", "codex_cli_rs"), ("openai-beta", "responses=experimental")];

impl Rendering<'_> {
    pub(super) fn plan_members(&self, request: &LlmRequest) -> Map<String, Value> {
        let Setup { config, endpoint, .. } = self.setup;
        let history = History::of(&request.messages, endpoint.provider.call_ids);
        // The backend keeps no reasoning, and refuses what refers to it.
        let stateless = Rendering { setup: self.setup, attempt: Attempt { reasoning: false, ..self.attempt } };
        let mut items: Vec<Value> = stateless.items(&history).into_iter().map(bare).collect();
        let system = history.system_text();
        if !system.trim().is_empty() {
            put_before(&mut items, &format!("{PREFACE}\n{system}\n\n"));
        }
        let mut body = Map::new();
        set(&mut body, "model", endpoint.model.as_str());
        set(&mut body, "instructions", INSTRUCTIONS);
        set(&mut body, "input", items);
        if !request.tools.is_empty() {
            set(&mut body, "tools", request.tools.iter().map(tool).collect::<Value>());
        }
        set(&mut body, "tool_choice", "auto");
        set(&mut body, "store", false);
        set(&mut body, "stream", true);
        add_extra_body(&mut body, config, &OURS);
        body
    }
}

/// Messages stand without their type here.
fn bare(mut item: Value) -> Value {
    if let Some(members) = item.as_object_mut().filter(|item| item.get("type").is_some_and(|kind| kind == "message")) {
        members.shift_remove("type");
    }
    item
}

/// Puts a text before the first message of the user, or alone before everything.
fn put_before(items: &mut Vec<Value>, text: &str) {
    let part = json!({"type": "input_text", "text": text});
    let first = items.iter_mut().find(|item| item.get("role").is_some_and(|role| role == "user"));
    match first.and_then(|item| item.get_mut("content")).and_then(Value::as_array_mut) {
        Some(content) => content.insert(0, part),
        None => items.insert(0, json!({"role": "user", "content": [part]})),
    }
}

#[cfg(test)]
mod tests;
