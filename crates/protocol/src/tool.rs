//! A tool as the model and the client see it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Hints about what a tool does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolAnnotations {
    /// A title for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Changes nothing. Such tools are not asked for a `security_risk`.
    pub read_only_hint: bool,
    /// May destroy something.
    pub destructive_hint: bool,
    /// A second call changes nothing more.
    pub idempotent_hint: bool,
    /// Reaches beyond the sandbox.
    pub open_world_hint: bool,
}

impl Default for ToolAnnotations {
    fn default() -> Self {
        Self {
            title: None,
            read_only_hint: false,
            destructive_hint: true,
            idempotent_hint: false,
            open_world_hint: true,
        }
    }
}

/// What the model is told about a tool, and what a `SystemPromptEvent` says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name in tool calls.
    pub name: String,
    /// The class name on the wire (`TerminalTool`).
    pub kind: String,
    /// The action's class name (`TerminalAction`).
    pub action_kind: String,
    /// The observation's class name (`TerminalObservation`).
    pub observation_kind: String,
    /// The text for the model.
    pub description: String,
    /// JSON schema (object) of the arguments, without `security_risk` and `summary`, which the agent adds.
    pub parameters: Value,
    /// Hints.
    pub annotations: Option<ToolAnnotations>,
}

impl ToolSpec {
    /// Whether the tool is annotated as changing nothing.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.annotations.as_ref().is_some_and(|hints| hints.read_only_hint)
    }

    /// The tool's entry in a `SystemPromptEvent`.
    #[must_use]
    pub fn definition(&self) -> Value {
        let mut json = serde_json::json!({
            "description": self.description,
            "action_type": self.action_kind,
            "observation_type": self.observation_kind,
        });
        if let Some(members) = json.as_object_mut() {
            if let Some(hints) = &self.annotations {
                members.insert("annotations".to_owned(), serde_json::to_value(hints).unwrap_or_default());
            }
            members.insert("kind".to_owned(), self.kind.clone().into());
            members.insert("title".to_owned(), self.name.clone().into());
        }
        json
    }
}
