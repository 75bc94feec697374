//! What the model is told about `file_editor`.

use std::path::Path;

use openhands_protocol::tool::{ToolAnnotations, ToolSpec};
use serde_json::json;

fn description(working_dir: &Path, vision: bool) -> String {
    let images = if vision { " Images (png, jpg, gif, webp, bmp) are shown as images." } else { "" };
    format!(
        "\
Views, creates and edits text files. `path` is always absolute; the working directory is {}.

- `view` shows a file with line numbers, or the part of it given by `view_range`. A directory is shown two levels deep without \
hidden entries.{images}
- `create` writes a new file with `file_text` and makes the directories above it. It never overwrites.
- `str_replace` replaces `old_str` by `new_str`. `old_str` must be in the file exactly once, character for character: \
take it from a view without the line numbers, white space included, and add neighbouring lines until it is unique. Without `new_str` \
the text is removed.
- `insert` puts `new_str` as new lines behind line `insert_line`; 0 is the top of the file.
- `undo_edit` takes back the last `str_replace` or `insert` on the file, and the ones before when called again.

Encoding, line ends and permissions of a file stay as they are. Long answers lose their middle, which is marked. Look at a \
file before you change it, and make several changes to one file in one go, each with its own call.",
        working_dir.display()
    )
}

pub(super) fn spec(working_dir: &Path, vision: bool) -> ToolSpec {
    ToolSpec {
        name: "file_editor".to_owned(),
        kind: "FileEditorTool".to_owned(),
        action_kind: "FileEditorAction".to_owned(),
        observation_kind: "FileEditorObservation".to_owned(),
        description: description(working_dir, vision),
        parameters: json!({
            "type": "object",
            "description": "One operation on one file or directory.",
            "properties": {
                "command": {
                    "type": "string",
                    "enum": ["view", "create", "str_replace", "insert", "undo_edit"],
                    "description": "What to do.",
                },
                "path": {"type": "string", "description": "The file or directory; absolute."},
                "file_text": {"type": "string", "description": "The whole content of the new file; for `create`."},
                "old_str": {"type": "string", "description": "The text to replace; for `str_replace`."},
                "new_str": {
                    "type": "string",
                    "description": "The text that takes its place (`str_replace`), or the lines to add (`insert`).",
                },
                "insert_line": {
                    "type": "integer",
                    "description": "The number of the line behind which to insert, 0 or more; for `insert`.",
                },
                "view_range": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "description": "First and last line to view, counted from 1; a last line of -1 means the end of the file.",
                },
            },
            "required": ["command", "path"],
        }),
        annotations: Some(ToolAnnotations {
            title: Some("file_editor".to_owned()),
            read_only_hint: false,
            destructive_hint: true,
            idempotent_hint: false,
            open_world_hint: false,
        }),
    }
}
