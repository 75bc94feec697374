//! What the model is told about `task_tracker`.

use openhands_protocol::tool::{ToolAnnotations, ToolSpec};
use serde_json::json;

const DESCRIPTION: &str = "\
Keeps the list of tasks for the current work, so that you and the user can see what is done and what is left.

Use it when the work has several steps: a feature that touches many places, a list of separate requests, a refactoring, \
anything where a step is easily forgotten. Leave it alone for a question or a change of a few lines.

`plan` replaces the whole list, so always give all tasks: the unchanged ones, the changed ones, the new ones. `view` shows the \
list as it is. A task is `todo`, `in_progress` or `done`.

How to work with it:
- Write the list before the first change. Make each task a result that can be checked.
- Have one task in progress at a time; mark it before you start and again as soon as it is finished.
- A task is done when it works: not while tests fail, parts are missing or an error is unexplained. What turns up on the way \
becomes a task of its own.
- Take tasks off the list when they are no longer wanted.";

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "task_tracker".to_owned(),
        kind: "TaskTrackerTool".to_owned(),
        action_kind: "TaskTrackerAction".to_owned(),
        observation_kind: "TaskTrackerObservation".to_owned(),
        description: DESCRIPTION.to_owned(),
        parameters: json!({
            "type": "object",
            "description": "Shows or replaces the list of tasks.",
            "properties": {
                "command": {
                    "type": "string",
                    "enum": ["view", "plan"],
                    "description": "`view` (default) shows the list, `plan` replaces it with `task_list`.",
                },
                "task_list": {
                    "type": "array",
                    "description": "All tasks, in order; for `plan`.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "title": {"type": "string", "description": "The task in a few words."},
                            "notes": {"type": "string", "description": "Details, findings, open points."},
                            "status": {
                                "type": "string",
                                "enum": ["todo", "in_progress", "done"],
                                "description": "Where the task stands; `todo` when left out.",
                            },
                        },
                        "required": ["title"],
                    },
                },
            },
        }),
        annotations: Some(ToolAnnotations {
            title: None,
            read_only_hint: false,
            destructive_hint: false,
            idempotent_hint: true,
            open_world_hint: false,
        }),
    }
}
