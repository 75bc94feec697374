//! What a model answered, in no provider's words.

use openhands_protocol::{Message, metrics::TokenUsage};

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmResponse {
    /// The provider's response id; made up (UUID) when the provider sent none.
    pub id: String,
    /// The assistant's message; `tool_calls` with the model's own argument strings.
    pub message: Message,
    /// Tokens of this call.
    pub usage: TokenUsage,
    /// US dollars, 0 when no price is known.
    pub cost: f64,
    /// The provider's word for why it stopped.
    pub finish_reason: Option<String>,
    /// The slot whose statistics the call belongs to, where it is not the asked one's: a router's choice.
    pub usage_id: Option<String>,
}

/// A piece of a streaming answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Visible text.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// A piece of a tool call's arguments.
    ToolArguments {
        /// Position of the call in the answer.
        index: usize,
        /// The call's name, with its first piece.
        name: Option<String>,
        /// A piece of the argument string.
        arguments: String,
    },
    /// An attempt failed half-way; what was handed out so far is void.
    Restart,
}
