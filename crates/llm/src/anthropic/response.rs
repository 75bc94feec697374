//! An answer being put together out of content blocks; whole answers and streams go through the same blocks.

use serde_json::{Value, json};

use super::finish_reason;
use crate::{
    adapter::{Pieces, Reading, string},
    answer::{Answer, AnsweredCall, Billing, CALLS_LIMIT, Tokens},
};

/// What is there of an answer.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    pub(super) id: Option<String>,
    pub(super) blocks: Vec<(u64, Block)>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Usage,
    pub(super) over: bool,
}

/// One content block.
#[derive(Debug)]
pub(super) enum Block {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(String),
    Call {
        id: Option<String>,
        name: String,
        arguments: String,
        input: Value,
    },
    /// Of a kind that has no place in a neutral answer.
    Other,
}

/// Token figures; in a stream later ones replace earlier ones, member by member.
#[derive(Debug, Default)]
pub(super) struct Usage {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    hour_written: u64,
    thinking: u64,
}

impl Usage {
    pub(super) fn take(&mut self, usage: Option<&Value>) {
        let places = [
            ("/input_tokens", &mut self.input),
            ("/output_tokens", &mut self.output),
            ("/cache_read_input_tokens", &mut self.cache_read),
            ("/cache_creation_input_tokens", &mut self.cache_write),
            ("/cache_creation/ephemeral_1h_input_tokens", &mut self.hour_written),
            ("/output_tokens_details/thinking_tokens", &mut self.thinking),
        ];
        for (place, figure) in places {
            if let Some(count) = usage.and_then(|usage| usage.pointer(place)?.as_u64()) {
                *figure = count;
            }
        }
    }

    /// The interface counts cached tokens beside the others.
    fn tokens(&self) -> Tokens {
        Tokens {
            prompt: self.input.saturating_add(self.cache_read).saturating_add(self.cache_write),
            completion: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            reasoning: self.thinking,
        }
    }
}

impl Block {
    /// The beginning of a block; whole answers bring all of it.
    pub(super) fn new(block: &Value) -> Self {
        let text = |member: &str| string(block.get(member)).unwrap_or_default();
        match block.get("type").and_then(Value::as_str) {
            Some("text") => Self::Text(text("text")),
            Some("thinking") => Self::Thinking { text: text("thinking"), signature: text("signature") },
            Some("redacted_thinking") => Self::Redacted(text("data")),
            Some("tool_use") => Self::Call {
                id: string(block.get("id")),
                name: text("name"),
                arguments: String::new(),
                input: block.get("input").cloned().unwrap_or_default(),
            },
            _ => Self::Other,
        }
    }
}

impl Reading for Assembly {
    fn of_document(document: &Value) -> Option<Self> {
        let content = document.get("content")?.as_array()?;
        let mut assembly = Self {
            id: string(document.get("id")),
            stop_reason: string(document.get("stop_reason")),
            blocks: (0..).zip(content.iter().take(CALLS_LIMIT).map(Block::new)).collect(),
            ..Self::default()
        };
        assembly.usage.take(document.get("usage"));
        // Nothing at all, not even a reason, is no answer.
        (!assembly.is_empty() || assembly.is_finished()).then_some(assembly)
    }

    fn take(&mut self, event: &Value, pieces: &mut Pieces<'_>) {
        self.take_event(event, pieces);
    }

    fn is_finished(&self) -> bool {
        self.stop_reason.is_some()
    }

    fn is_over(&self) -> bool {
        self.over && self.is_finished()
    }

    fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn finish(self) -> Answer {
        let mut answer = Answer {
            id: self.id,
            finish_reason: self.stop_reason.as_deref().map(finish_reason),
            tokens: self.usage.tokens(),
            billing: Billing { hour_written: self.usage.hour_written, ..Billing::default() },
            ..Answer::default()
        };
        for (_, block) in self.blocks {
            match block {
                Block::Text(text) => answer.text.push_str(&text),
                Block::Thinking { text, signature } => {
                    answer.reasoning.push_str(&text);
                    let signature = if signature.is_empty() { Value::Null } else { signature.into() };
                    answer.thinking_blocks.push(json!({"type": "thinking", "thinking": text, "signature": signature}));
                }
                Block::Redacted(data) => {
                    answer.thinking_blocks.push(json!({"type": "redacted_thinking", "data": data}));
                }
                Block::Call { id, name, arguments, input } => {
                    let whole = || if input.is_object() { input.to_string() } else { String::new() };
                    let arguments = if arguments.is_empty() { whole() } else { arguments };
                    answer.calls.push(AnsweredCall { id, name, arguments, ..AnsweredCall::default() });
                }
                Block::Other => {}
            }
        }
        answer
    }
}
