//! What the agent needs to know of tools: their names, their descriptions, and whether arguments make an action.

use openhands_protocol::tool::ToolSpec;
use serde_json::Value;

/// Arguments that are no action; the text goes to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

/// The tools of a conversation, in the order in which the model sees them.
pub trait Toolset {
    /// All names, in order.
    fn names(&self) -> Vec<&str>;

    /// A tool's description; `None` when there is no such tool.
    fn spec(&self, name: &str) -> Option<&ToolSpec>;

    /// Checks arguments (an object without the agent's own parameters) and makes the tagged action body.
    ///
    /// # Errors
    /// [`Refusal`] with a text that helps the model to correct itself.
    fn action(&self, name: &str, arguments: Value) -> Result<Value, Refusal>;
}
