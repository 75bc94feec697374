//! An answer being put together, from one document or from the pieces of a stream; both ways give the same.

use serde_json::{Map, Value, json};

use crate::{
    adapter::{Pieces, Reading, count, string},
    answer::{Answer, AnsweredCall, Billing, CALLS_LIMIT, Service, Tokens},
};

/// What is there of an answer.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    id: Option<String>,
    text: String,
    reasoning: String,
    /// Claude's, as LiteLLM passes them on.
    thinking: Vec<Value>,
    /// OpenRouter's.
    details: Vec<Map<String, Value>>,
    pub(super) calls: Vec<Call>,
    finish_reason: Option<String>,
    usage: Option<Value>,
    service: Option<Service>,
}

#[derive(Debug, Default)]
pub(super) struct Call {
    /// The provider's number for it in this stream.
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl Reading for Assembly {
    fn of_document(document: &Value) -> Option<Self> {
        let choice = document.get("choices")?.get(0)?;
        let message = choice.get("message").filter(|message| message.is_object())?;
        let mut assembly = Self::default();
        assembly.note(document, choice);
        assembly.reasoning = reasoning(message);
        assembly.take_signed(message);
        assembly.text = text(message.get("content"));
        if assembly.text.is_empty() {
            assembly.text = text(message.get("refusal"));
        }
        for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().take(CALLS_LIMIT) {
            let function = call.get("function");
            assembly.calls.push(Call {
                index: None,
                id: string(call.get("id")),
                name: function.and_then(|function| string(function.get("name"))).unwrap_or_default(),
                arguments: function.map(|function| arguments(function.get("arguments"))).unwrap_or_default(),
            });
        }
        Some(assembly)
    }

    fn take(&mut self, event: &Value, pieces: &mut Pieces<'_>) {
        let choice = event.get("choices").and_then(|choices| choices.get(0)).unwrap_or(&Value::Null);
        self.note(event, choice);
        // Some servers send the last event in the form of a whole answer.
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        let thought = reasoning(delta);
        self.reasoning.push_str(&thought);
        pieces.reasoning(&thought);
        self.take_signed(delta);
        for member in ["content", "refusal"] {
            let said = text(delta.get(member));
            self.text.push_str(&said);
            pieces.text(&said);
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.take_call(call, pieces);
        }
    }

    fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty()
    }

    fn finish(self) -> Answer {
        let usage = self.usage.unwrap_or_default();
        let mut thinking_blocks = self.thinking;
        // Kept whole, to be sent back as it is; the rest makes it a thinking block for readers of the history.
        thinking_blocks.extend(self.details.into_iter().map(|detail| {
            let shown = string(detail.get("text")).or_else(|| string(detail.get("summary"))).unwrap_or_default();
            json!({"type": "thinking", "thinking": shown, "signature": null, "openrouter": detail})
        }));
        Answer {
            id: self.id,
            text: self.text,
            reasoning: self.reasoning,
            thinking_blocks,
            reasoning_item: None,
            calls: self.calls.into_iter().map(Call::finish).collect(),
            finish_reason: self.finish_reason,
            tokens: tokens(&usage),
            cost: usage.get("cost").and_then(Value::as_f64),
            billing: Billing {
                hour_written: count(
                    &usage,
                    &["/prompt_tokens_details/cache_creation_token_details/ephemeral_1h_input_tokens"],
                ),
                service: self.service.unwrap_or_default(),
            },
        }
    }
}

impl Assembly {
    fn note(&mut self, document: &Value, choice: &Value) {
        if self.id.is_none() {
            self.id = string(document.get("id"));
        }
        if let Some(reason) = string(choice.get("finish_reason")) {
            self.finish_reason = Some(reason);
        }
        // Some servers send running figures; the last ones count.
        if let Some(usage) = document.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(usage.clone());
        }
        self.service = Service::of(document).or(self.service);
    }

    /// Reasoning that carries signatures; in a stream its texts come in pieces.
    fn take_signed(&mut self, message: &Value) {
        for block in message.get("thinking_blocks").and_then(Value::as_array).into_iter().flatten() {
            self.take_block(block);
        }
        for detail in message.get("reasoning_details").and_then(Value::as_array).into_iter().flatten() {
            self.take_detail(detail);
        }
    }

    fn take_block(&mut self, block: &Value) {
        if block.get("type").and_then(Value::as_str) == Some("redacted_thinking") {
            if let Some(data) = string(block.get("data")) {
                self.thinking.push(json!({"type": "redacted_thinking", "data": data}));
            }
            return;
        }
        let (more, signature) = (text(block.get("thinking")), string(block.get("signature")));
        // A block ends with its signature.
        let is_open = |block: &Value| block.get("signature").is_some_and(Value::is_null);
        if !self.thinking.last().is_some_and(is_open) {
            if more.is_empty() && signature.is_none() {
                return;
            }
            self.thinking.push(json!({"type": "thinking", "thinking": "", "signature": null}));
        }
        if let Some(Value::Object(open)) = self.thinking.last_mut() {
            // LiteLLM's proxy repeats the whole text beside the signature, which would no longer fit a text told twice.
            let is_told = |told: &str| signature.is_some() && !told.is_empty() && more.starts_with(told);
            if open.get("thinking").and_then(Value::as_str).is_some_and(is_told) {
                open.insert("thinking".to_owned(), more.into());
            } else {
                append(open, "thinking", &more);
            }
            if let Some(signature) = signature {
                open.insert("signature".to_owned(), signature.into());
            }
        }
    }

    fn take_detail(&mut self, detail: &Value) {
        let Some(detail) = detail.as_object() else { return };
        let same = |known: &&mut Map<String, Value>| {
            detail.get("index").is_some_and(|index| known.get("index") == Some(index))
                && known.get("type") == detail.get("type")
        };
        let Some(known) = self.details.iter_mut().find(same) else {
            if self.details.len() < CALLS_LIMIT {
                self.details.push(detail.clone());
            }
            return;
        };
        for (name, value) in detail {
            match value.as_str() {
                Some(more) if ["text", "summary", "data"].contains(&name.as_str()) => append(known, name, more),
                _ if value.is_null() => {}
                _ => {
                    known.insert(name.clone(), value.clone());
                }
            }
        }
    }
}

fn append(object: &mut Map<String, Value>, name: &str, more: &str) {
    match object.get_mut(name) {
        Some(Value::String(text)) => text.push_str(more),
        _ => {
            object.insert(name.to_owned(), more.into());
        }
    }
}

impl Call {
    fn finish(self) -> AnsweredCall {
        AnsweredCall { id: self.id, name: self.name, arguments: self.arguments, ..AnsweredCall::default() }
    }
}

fn tokens(usage: &Value) -> Tokens {
    Tokens {
        prompt: count(usage, &["/prompt_tokens"]),
        completion: count(usage, &["/completion_tokens"]),
        cache_read: count(
            usage,
            &["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cache_read_input_tokens"],
        ),
        cache_write: count(
            usage,
            &[
                "/prompt_tokens_details/cache_write_tokens",
                "/prompt_tokens_details/cache_creation_tokens",
                "/cache_creation_input_tokens",
            ],
        ),
        reasoning: count(usage, &["/completion_tokens_details/reasoning_tokens", "/reasoning_tokens"]),
    }
}

/// A string, or the texts of a list of parts.
fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect(),
        _ => String::new(),
    }
}

fn reasoning(message: &Value) -> String {
    ["reasoning_content", "reasoning"]
        .iter()
        .map(|member| text(message.get(*member)))
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

/// The argument string; some servers send the object itself.
pub(super) fn arguments(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(object @ Value::Object(_)) => object.to_string(),
        _ => String::new(),
    }
}
