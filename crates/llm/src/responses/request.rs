//! A neutral request as the body of a Responses call: instructions and a list of items.

use openhands_protocol::{Content, Message};
use serde_json::{Map, Value, json};

use crate::{
    LlmRequest, OfferedTool,
    adapter::{Attempt, Setup, add_extra_body, object, set},
    history::{Call, History, Turn, images},
};

/// Members that the reader of the answer depends on; `litellm_extra_body` cannot change them.
const OURS: [&str; 2] = ["input", "stream"];

/// What a body depends on beside the request.
pub(super) struct Rendering<'a> {
    pub(super) setup: &'a Setup,
    pub(super) attempt: Attempt,
}

impl Rendering<'_> {
    pub(super) fn members(&self, request: &LlmRequest) -> Map<String, Value> {
        let Setup { config, endpoint, abilities, .. } = self.setup;
        let history = History::of(&request.messages, endpoint.provider.call_ids);
        let mut body = Map::new();
        set(&mut body, "model", endpoint.model.as_str());
        let instructions = history.system_text();
        if !instructions.trim().is_empty() {
            set(&mut body, "instructions", instructions);
        }
        set(&mut body, "input", self.items(&history));
        if !request.tools.is_empty() {
            set(&mut body, "tools", request.tools.iter().map(tool).collect::<Value>());
            set(&mut body, "tool_choice", "auto");
        }
        set(&mut body, "max_output_tokens", json!(abilities.max_output));
        if abilities.sampling || !config.drop_params {
            set(&mut body, "temperature", json!(self.attempt.temperature));
            set(&mut body, "top_p", json!(config.top_p));
        }
        set(&mut body, "store", false);
        if abilities.reasoning_effort {
            if config.enable_encrypted_reasoning {
                set(&mut body, "include", json!(["reasoning.encrypted_content"]));
            }
            if let Some(effort) = &config.reasoning_effort {
                let mut reasoning = Map::new();
                set(&mut reasoning, "effort", effort.as_str());
                set(&mut reasoning, "summary", json!(config.reasoning_summary));
                set(&mut body, "reasoning", reasoning);
            }
        }
        if abilities.cache_retention {
            set(&mut body, "prompt_cache_retention", json!(config.prompt_cache_retention));
        }
        if self.attempt.streamed {
            set(&mut body, "stream", true);
        }
        add_extra_body(&mut body, config, &OURS);
        body
    }

    pub(super) fn items(&self, history: &History<'_>) -> Vec<Value> {
        let mut items = Vec::new();
        for turn in &history.turns {
            match turn {
                Turn::User(message) => {
                    let content = self.user_content(&message.content);
                    items.push(message_of("user", content));
                }
                Turn::Assistant { message, calls } => {
                    self.add_assistant(message, calls, &mut items);
                    items.extend(calls.iter().map(|call| self.result(call)));
                }
            }
        }
        items
    }

    fn user_content(&self, content: &[Content]) -> Vec<Value> {
        let parts = content.iter().flat_map(|part| match part {
            Content::Text { text, .. } => vec![json!({"type": "input_text", "text": text})],
            Content::Image { .. } if self.setup.abilities.images => {
                images(std::slice::from_ref(part)).map(image).collect()
            }
            Content::Image { .. } => Vec::new(),
        });
        let parts: Vec<Value> = parts.collect();
        if parts.is_empty() { vec![json!({"type": "input_text", "text": ""})] } else { parts }
    }

    fn add_assistant(&self, message: &Message, calls: &[Call<'_>], items: &mut Vec<Value>) {
        let stored = message.responses_reasoning_item.as_ref();
        let mut reasoning = stored.filter(|_| self.attempt.reasoning).map(reasoning_items).unwrap_or_default();
        // Reasoning is checked against the items that followed it: without it they must not claim to be those.
        let is_whole = stored.is_none() || !reasoning.is_empty();
        items.append(&mut reasoning);
        let texts = message.content.iter().filter_map(Content::as_text).filter(|text| !text.is_empty());
        let parts: Vec<Value> = texts.map(|text| json!({"type": "output_text", "text": text})).collect();
        if !parts.is_empty() {
            items.push(message_of("assistant", parts));
        }
        for call in calls {
            let mut item = Map::new();
            set(&mut item, "type", "function_call");
            if let Some(id) = call.call.responses_item_id.as_deref().filter(|id| is_whole && !id.is_empty()) {
                set(&mut item, "id", id);
            }
            set(&mut item, "call_id", &*call.id);
            set(&mut item, "name", &*call.name);
            set(&mut item, "arguments", call.arguments());
            items.push(item.into());
        }
    }

    fn result(&self, call: &Call<'_>) -> Value {
        let text = call.text(self.setup.config.max_message_chars);
        let mut seen = images(call.content()).map(image).peekable();
        let output = if self.setup.abilities.images && seen.peek().is_some() {
            let mut parts = Vec::new();
            if !text.is_empty() {
                parts.push(json!({"type": "input_text", "text": text}));
            }
            parts.extend(seen);
            parts.into()
        } else {
            Value::from(text)
        };
        object([("type", "function_call_output".into()), ("call_id", (*call.id).into()), ("output", output)])
    }
}

fn message_of(role: &str, content: Vec<Value>) -> Value {
    object([("type", "message".into()), ("role", role.into()), ("content", content.into())])
}

/// Stored reasoning as items. Without its encrypted content the provider, which stores nothing, cannot know it.
fn reasoning_items(stored: &Value) -> Vec<Value> {
    let earlier = stored.get("earlier").and_then(Value::as_array).into_iter().flatten();
    earlier.chain([stored]).filter_map(reasoning_item).collect()
}

fn reasoning_item(stored: &Value) -> Option<Value> {
    let present = |member: &str| stored.get(member).filter(|value| !value.is_null());
    let texts = |member: &str, kind: &str| -> Vec<Value> {
        let texts = stored.get(member).and_then(Value::as_array).into_iter().flatten();
        texts.map(|text| json!({"type": kind, "text": text})).collect()
    };
    let (id, encrypted) = (present("id")?, present("encrypted_content")?);
    let mut item = Map::new();
    set(&mut item, "type", "reasoning");
    set(&mut item, "id", id.clone());
    set(&mut item, "summary", texts("summary", "summary_text"));
    let content = texts("content", "reasoning_text");
    if !content.is_empty() {
        set(&mut item, "content", content);
    }
    set(&mut item, "encrypted_content", encrypted.clone());
    if let Some(status) = present("status") {
        set(&mut item, "status", status.clone());
    }
    Some(item.into())
}

fn image(url: &str) -> Value {
    json!({"type": "input_image", "image_url": url, "detail": "auto"})
}

/// Tools that models on this interface were trained with. They are told no more than the bare parameters (F2-GPT5-08r).
const KNOWN: [(&str, &str); 1] = [("apply_patch", "patch")];

pub(super) fn tool(tool: &OfferedTool) -> Value {
    if let Some((name, parameter)) = KNOWN.iter().find(|(name, _)| *name == tool.name) {
        return json!({
            "type": "function", "name": name, "strict": false,
            "parameters": {
                "type": "object", "properties": {(*parameter): {"type": "string"}}, "required": [parameter],
            },
        });
    }
    json!({
        "type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters,
        "strict": false,
    })
}
