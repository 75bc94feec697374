//! The tool by which an agent says that it is done.

mod spec;

use async_trait::async_trait;
use openhands_protocol::tool::ToolSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{InvalidArguments, Observation, Tool, ToolContext, ToolError, arguments, observation};

/// Ends the run with a message for the user (F1-TOOL-12).
pub struct FinishTool {
    spec: ToolSpec,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FinishAction {
    message: String,
}

impl FinishTool {
    /// The tool.
    #[must_use]
    pub fn new() -> Self {
        Self { spec: spec::spec() }
    }
}

impl Default for FinishTool {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for FinishTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn action(&self, arguments: Value) -> Result<Value, InvalidArguments> {
        let action: FinishAction = arguments::read(&self.spec, arguments)?;
        arguments::tagged(&self.spec.action_kind, &action)
    }

    async fn run(&self, action: &Value, _context: &ToolContext) -> Result<Observation, ToolError> {
        let action: FinishAction = arguments::stored(action)?;
        let said = observation::text(&self.spec.observation_kind, action.message, false, json!({}));
        Ok(Observation { finishes: true, ..said })
    }
}
