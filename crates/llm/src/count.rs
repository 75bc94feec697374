//! How many tokens a request is, for where a limit asks (F1-LLM-43, F1-LLM-19): estimated, or counted with a tokenizer's file that
//! `llm.custom_tokenizer` names. Why there is no tokenizer inside: decision 14.
//!
//! Nothing is downloaded. What the provider says after a call is the truth; this is for decisions before one.

mod estimate;
mod pieces;
mod ranks;

use std::sync::Arc;

use openhands_protocol::{Content, LlmConfig};
use serde_json::Value;

use crate::{LlmRequest, OfferedTool};
use ranks::Tokenizer;

/// Around every message, and before the answer.
const FRAME: u64 = 3;
/// Around the tools.
const TOOLS_FRAME: u64 = 9;
/// An image of the usual size; providers take between 85 and 1,600.
const IMAGE: u64 = 1_200;

/// Counts the tokens of requests for one model.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    tokenizer: Option<Arc<Tokenizer>>,
}

impl Counter {
    /// The counter of a model slot. A tokenizer's file is read when it is first needed; a `custom_tokenizer` that is no file, or one
    /// of a kind that is not supported, is named in the log once and estimates take its place.
    #[must_use]
    pub fn of(config: &LlmConfig) -> Self {
        let name = config.custom_tokenizer.as_deref().filter(|name| !name.trim().is_empty());
        Self { tokenizer: name.map(Tokenizer::named) }
    }

    /// Tokens of a text.
    #[must_use]
    pub fn text(&self, text: &str) -> u64 {
        match self.tokenizer.as_ref().and_then(|tokenizer| tokenizer.ranks()) {
            Some(ranks) => ranks.count(text),
            None => estimate::tokens(text),
        }
    }

    /// Tokens of a request: messages, calls, images, tools, and what frames them.
    #[must_use]
    pub fn request(&self, request: &LlmRequest) -> u64 {
        let mut total = FRAME;
        for message in &request.messages {
            total += FRAME + 1;
            for part in &message.content {
                total += match part {
                    Content::Text { text, .. } => self.text(text),
                    Content::Image { image_urls, .. } => IMAGE.saturating_mul(image_urls.len() as u64),
                };
            }
            let calls = message.tool_calls.iter().flatten();
            total += calls.map(|call| self.text(&call.arguments) + self.text(&call.name)).sum::<u64>();
            total += message.tool_call_id.iter().chain(&message.name).map(|text| self.text(text)).sum::<u64>();
        }
        if !request.tools.is_empty() {
            total += TOOLS_FRAME + request.tools.iter().map(|tool| self.tool(tool)).sum::<u64>();
        }
        total
    }

    /// Whether a request is longer than `limit` tokens. Counts only when its bytes alone do not tell.
    #[must_use]
    pub fn exceeds(&self, request: &LlmRequest, limit: u64) -> bool {
        // No token is shorter than a byte.
        longest(request) > limit && self.request(request) > limit
    }

    fn tool(&self, tool: &OfferedTool) -> u64 {
        // Providers show tools as declarations: names, types, descriptions.
        8 + self.text(&tool.name) + self.text(&tool.description) + self.schema(&tool.parameters, 0)
    }

    fn schema(&self, schema: &Value, depth: usize) -> u64 {
        if depth > 8 {
            return self.text(&schema.to_string());
        }
        let mut total = schema.get("description").and_then(Value::as_str).map_or(0, |text| self.text(text) + 2);
        for value in schema.get("enum").and_then(Value::as_array).into_iter().flatten() {
            total += self.text(&value.to_string()) + 1;
        }
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            total += self.text(name) + 4 + self.schema(property, depth + 1);
        }
        for nested in ["items", "additionalProperties"] {
            total += schema
                .get(nested)
                .filter(|nested| nested.is_object())
                .map_or(0, |nested| self.schema(nested, depth + 1) + 1);
        }
        for choice in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
            total += 1 + self.schema(choice, depth + 1);
        }
        total
    }
}

/// More tokens than this a request cannot have.
fn longest(request: &LlmRequest) -> u64 {
    let bytes = |text: &str| text.len() as u64;
    let mut total = FRAME;
    for message in &request.messages {
        total += 2 * FRAME;
        for part in &message.content {
            total += match part {
                Content::Text { text, .. } => bytes(text),
                Content::Image { image_urls, .. } => IMAGE.saturating_mul(image_urls.len() as u64),
            };
        }
        let calls = message.tool_calls.iter().flatten();
        total += calls.map(|call| bytes(&call.arguments) + bytes(&call.name)).sum::<u64>();
        total += message.tool_call_id.iter().chain(&message.name).map(|text| bytes(text)).sum::<u64>();
    }
    let tools = request.tools.iter();
    total
        + tools
            .map(|tool| {
                2 * TOOLS_FRAME + bytes(&tool.name) + bytes(&tool.description) + bytes(&tool.parameters.to_string())
            })
            .sum::<u64>()
}

#[cfg(test)]
mod tests;
