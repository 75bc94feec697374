//! What is asked of a model, in no provider's words.

use openhands_protocol::Message;
use serde_json::Value;

/// One call: messages and the tools the model may use. Sampling and limits come from the client's configuration.
#[derive(Clone, Debug, Default)]
pub struct LlmRequest {
    /// System message first, tool results directly behind their calls.
    pub messages: Vec<Message>,
    /// The tools; empty for a call without tools.
    pub tools: Vec<OfferedTool>,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedTool {
    /// The name in calls.
    pub name: String,
    /// The text for the model.
    pub description: String,
    /// JSON schema (object) of the arguments.
    pub parameters: Value,
}
