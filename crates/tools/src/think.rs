//! The tool by which an agent writes down a thought.

mod spec;

use async_trait::async_trait;
use openhands_protocol::tool::ToolSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{InvalidArguments, Observation, Tool, ToolContext, ToolError, arguments, observation};

/// Has no effect but to put a thought on record (F1-TOOL-13).
pub struct ThinkTool {
    spec: ToolSpec,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThinkAction {
    thought: String,
}

impl ThinkTool {
    /// The tool.
    #[must_use]
    pub fn new() -> Self {
        Self { spec: spec::spec() }
    }
}

impl Default for ThinkTool {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for ThinkTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn action(&self, arguments: Value) -> Result<Value, InvalidArguments> {
        let action: ThinkAction = arguments::read(&self.spec, arguments)?;
        arguments::tagged(&self.spec.action_kind, &action)
    }

    async fn run(&self, action: &Value, _context: &ToolContext) -> Result<Observation, ToolError> {
        let _: ThinkAction = arguments::stored(action)?;
        Ok(observation::text(&self.spec.observation_kind, "Noted.", false, json!({})))
    }
}
