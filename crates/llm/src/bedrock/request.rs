//! A neutral request as the body of a Converse call.

use openhands_protocol::{Content, Message};
use serde_json::{Map, Value, json};

use crate::{
    Counter, LlmRequest, OfferedTool,
    adapter::{Attempt, Setup, add_extra_body, object, set},
    anthropic::{ask_to_think, is_signed, whole},
    history::{Call, History, Turn, images, inline_image},
    models::Thinking,
    openai::INTERLEAVED,
    sides::{Side, Sides},
};

/// Members that the reader of the answer depends on; `litellm_extra_body` cannot change them.
const OURS: [&str; 1] = ["messages"];
const MAX_TOKENS: u64 = 4096;
/// Kept free between prompt and answer: the prompt is estimated.
const MARGIN: u64 = 256;
/// No shorter answer is worth asking for.
const SHORTEST: u64 = 1024;

/// What a body depends on beside the request.
pub(super) struct Rendering<'a> {
    pub(super) setup: &'a Setup,
    pub(super) attempt: Attempt,
}

impl Rendering<'_> {
    pub(super) fn members(&self, request: &LlmRequest) -> Map<String, Value> {
        let Setup { config, endpoint, abilities, stop } = self.setup;
        let history = History::of(&request.messages, endpoint.provider.call_ids);
        let max_tokens = self.fitting(request, abilities.max_output.unwrap_or(MAX_TOKENS));
        let is_claude = endpoint.model.contains("claude");
        let thinking = if is_claude { ask_to_think(self.setup, &history, max_tokens) } else { None };
        let mut body = Map::new();
        set(&mut body, "messages", self.messages(&history, thinking.is_some()));
        let texts = history.system.iter().filter_map(|part| part.as_text()).filter(|text| !text.trim().is_empty());
        let mut system: Vec<Value> = texts.map(|text| json!({"text": text})).collect();
        if !system.is_empty() {
            if self.attempt.caching {
                // Behind the static part, which conversations share.
                system.insert(1, cache_point());
            }
            set(&mut body, "system", system);
        }
        let mut inference = Map::new();
        set(&mut inference, "maxTokens", max_tokens);
        let sampling = abilities.sampling || !config.drop_params;
        if sampling {
            set(&mut inference, "temperature", json!(self.attempt.temperature));
            set(&mut inference, "topP", json!(config.top_p));
        }
        if !stop.is_empty() && abilities.stop_words {
            set(&mut inference, "stopSequences", json!(stop));
        }
        set(&mut body, "inferenceConfig", inference);
        add_tools(&mut body, request, &history);
        let mut more = Map::new();
        if let Some(thinking) = thinking {
            match abilities.thinking {
                Thinking::Adaptive => set(&mut more, "output_config", json!({"effort": abilities.effort(config)})),
                Thinking::Budget => set(&mut more, "anthropic_beta", json!([INTERLEAVED])),
                Thinking::Effort | Thinking::Not => {}
            }
            set(&mut more, "thinking", thinking);
            // The interface's own figures do not tell reasoning apart.
            set(&mut body, "additionalModelResponseFieldPaths", json!(["/usage/output_tokens_details"]));
        } else if abilities.reasoning_effort && !is_claude {
            set(&mut more, "reasoning_effort", json!(config.reasoning_effort));
        }
        if sampling {
            set(&mut more, "top_k", json!(config.top_k.and_then(whole)));
        }
        if !more.is_empty() {
            set(&mut body, "additionalModelRequestFields", more);
        }
        add_extra_body(&mut body, config, &OURS);
        body
    }

    /// The longest answer that still fits: here prompt and answer share the context window (F1-LLM-12).
    fn fitting(&self, request: &LlmRequest, max_tokens: u64) -> u64 {
        let Setup { config, abilities, .. } = self.setup;
        let window = abilities.context_window;
        let room = window.saturating_sub(max_tokens.saturating_add(MARGIN));
        let counter = Counter::of(config);
        if window == 0 || max_tokens <= SHORTEST || !counter.exceeds(request, room) {
            return max_tokens;
        }
        let left = window.saturating_sub(counter.request(request).saturating_add(MARGIN));
        if left < SHORTEST {
            tracing::warn!(
                model = config.model,
                left,
                "the prompt leaves little room for an answer in the context window"
            );
        }
        left.clamp(SHORTEST, max_tokens)
    }

    fn messages(&self, history: &History<'_>, thinks: bool) -> Vec<Value> {
        let mut sides = Sides::new(json!({"text": "Continue."}));
        for turn in &history.turns {
            match turn {
                Turn::User(message) => sides.say(Side::User, self.parts(&message.content)),
                Turn::Assistant { message, calls } => {
                    sides.say(Side::Model, said(message, calls, thinks && self.attempt.reasoning));
                    sides.say(Side::User, calls.iter().map(|call| self.result(call)).collect());
                }
            }
        }
        let mut sides = sides.finish();
        if self.attempt.caching
            && let Some((_, last)) = sides.last_mut()
        {
            last.push(cache_point());
        }
        let message = |(side, content): (Side, Vec<Value>)| {
            let role = if side == Side::User { "user" } else { "assistant" };
            object([("role", role.into()), ("content", content.into())])
        };
        sides.into_iter().map(message).collect()
    }

    fn parts(&self, content: &[Content]) -> Vec<Value> {
        content
            .iter()
            .flat_map(|part| match part {
                Content::Text { text, .. } if text.trim().is_empty() => Vec::new(),
                Content::Text { text, .. } => vec![json!({"text": text})],
                Content::Image { .. } if self.setup.abilities.images => {
                    images(std::slice::from_ref(part)).map(image).collect()
                }
                Content::Image { .. } => Vec::new(),
            })
            .collect()
    }

    fn result(&self, call: &Call<'_>) -> Value {
        let text = call.text(self.setup.config.max_message_chars);
        let text = if text.trim().is_empty() { "(no output)".to_owned() } else { text };
        let mut content = vec![object([("text", text.into())])];
        if self.setup.abilities.images {
            content.extend(images(call.content()).map(image));
        }
        let result = object([("toolUseId", (*call.id).into()), ("content", content.into())]);
        object([("toolResult", result)])
    }
}

fn said(message: &Message, calls: &[Call<'_>], thinks: bool) -> Vec<Value> {
    let signed = message.thinking_blocks.iter().filter(|block| thinks && is_signed(block));
    let mut parts: Vec<Value> = signed.map(reasoning).collect();
    let texts = message.content.iter().filter_map(Content::as_text).filter(|text| !text.trim().is_empty());
    parts.extend(texts.map(|text| json!({"text": text})));
    parts.extend(calls.iter().map(|call| {
        let (id, name) = ((*call.id).into(), (*call.name).into());
        object([("toolUse", object([("toolUseId", id), ("name", name), ("input", call.input())]))])
    }));
    // Thinking alone is no answer.
    if parts.iter().all(|part| part.get("reasoningContent").is_some()) {
        parts.clear();
    }
    parts
}

fn reasoning(block: &Value) -> Value {
    match block.get("data") {
        Some(data) => json!({"reasoningContent": {"redactedContent": data}}),
        None => {
            let text = block.get("thinking").and_then(Value::as_str).unwrap_or_default();
            json!({"reasoningContent": {"reasoningText": {"text": text, "signature": block.get("signature")}}})
        }
    }
}

/// The interface takes bytes only; of an address it is told that there was an image.
fn image(url: &str) -> Value {
    match inline_image(url) {
        Some((kind, data)) => {
            let format = kind.rsplit('/').next().unwrap_or("png").replace("jpg", "jpeg");
            json!({"image": {"format": format, "source": {"bytes": data}}})
        }
        None => json!({"text": format!("[image at {url}]")}),
    }
}

fn cache_point() -> Value {
    json!({"cachePoint": {"type": "default"}})
}

fn add_tools(body: &mut Map<String, Value>, request: &LlmRequest, history: &History<'_>) {
    let has_calls = history.turns.iter().any(|turn| matches!(turn, Turn::Assistant { calls, .. } if !calls.is_empty()));
    let tools: Vec<Value> = if !request.tools.is_empty() {
        request.tools.iter().map(tool).collect()
    } else if has_calls {
        // A history with calls is refused without tools.
        let parameters = json!({"type": "object", "properties": {}});
        vec![tool(&OfferedTool { name: "none".to_owned(), description: "Not available.".to_owned(), parameters })]
    } else {
        return;
    };
    set(body, "toolConfig", object([("tools", tools.into())]));
}

fn tool(tool: &OfferedTool) -> Value {
    // An empty description is refused.
    let description = if tool.description.trim().is_empty() { &tool.name } else { &tool.description };
    json!({"toolSpec": {
        "name": tool.name, "description": description, "inputSchema": {"json": tool.parameters},
    }})
}
