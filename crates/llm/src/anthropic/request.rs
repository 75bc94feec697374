//! A neutral request as the body of a Messages call.

use openhands_protocol::{Content, Message};
use serde_json::{Map, Value, json};

use super::{caching, is_signed, thinking::ask_to_think};
use crate::{
    LlmRequest, OfferedTool,
    adapter::{Attempt, Setup, add_extra_body, object, set},
    history::{Call, History, Turn, images, inline_image},
    models::Thinking,
    sides::{Side, Sides},
};

/// Members that the reader of the answer depends on; `litellm_extra_body` cannot change them.
const OURS: [&str; 2] = ["messages", "stream"];

/// When neither the configuration nor the table knows a limit, which this interface insists on.
const MAX_TOKENS: u64 = 4096;

/// What a body depends on beside the request.
pub(super) struct Rendering<'a> {
    pub(super) setup: &'a Setup,
    pub(super) attempt: Attempt,
}

impl Rendering<'_> {
    pub(super) fn members(&self, request: &LlmRequest) -> Map<String, Value> {
        let Setup { config, endpoint, abilities, stop } = self.setup;
        let history = History::of(&request.messages, endpoint.provider.call_ids);
        let max_tokens = abilities.max_output.unwrap_or(MAX_TOKENS);
        let thinking = ask_to_think(self.setup, &history, max_tokens);
        let mut sides = Sides::new(json!({"type": "text", "text": "Continue."}));
        for turn in &history.turns {
            match turn {
                Turn::User(message) => sides.say(Side::User, self.parts(&message.content)),
                Turn::Assistant { message, calls } => {
                    sides.say(Side::Model, said(message, calls, thinking.is_some() && self.attempt.reasoning));
                    sides.say(Side::User, calls.iter().map(|call| self.result(call)).collect());
                }
            }
        }
        let message = |(side, content): (Side, Vec<Value>)| {
            let role = if side == Side::User { "user" } else { "assistant" };
            object([("role", role.into()), ("content", content.into())])
        };
        let mut messages: Vec<Value> = sides.finish().into_iter().map(message).collect();
        let texts = history.system.iter().filter_map(|part| part.as_text()).filter(|text| !text.trim().is_empty());
        let mut system: Vec<Value> = texts.map(|text| json!({"type": "text", "text": text})).collect();
        if self.attempt.caching {
            caching::mark(&mut system, &mut messages);
        }

        let mut body = Map::new();
        set(&mut body, "model", endpoint.model.as_str());
        set(&mut body, "max_tokens", max_tokens);
        if !system.is_empty() {
            set(&mut body, "system", system);
        }
        set(&mut body, "messages", messages);
        self.add_tools(&mut body, request, &history);
        if abilities.sampling || !config.drop_params {
            set(&mut body, "temperature", json!(self.attempt.temperature));
            set(&mut body, "top_p", json!(config.top_p));
            // A whole number here.
            set(&mut body, "top_k", json!(config.top_k.and_then(whole)));
        }
        if !stop.is_empty() && abilities.stop_words {
            set(&mut body, "stop_sequences", json!(stop));
        }
        if let Some(thinking) = thinking {
            if abilities.thinking == Thinking::Adaptive {
                set(&mut body, "output_config", json!({"effort": abilities.effort(config)}));
            }
            set(&mut body, "thinking", thinking);
        }
        if self.attempt.streamed {
            set(&mut body, "stream", true);
        }
        add_extra_body(&mut body, config, &OURS);
        body
    }

    fn parts(&self, content: &[Content]) -> Vec<Value> {
        content
            .iter()
            .flat_map(|part| match part {
                Content::Text { text, .. } if text.trim().is_empty() => Vec::new(),
                Content::Text { text, .. } => vec![json!({"type": "text", "text": text})],
                Content::Image { .. } if self.setup.abilities.images => {
                    images(std::slice::from_ref(part)).map(image).collect()
                }
                Content::Image { .. } => Vec::new(),
            })
            .collect()
    }

    fn result(&self, call: &Call<'_>) -> Value {
        let mut content = Vec::new();
        let text = call.text(self.setup.config.max_message_chars);
        if !text.trim().is_empty() {
            content.push(object([("type", "text".into()), ("text", text.into())]));
        }
        if self.setup.abilities.images {
            content.extend(images(call.content()).map(image));
        }
        let mut result = Map::new();
        set(&mut result, "type", "tool_result");
        set(&mut result, "tool_use_id", &*call.id);
        if !content.is_empty() {
            set(&mut result, "content", content);
        }
        result.into()
    }

    fn add_tools(&self, body: &mut Map<String, Value>, request: &LlmRequest, history: &History<'_>) {
        let has_calls =
            history.turns.iter().any(|turn| matches!(turn, Turn::Assistant { calls, .. } if !calls.is_empty()));
        if !request.tools.is_empty() {
            set(body, "tools", request.tools.iter().map(tool).collect::<Value>());
        } else if has_calls {
            // A history with calls is refused without tools.
            let none = json!({"type": "object", "properties": {}});
            set(body, "tools", json!([{"name": "none", "description": "Not available.", "input_schema": none}]));
            set(body, "tool_choice", json!({"type": "none"}));
        }
    }
}

/// What the model said: its signed thinking first, then text, then calls.
fn said(message: &Message, calls: &[Call<'_>], thinks: bool) -> Vec<Value> {
    let signed = message.thinking_blocks.iter().filter(|block| thinks && is_signed(block));
    let mut blocks: Vec<Value> = signed.map(thinking_block).collect();
    let texts = message.content.iter().filter_map(Content::as_text).filter(|text| !text.trim().is_empty());
    // The last text of an answer must not end in white space.
    blocks.extend(texts.map(|text| json!({"type": "text", "text": text.trim_end()})));
    blocks.extend(calls.iter().map(|call| {
        let (id, name) = ((*call.id).into(), (*call.name).into());
        object([("type", "tool_use".into()), ("id", id), ("name", name), ("input", call.input())])
    }));
    // Thinking alone is no answer.
    if blocks.iter().all(|block| block.get("text").is_none() && block.get("name").is_none()) {
        blocks.clear();
    }
    blocks
}

fn thinking_block(block: &Value) -> Value {
    match block.get("data") {
        Some(data) => json!({"type": "redacted_thinking", "data": data}),
        None => {
            let text = block.get("thinking").and_then(Value::as_str).unwrap_or_default();
            json!({"type": "thinking", "thinking": text, "signature": block.get("signature")})
        }
    }
}

fn image(url: &str) -> Value {
    match inline_image(url) {
        Some((kind, data)) => {
            json!({"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}})
        }
        None => json!({"type": "image", "source": {"type": "url", "url": url}}),
    }
}

fn tool(tool: &OfferedTool) -> Value {
    json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
}

/// A count out of a number of any kind.
pub(crate) fn whole(number: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a small positive number"
    )]
    (number.is_finite() && (0.0..1e9).contains(&number)).then_some(number as u64)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
