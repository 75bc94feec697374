//! What the model is told about `apply_patch`.

use openhands_protocol::tool::{ToolAnnotations, ToolSpec};
use serde_json::json;

const DESCRIPTION: &str = "\
Changes files by a patch. All sections are checked first: if one does not fit, nothing is changed.

*** Begin Patch
*** Update File: path/to/file
*** Move to: path/to/new/name      (only to rename it)
@@ a line above the change, such as a function's head
 a line that stays
-a line that goes
+a line that comes
*** Add File: path/to/another
+every line of the new file
*** Delete File: path/to/a/third
*** End Patch

Paths are relative to the working directory. Give about three lines that stay around each change; when they occur more than \
once, say with `@@` lines where to look. A hunk at the end of a file may be closed with `*** End of File`.";

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "apply_patch".to_owned(),
        kind: "ApplyPatchTool".to_owned(),
        action_kind: "ApplyPatchAction".to_owned(),
        observation_kind: "ApplyPatchObservation".to_owned(),
        description: DESCRIPTION.to_owned(),
        parameters: json!({
            "type": "object",
            "description": "One patch.",
            "properties": {
                "patch": {
                    "type": "string",
                    "description": "The patch, from `*** Begin Patch` to `*** End Patch`.",
                },
            },
            "required": ["patch"],
        }),
        annotations: Some(ToolAnnotations {
            title: Some("apply_patch".to_owned()),
            read_only_hint: false,
            destructive_hint: true,
            idempotent_hint: false,
            open_world_hint: false,
        }),
    }
}
