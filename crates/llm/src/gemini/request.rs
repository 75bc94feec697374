//! A neutral request as the body of a generateContent call.
//!
//! Thinking models sign parts of their answers and want the signatures back in the same places; the history keeps them as thinking
//! blocks that name the call they belong to.

use openhands_protocol::{Content, Message};
use serde_json::{Map, Value, json};

use crate::{
    LlmRequest, OfferedTool,
    adapter::{Attempt, Setup, add_extra_body, object, set},
    history::{Call, History, Turn, images, inline_image},
    sides::{Side, Sides},
};

/// Members that the reader of the answer depends on; `litellm_extra_body` cannot change them.
const OURS: [&str; 1] = ["contents"];

/// What Google lets stand for a signature where another model made the call: `skip_thought_signature_validator` in base64.
const NOT_SIGNED: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

/// What a body depends on beside the request.
pub(super) struct Rendering<'a> {
    pub(super) setup: &'a Setup,
    pub(super) attempt: Attempt,
}

impl Rendering<'_> {
    pub(super) fn members(&self, request: &LlmRequest) -> Map<String, Value> {
        let Setup { config, endpoint, .. } = self.setup;
        let history = History::of(&request.messages, endpoint.provider.call_ids);
        let mut sides = Sides::new(json!({"text": "Continue."}));
        for turn in &history.turns {
            match turn {
                Turn::User(message) => sides.say(Side::User, self.parts(&message.content)),
                Turn::Assistant { message, calls } => {
                    sides.say(Side::Model, self.said(message, calls));
                    sides.say(Side::User, self.results(calls));
                }
            }
        }
        let content = |(side, parts): (Side, Vec<Value>)| {
            let role = if side == Side::User { "user" } else { "model" };
            object([("role", role.into()), ("parts", parts.into())])
        };
        let mut body = Map::new();
        set(&mut body, "contents", sides.finish().into_iter().map(content).collect::<Value>());
        let system = history.system_text();
        if !system.trim().is_empty() {
            set(&mut body, "systemInstruction", json!({"parts": [{"text": system}]}));
        }
        if !request.tools.is_empty() {
            let declared: Value = request.tools.iter().map(tool).collect();
            set(&mut body, "tools", json!([{"functionDeclarations": declared}]));
        }
        let generation = self.generation();
        if !generation.is_empty() {
            set(&mut body, "generationConfig", generation);
        }
        set(&mut body, "safetySettings", json!(config.safety_settings));
        add_extra_body(&mut body, config, &OURS);
        body
    }

    fn generation(&self) -> Map<String, Value> {
        let Setup { config, abilities, stop, .. } = self.setup;
        let mut generation = Map::new();
        if abilities.sampling || !config.drop_params {
            set(&mut generation, "temperature", json!(self.attempt.temperature));
            set(&mut generation, "topP", json!(config.top_p));
            set(&mut generation, "topK", json!(config.top_k));
        }
        set(&mut generation, "maxOutputTokens", json!(abilities.max_output));
        set(&mut generation, "seed", json!(config.seed));
        if !stop.is_empty() && abilities.stop_words {
            set(&mut generation, "stopSequences", json!(stop));
        }
        if abilities.reasoning_effort {
            set(&mut generation, "thinkingConfig", json!(self.thinking()));
        }
        generation
    }

    /// Models of the second generation take a budget of tokens, later ones a level.
    fn thinking(&self) -> Option<Value> {
        let effort = self.setup.config.reasoning_effort.as_deref()?;
        if !self.signs_calls() {
            let budget = match effort {
                "none" => return Some(json!({"thinkingBudget": 0, "includeThoughts": false})),
                "minimal" => 512,
                "low" => 1024,
                "medium" => 2048,
                _ => 4096,
            };
            return Some(json!({"thinkingBudget": budget, "includeThoughts": true}));
        }
        let level = match effort {
            "none" => return None,
            "minimal" | "low" => "low",
            // The first of them knows two levels only.
            "medium" if !self.setup.endpoint.model.contains("gemini-3-pro") => "medium",
            _ => "high",
        };
        Some(json!({"thinkingLevel": level, "includeThoughts": true}))
    }

    /// Whether the model refuses calls without signatures.
    fn signs_calls(&self) -> bool {
        let name = &self.setup.endpoint.model;
        !["gemini-1", "gemini-2", "gemma"].iter().any(|old| name.contains(old))
    }

    /// Earlier generations tell calls apart by their order alone.
    fn numbered(&self, call: &Call<'_>, members: [(&str, Value); 2]) -> Map<String, Value> {
        let id = self.signs_calls().then(|| ("id", json!(call.id)));
        id.into_iter().chain(members).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn parts(&self, content: &[Content]) -> Vec<Value> {
        content
            .iter()
            .flat_map(|part| match part {
                Content::Text { text, .. } if text.is_empty() => Vec::new(),
                Content::Text { text, .. } => vec![json!({"text": text})],
                Content::Image { .. } if self.setup.abilities.images => {
                    images(std::slice::from_ref(part)).map(image).collect()
                }
                Content::Image { .. } => Vec::new(),
            })
            .collect()
    }

    fn said(&self, message: &Message, calls: &[Call<'_>]) -> Vec<Value> {
        let signature = |of: &str| {
            let blocks = message.thinking_blocks.iter().filter(|_| self.attempt.reasoning);
            let mut blocks = blocks.filter(|block| block.pointer("/gemini/of").and_then(Value::as_str) == Some(of));
            blocks.find_map(|block| block.get("signature")?.as_str())
        };
        let mut parts: Vec<Value> = message
            .content
            .iter()
            .filter_map(Content::as_text)
            .filter(|text| !text.is_empty())
            .map(|text| json!({"text": text}))
            .collect();
        if let (Some(Value::Object(last)), Some(signature)) = (parts.last_mut(), signature("")) {
            set(last, "thoughtSignature", signature);
        }
        let any_signed = calls.iter().any(|call| signature(&call.call.id).is_some());
        for (number, call) in calls.iter().enumerate() {
            let mut part = Map::new();
            set(
                &mut part,
                "functionCall",
                self.numbered(call, [("name", (*call.name).into()), ("args", call.input())]),
            );
            let made_up = || (number == 0 && !any_signed && self.signs_calls()).then_some(NOT_SIGNED);
            set(&mut part, "thoughtSignature", json!(signature(&call.call.id).or_else(made_up)));
            parts.push(part.into());
        }
        parts
    }

    /// Results take no images; those follow behind.
    fn results(&self, calls: &[Call<'_>]) -> Vec<Value> {
        let result = |call: &Call<'_>| {
            let response = object([("result", call.text(self.setup.config.max_message_chars).into())]);
            let members = [("name", (*call.name).into()), ("response", response)];
            object([("functionResponse", self.numbered(call, members).into())])
        };
        let mut parts: Vec<Value> = calls.iter().map(result).collect();
        if self.setup.abilities.images {
            parts.extend(calls.iter().flat_map(|call| images(call.content())).map(image));
        }
        parts
    }
}

fn image(url: &str) -> Value {
    match inline_image(url) {
        Some((kind, data)) => json!({"inlineData": {"mimeType": kind, "data": data}}),
        None => {
            let path = url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
            let kind = match path.rsplit('.').next() {
                Some("jpg" | "jpeg") => "image/jpeg",
                Some("gif") => "image/gif",
                Some("webp") => "image/webp",
                _ => "image/png",
            };
            json!({"fileData": {"mimeType": kind, "fileUri": url}})
        }
    }
}

fn tool(tool: &OfferedTool) -> Value {
    json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters})
}
