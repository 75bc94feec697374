//! What the model is told about `think`.

use openhands_protocol::tool::{ToolAnnotations, ToolSpec};
use serde_json::json;

const DESCRIPTION: &str = "\
Writes a thought down. Nothing is looked up and nothing changes; the thought becomes part of the record of this work.

Worth a call before a decision that is hard to take back: weighing several fixes for a bug once its cause is known, making \
sense of failing tests, laying out the order of a larger change, or comparing designs before the first line is written.";

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "think".to_owned(),
        kind: "ThinkTool".to_owned(),
        action_kind: "ThinkAction".to_owned(),
        observation_kind: "ThinkObservation".to_owned(),
        description: DESCRIPTION.to_owned(),
        parameters: json!({
            "type": "object",
            "description": "A thought to put on record.",
            "properties": {
                "thought": {"type": "string", "description": "What you think."},
            },
            "required": ["thought"],
        }),
        annotations: Some(ToolAnnotations {
            title: None,
            read_only_hint: true,
            destructive_hint: false,
            idempotent_hint: true,
            open_world_hint: false,
        }),
    }
}
