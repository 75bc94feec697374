//! What the model is told about `finish`.

use openhands_protocol::tool::{ToolAnnotations, ToolSpec};
use serde_json::json;

const DESCRIPTION: &str = "\
Ends your work on the current request and hands the floor back to the user.

Call it when everything that was asked for is done and checked, or when you cannot get any further: something is missing \
that only the user can give, or the limits of this environment stand in the way.

Put into `message` what the user should read: what you did and what came of it, how you checked it, what is left to do, \
and any question that is still open. If something did not work, say so plainly.";

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "finish".to_owned(),
        kind: "FinishTool".to_owned(),
        action_kind: "FinishAction".to_owned(),
        observation_kind: "FinishObservation".to_owned(),
        description: DESCRIPTION.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "message": {"type": "string", "description": "The closing message for the user."},
            },
            "required": ["message"],
        }),
        annotations: Some(ToolAnnotations {
            title: Some("finish".to_owned()),
            read_only_hint: true,
            destructive_hint: false,
            idempotent_hint: true,
            open_world_hint: false,
        }),
    }
}
