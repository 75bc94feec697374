//! A finished answer in no provider's words, before prices and limits are looked up.

use openhands_protocol::{Content, Message, Role, ToolCall, content::CallOrigin, metrics::TokenUsage};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    LlmResponse,
    adapter::{Pieces, Setup},
    pricing,
};

/// More calls than this in one answer are a model gone wrong.
pub(crate) const CALLS_LIMIT: usize = 256;

/// What a provider answered.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) id: Option<String>,
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// Signed reasoning, to be sent back as it is.
    pub(crate) thinking_blocks: Vec<Value>,
    /// The reasoning item of the Responses interface.
    pub(crate) reasoning_item: Option<Value>,
    pub(crate) calls: Vec<AnsweredCall>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) tokens: Tokens,
    /// The provider's own figure, US dollars.
    pub(crate) cost: Option<f64>,
    pub(crate) billing: Billing,
}

/// What prices depend on beside the kinds of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Billing {
    /// Of the tokens written to the cache, those that are kept for an hour.
    pub(crate) hour_written: u64,
    pub(crate) service: Service,
}

/// How fast the provider says it answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Service {
    #[default]
    Standard,
    Priority,
    Flex,
}

impl Service {
    /// By the word of OpenAI's answers.
    pub(crate) fn of(document: &Value) -> Option<Self> {
        match document.get("service_tier")?.as_str()? {
            "priority" => Some(Self::Priority),
            "flex" => Some(Self::Flex),
            _ => Some(Self::Standard),
        }
    }
}

/// A tool call as it came.
#[derive(Debug, Default)]
pub(crate) struct AnsweredCall {
    pub(crate) id: Option<String>,
    /// With an item id the call is one of the Responses interface.
    pub(crate) item_id: Option<String>,
    pub(crate) origin: CallOrigin,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// Tokens by kind; `prompt` has the cached ones in it, `completion` the reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) prompt: u64,
    pub(crate) completion: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    pub(crate) reasoning: u64,
}

impl Answer {
    /// Hands a whole answer out as if it had been streamed.
    pub(crate) fn hand_out(&self, pieces: &mut Pieces<'_>) {
        pieces.reasoning(&self.reasoning);
        pieces.text(&self.text);
        for (index, call) in self.calls.iter().enumerate() {
            pieces.arguments(index, Some(&call.name), &call.arguments);
        }
    }

    /// The neutral answer. `reported` is a cost that came beside the answer.
    pub(crate) fn into_response(self, setup: &Setup, reported: Option<f64>) -> LlmResponse {
        let id = self.id.unwrap_or_else(|| format!("chatcmpl-{}", Uuid::new_v4().simple()));
        let calls = self.calls.into_iter().filter(|call| !call.name.is_empty()).map(AnsweredCall::finish);
        let calls: Vec<ToolCall> = distinct(calls.collect());
        let content = if self.text.is_empty() { Vec::new() } else { vec![Content::text(self.text)] };
        let message = Message {
            tool_calls: (!calls.is_empty()).then_some(calls),
            reasoning_content: (!self.reasoning.is_empty()).then_some(self.reasoning),
            thinking_blocks: self.thinking_blocks,
            responses_reasoning_item: self.reasoning_item,
            ..Message::new(Role::Assistant, content)
        };
        let Tokens { prompt, completion, cache_read, cache_write, reasoning } = self.tokens;
        let usage = TokenUsage {
            model: setup.config.model.clone(),
            prompt_tokens: prompt,
            completion_tokens: completion,
            cache_read_tokens: cache_read,
            cache_write_tokens: cache_write,
            reasoning_tokens: reasoning,
            context_window: setup.abilities.context_window,
            per_turn_token: prompt.saturating_add(completion),
            response_id: id.clone(),
        };
        let cost =
            pricing::cost(&setup.config, setup.abilities.row.as_ref(), &usage, self.billing, reported.or(self.cost));
        LlmResponse { id, message, usage, cost, finish_reason: self.finish_reason, usage_id: None }
    }
}

/// Results find their calls by ids, so two calls of an answer cannot share one.
fn distinct(mut calls: Vec<ToolCall>) -> Vec<ToolCall> {
    let mut seen = std::collections::HashSet::new();
    for call in &mut calls {
        if !seen.insert(call.id.clone()) {
            call.id = made_up_id();
        }
    }
    calls
}

fn made_up_id() -> String {
    format!("call_{}", Uuid::new_v4().simple())
}

impl AnsweredCall {
    fn finish(self) -> ToolCall {
        ToolCall {
            id: self.id.unwrap_or_else(made_up_id),
            responses_item_id: self.item_id,
            name: self.name,
            // A tool without parameters is called with nothing by some models.
            arguments: if self.arguments.trim().is_empty() { "{}".to_owned() } else { self.arguments },
            origin: self.origin,
        }
    }
}
