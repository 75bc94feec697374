//! The tool by which GPT-5 models change files: patches in the format they were trained on.

mod locate;
mod parse;
mod plan;
mod spec;
#[cfg(test)]
mod tests;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use openhands_protocol::tool::ToolSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{InvalidArguments, Observation, Tool, ToolContext, ToolError, arguments, file::Refusal, observation};
use plan::Plan;

/// A longer patch is refused, bytes.
const LARGEST_PATCH: usize = 4 * 1024 * 1024;

/// Adds, changes, moves and deletes files of the workspace by a patch (F2-GPT5-05r..07r).
pub struct ApplyPatchTool {
    spec: ToolSpec,
    /// One patch at a time: looking and writing belong together.
    turn: Arc<Mutex<()>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplyPatchAction {
    patch: String,
}

impl Default for ApplyPatchTool {
    fn default() -> Self {
        Self::new()
    }
}

impl ApplyPatchTool {
    /// Patches are relative to the conversation's working directory.
    #[must_use]
    pub fn new() -> Self {
        Self { spec: spec::spec(), turn: Arc::default() }
    }
}

fn perform(patch: &str, workspace: &Path) -> Result<Plan, Refusal> {
    let plan = Plan::new(&parse::parse(patch)?, workspace)?;
    plan.carry_out()?;
    Ok(plan)
}

#[async_trait]
impl Tool for ApplyPatchTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn action(&self, arguments: Value) -> Result<Value, InvalidArguments> {
        let action: ApplyPatchAction = arguments::read(&self.spec, arguments)?;
        if action.patch.len() > LARGEST_PATCH {
            return Err(InvalidArguments(format!(
                "apply_patch: patch has more than {} MiB; make several patches",
                LARGEST_PATCH >> 20
            )));
        }
        arguments::tagged(&self.spec.action_kind, &action)
    }

    async fn run(&self, action: &Value, context: &ToolContext) -> Result<Observation, ToolError> {
        let action: ApplyPatchAction = arguments::stored(action)?;
        let (turn, workspace, kind) =
            (Arc::clone(&self.turn), context.working_dir.clone(), self.spec.observation_kind.clone());
        // Files can be slow (network volumes); the runtime's threads must not wait for them.
        let work = move || {
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            match perform(&action.patch, &workspace) {
                Ok(plan) => {
                    let told = plan.told();
                    let members = json!({ "message": told, "fuzz": plan.fuzz, "commit": plan.commit() });
                    observation::text(&kind, told, false, members)
                }
                Err(Refusal(text)) => observation::text(&kind, &text, true, json!({ "message": text, "fuzz": 0 })),
            }
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| ToolError(format!("the patch failed: {error}")))
    }
}
