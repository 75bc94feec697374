//! What the model is told about `terminal`.

use std::time::Duration;

use openhands_protocol::tool::{ToolAnnotations, ToolSpec};
use serde_json::json;

fn description(quiet: Duration) -> String {
    format!(
        "\
Runs shell commands (bash) in one terminal that stays open: the working directory, variables, functions, virtual \
environments and background jobs are still there at the next call.

Commands
- A call may hold a pipeline, several statements or several lines, here-documents included. All of it is one command with one \
exit code, that of its last statement. Join steps that need each other with `&&`.
- Prefer absolute paths to changing the directory. Do not use `set -e` or `exec`: they end the shell at the first failure.
- There is no one at the keyboard. Choose options that ask nothing (`-y`, `--no-pager`); pagers are switched off.
- Output of more than 30000 characters loses its middle; the note in its place names the file that has everything.

When a command takes long
- Without `timeout`, a command that writes nothing for {} seconds, or that waits for input, is left running and you get \
exit code -1. With `timeout`, you get the result when it ends or when that many seconds have passed, whichever is first; set it for \
builds, installations and tests.
- While a command runs there is no second one. Call again with an empty `command` to see more, with `is_input` to type \
something, or stop it with `C-c`.
- Servers and watchers belong in the background, with their output in a file: `npm start > /tmp/app.log 2>&1 &`.

Talking to a running program
- With `is_input`, `command` is typed into it, followed by the Enter key. Names of keys are pressed instead: `C-c`, `C-d`, `C-z` \
and every other `C-<letter>`, `ENTER`, `TAB`, `ESC`, `BS`, `UP`, `DOWN`, `LEFT`, `RIGHT`, `HOME`, `END`, `PGUP`, `PGDN`.

If the terminal no longer answers, `reset` kills it and opens a new one in the first working directory; everything the old \
one knew or ran is gone.",
        quiet.as_secs_f64()
    )
}

pub(super) fn spec(quiet: Duration) -> ToolSpec {
    ToolSpec {
        name: "terminal".to_owned(),
        kind: "TerminalTool".to_owned(),
        action_kind: "TerminalAction".to_owned(),
        observation_kind: "TerminalObservation".to_owned(),
        description: description(quiet),
        parameters: json!({
            "type": "object",
            "description": "A command for the terminal, or input for what runs in it.",
            "properties": {
                "command": {
                    "type": "string",
                    "description": "The command to run; empty to see more of one that still runs. With `is_input`: the text \
                                    to type or the key to press.",
                },
                "is_input": {
                    "type": "boolean",
                    "description": "`command` is input for the running program and no new command. Default: false.",
                },
                "timeout": {
                    "type": "number",
                    "description": format!(
                        "Seconds to wait for the end at most. Left out: as long as there is new output at least every {} \
                         seconds.", quiet.as_secs_f64()),
                },
                "reset": {
                    "type": "boolean",
                    "description": "Opens a new terminal first and gives up the old one with all that runs in it. Not with \
                                    `is_input`. Default: false.",
                },
            },
            "required": ["command"],
        }),
        annotations: Some(ToolAnnotations {
            title: Some("terminal".to_owned()),
            read_only_hint: false,
            destructive_hint: true,
            idempotent_hint: false,
            open_world_hint: true,
        }),
    }
}
