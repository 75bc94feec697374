//! An answer being put together, from one document or from the pieces of a stream; both ways give the same.

use openhands_protocol::{LlmConfig, Message, Role, ToolCall, metrics::TokenUsage};
use serde_json::Value;
use uuid::Uuid;

use super::Pieces;
use crate::{Delta, LlmResponse};

/// More calls than this in one answer are a model gone wrong.
const CALLS_LIMIT: usize = 256;

/// What is there of an answer.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    id: Option<String>,
    text: String,
    reasoning: String,
    calls: Vec<Call>,
    finish_reason: Option<String>,
    usage: Option<Value>,
}

#[derive(Debug, Default)]
struct Call {
    /// The provider's number for it in this stream.
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

impl Assembly {
    /// A whole answer; `None` when it has no choices.
    pub(super) fn of_document(document: &Value) -> Option<Self> {
        let choice = document.get("choices")?.get(0)?;
        let message = choice.get("message").filter(|message| message.is_object())?;
        let mut assembly = Self::default();
        assembly.note(document, choice);
        assembly.reasoning = reasoning(message);
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

    /// Takes one event of a stream and hands its pieces out.
    pub(super) fn take(&mut self, event: &Value, pieces: &mut Pieces<'_>) {
        let choice = event.get("choices").and_then(|choices| choices.get(0)).unwrap_or(&Value::Null);
        self.note(event, choice);
        // Some servers send the last event in the form of a whole answer.
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        let thought = reasoning(delta);
        if !thought.is_empty() {
            self.reasoning.push_str(&thought);
            pieces.give(Delta::Reasoning(thought));
        }
        for member in ["content", "refusal"] {
            let said = text(delta.get(member));
            if !said.is_empty() {
                self.text.push_str(&said);
                pieces.give(Delta::Text(said));
            }
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.take_call(call, pieces);
        }
    }

    fn take_call(&mut self, piece: &Value, pieces: &mut Pieces<'_>) {
        let function = piece.get("function");
        let id = string(piece.get("id"));
        let name = function.and_then(|function| string(function.get("name")));
        let position = self.position(piece.get("index").and_then(Value::as_u64), id.as_deref(), name.is_some());
        let Some(call) = position.and_then(|position| self.calls.get_mut(position)) else { return };
        if call.id.is_none() {
            call.id = id;
        }
        // The name comes once, or again with every piece.
        let new_name = name.filter(|_| call.name.is_empty());
        call.name.push_str(new_name.as_deref().unwrap_or_default());
        let more = function.map(|function| arguments(function.get("arguments"))).unwrap_or_default();
        call.arguments.push_str(&more);
        if let Some(index) = position.filter(|_| new_name.is_some() || !more.is_empty()) {
            pieces.give(Delta::ToolArguments { index, name: new_name, arguments: more });
        }
    }

    /// Which call a piece belongs to. Servers number their calls, or only give ids, or give every call the number 0 with another
    /// id, or send calls whole without either.
    fn position(&mut self, index: Option<u64>, id: Option<&str>, named: bool) -> Option<usize> {
        let by_id = id.and_then(|id| self.calls.iter().position(|call| call.id.as_deref() == Some(id)));
        let known = by_id.or_else(|| match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index && (id.is_none() || call.id.is_none())),
            None if id.is_none() && !named => self.calls.len().checked_sub(1),
            None => None,
        });
        if known.is_some() {
            return known;
        }
        if self.calls.len() >= CALLS_LIMIT {
            return None;
        }
        self.calls.push(Call { index, ..Call::default() });
        Some(self.calls.len() - 1)
    }

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
    }

    /// Whether the provider said that the answer is over.
    pub(super) fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Whether nothing of an answer came.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty()
    }

    /// Hands a whole answer out as if it had been streamed.
    pub(super) fn hand_out(&self, pieces: &mut Pieces<'_>) {
        if !self.reasoning.is_empty() {
            pieces.give(Delta::Reasoning(self.reasoning.clone()));
        }
        if !self.text.is_empty() {
            pieces.give(Delta::Text(self.text.clone()));
        }
        for (index, call) in self.calls.iter().enumerate() {
            pieces.give(Delta::ToolArguments {
                index,
                name: Some(call.name.clone()),
                arguments: call.arguments.clone(),
            });
        }
    }

    /// The neutral answer; `cost` is what the provider reported.
    pub(super) fn finish(self, config: &LlmConfig) -> LlmResponse {
        let id = self.id.unwrap_or_else(|| format!("chatcmpl-{}", Uuid::new_v4().simple()));
        let calls: Vec<ToolCall> =
            self.calls.into_iter().filter(|call| !call.name.is_empty()).map(Call::finish).collect();
        let content =
            if self.text.is_empty() { Vec::new() } else { vec![openhands_protocol::Content::text(self.text)] };
        let message = Message {
            tool_calls: (!calls.is_empty()).then_some(calls),
            reasoning_content: (!self.reasoning.is_empty()).then_some(self.reasoning),
            ..Message::new(Role::Assistant, content)
        };
        let usage = self.usage.unwrap_or_default();
        LlmResponse {
            usage: tokens(&usage, config, &id),
            cost: usage.get("cost").and_then(Value::as_f64).unwrap_or(0.0),
            id,
            message,
            finish_reason: self.finish_reason,
        }
    }
}

impl Call {
    fn finish(self) -> ToolCall {
        ToolCall {
            id: self.id.unwrap_or_else(|| format!("call_{}", Uuid::new_v4().simple())),
            responses_item_id: None,
            name: self.name,
            // A tool without parameters is called with nothing by some models.
            arguments: if self.arguments.trim().is_empty() { "{}".to_owned() } else { self.arguments },
            origin: Default::default(),
        }
    }
}

fn tokens(usage: &Value, config: &LlmConfig, id: &str) -> TokenUsage {
    let count = |pointers: &[&str]| pointers.iter().find_map(|pointer| usage.pointer(pointer)?.as_u64()).unwrap_or(0);
    let (prompt, completion) = (count(&["/prompt_tokens"]), count(&["/completion_tokens"]));
    TokenUsage {
        model: config.model.clone(),
        prompt_tokens: prompt,
        completion_tokens: completion,
        cache_read_tokens: count(&[
            "/prompt_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
            "/cache_read_input_tokens",
        ]),
        cache_write_tokens: count(&["/prompt_tokens_details/cache_write_tokens", "/cache_creation_input_tokens"]),
        reasoning_tokens: count(&["/completion_tokens_details/reasoning_tokens", "/reasoning_tokens"]),
        context_window: config.max_input_tokens.unwrap_or(0),
        per_turn_token: prompt.saturating_add(completion),
        response_id: id.to_owned(),
    }
}

fn string(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(ToOwned::to_owned)
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
fn arguments(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(object @ Value::Object(_)) => object.to_string(),
        _ => String::new(),
    }
}
