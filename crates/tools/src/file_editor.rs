//! The tool by which an agent reads and changes files.

mod change;
mod directory;
mod history;
mod numbered;
mod spec;
#[cfg(test)]
mod tests;
mod view;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use openhands_protocol::{Content, tool::ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    InvalidArguments, Observation, Tool, ToolContext, ToolError, arguments,
    file::{LARGEST_CONTENT, Refusal},
    observation,
};
use history::History;

/// Views, creates and edits files (F1-TOOL-19, F1-TOOL-20).
pub struct FileEditorTool {
    spec: ToolSpec,
    /// One change at a time: reading, changing and writing a file belong together.
    history: Arc<Mutex<History>>,
}

/// The parameters of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEditorAction {
    command: Command,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file_text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old_str: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    new_str: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    insert_line: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    view_range: Option<Vec<i64>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    #[default]
    View,
    Create,
    StrReplace,
    Insert,
    UndoEdit,
}

/// What was done.
#[derive(Debug, Default)]
struct Reply {
    content: Vec<Content>,
    existed: bool,
    old: Option<String>,
    new: Option<String>,
}

impl FileEditorTool {
    /// An editor whose description names the working directory, and images if the model sees them.
    #[must_use]
    pub fn new(working_dir: &Path, vision: bool) -> Self {
        Self { spec: spec::spec(working_dir, vision), history: Arc::default() }
    }
}

fn perform(action: &FileEditorAction, working_dir: &Path, history: &mut History) -> Result<Reply, Refusal> {
    let path = Path::new(&action.path);
    check_path(action.command, path, working_dir)?;
    let missing = |name: &str| Refusal(format!("`{name}` is missing; `{}` needs it", command_name(action.command)));
    match action.command {
        Command::View => view::view(path, action.view_range.as_deref()),
        Command::Create => change::create(path, action.file_text.as_deref().ok_or_else(|| missing("file_text"))?),
        Command::StrReplace => {
            let old = action.old_str.as_deref().ok_or_else(|| missing("old_str"))?;
            change::replace(path, old, action.new_str.as_deref().unwrap_or_default(), history)
        }
        Command::Insert => {
            let line = action.insert_line.ok_or_else(|| missing("insert_line"))?;
            change::insert(path, line, action.new_str.as_deref().ok_or_else(|| missing("new_str"))?, history)
        }
        Command::UndoEdit => change::undo(path, history),
    }
}

fn check_path(command: Command, path: &Path, working_dir: &Path) -> Result<(), Refusal> {
    let shown = path.display();
    if !path.is_absolute() {
        let meant = working_dir.join(path);
        let hint = if meant.exists() { format!("; did you mean {}?", meant.display()) } else { String::new() };
        return Err(Refusal(format!("`path` {shown} is not absolute (it must begin with /){hint}")));
    }
    // A dangling link exists for `create`, which must not write through it.
    let there = if command == Command::Create { path.symlink_metadata().is_ok() } else { path.exists() };
    match command {
        Command::Create if path.is_dir() => {
            Err(Refusal(format!("{shown} is a directory; `path` must name the file to create")))
        }
        Command::Create if there => Err(Refusal(format!(
            "{shown} exists already and `create` never overwrites; change it with `str_replace` or `insert`"
        ))),
        Command::Create => Ok(()),
        _ if !there => Err(Refusal(format!("{shown} does not exist{}", directory::nearest(path)))),
        Command::View => Ok(()),
        _ if path.is_dir() => Err(Refusal(format!("{shown} is a directory; only `view` works on directories"))),
        _ => Ok(()),
    }
}

fn command_name(command: Command) -> &'static str {
    match command {
        Command::View => "view",
        Command::Create => "create",
        Command::StrReplace => "str_replace",
        Command::Insert => "insert",
        Command::UndoEdit => "undo_edit",
    }
}

#[async_trait]
impl Tool for FileEditorTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn action(&self, arguments: Value) -> Result<Value, InvalidArguments> {
        let action: FileEditorAction = arguments::read(&self.spec, arguments)?;
        arguments::tagged(&self.spec.action_kind, &action)
    }

    async fn run(&self, action: &Value, context: &ToolContext) -> Result<Observation, ToolError> {
        let action: FileEditorAction = arguments::stored(action)?;
        let history = Arc::clone(&self.history);
        let working_dir: PathBuf = context.working_dir.clone();
        let kind = self.spec.observation_kind.clone();
        // Files can be slow (network volumes); the runtime's threads must not wait for them.
        let work = move || {
            let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
            let result = perform(&action, &working_dir, &mut history);
            match result {
                Ok(reply) => observation::with(
                    &kind,
                    &reply.content,
                    false,
                    json!({
                        "command": action.command,
                        "path": action.path,
                        "prev_exist": reply.existed,
                        "old_content": reply.old.filter(|content| content.len() <= LARGEST_CONTENT),
                        "new_content": reply.new.filter(|content| content.len() <= LARGEST_CONTENT),
                    }),
                ),
                Err(Refusal(text)) => observation::text(
                    &kind,
                    text,
                    true,
                    json!({
                        "command": action.command,
                        "path": action.path,
                        "prev_exist": Path::new(&action.path).exists(),
                    }),
                ),
            }
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| ToolError(format!("the editor failed: {error}")))
    }
}
