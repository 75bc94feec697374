//! The tool by which an agent keeps a list of its tasks.

mod spec;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use openhands_protocol::tool::ToolSpec;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::{InvalidArguments, Observation, Tool, ToolContext, ToolError, arguments, observation};

/// The file with the list, in the conversation's directory.
const FILE: &str = "TASKS.json";
/// A longer list helps nobody.
const LONGEST_LIST: usize = 500;

/// A task list that survives restarts (F1-TOOL-21).
pub struct TaskTrackerTool {
    spec: ToolSpec,
    directory: Option<PathBuf>,
    list: Mutex<Option<Vec<Task>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Task {
    title: String,
    #[serde(default)]
    notes: String,
    #[serde(default, deserialize_with = "status")]
    status: Status,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    #[default]
    Todo,
    InProgress,
    Done,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskTrackerAction {
    #[serde(default)]
    command: Command,
    #[serde(default)]
    task_list: Vec<Task>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    #[default]
    View,
    Plan,
}

/// Reads a status, also by the names that models know from elsewhere.
fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Status, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.trim().to_ascii_lowercase().replace(['-', ' '], "_").as_str() {
        "todo" | "to_do" | "pending" => Ok(Status::Todo),
        "in_progress" => Ok(Status::InProgress),
        "done" | "complete" | "completed" => Ok(Status::Done),
        _ => Err(serde::de::Error::custom(format!("status '{text}' is none of todo, in_progress, done"))),
    }
}

impl TaskTrackerTool {
    /// A tracker that keeps its list in `directory`, or in memory only.
    #[must_use]
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self { spec: spec::spec(), directory, list: Mutex::new(None) }
    }

    fn perform(&self, action: TaskTrackerAction, directory: Option<&Path>) -> (String, Vec<Task>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let tasks = list.get_or_insert_with(|| directory.map(load).unwrap_or_default());
        match action.command {
            Command::View if tasks.is_empty() => {
                ("There are no tasks yet. `plan` makes a list.".to_owned(), Vec::new())
            }
            Command::View => (render(tasks), tasks.clone()),
            Command::Plan => {
                *tasks = action.task_list;
                let mut text = format!("The list now has {}.", counted(tasks.len()));
                if let Some(Err(error)) = directory.map(|directory| save(directory, tasks)) {
                    tracing::warn!(%error, "saving the task list failed");
                    text.push_str(" It could not be saved and will be lost when the server restarts.");
                }
                (text, tasks.clone())
            }
        }
    }
}

#[async_trait]
impl Tool for TaskTrackerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn action(&self, arguments: Value) -> Result<Value, InvalidArguments> {
        let action: TaskTrackerAction = arguments::read(&self.spec, arguments)?;
        if action.task_list.len() > LONGEST_LIST {
            return Err(InvalidArguments(format!("task_tracker: task_list has more than {LONGEST_LIST} tasks")));
        }
        arguments::tagged(&self.spec.action_kind, &action)
    }

    async fn run(&self, action: &Value, context: &ToolContext) -> Result<Observation, ToolError> {
        let action: TaskTrackerAction = arguments::stored(action)?;
        let command = action.command;
        // The directory of full outputs lies in the conversation's own.
        let directory = self.directory.as_deref().or_else(|| context.observations_dir.as_deref()?.parent());
        let (text, tasks) = self.perform(action, directory);
        let members = json!({"command": command, "task_list": tasks});
        Ok(observation::text(&self.spec.observation_kind, text, false, members))
    }
}

fn counted(tasks: usize) -> String {
    if tasks == 1 { "1 task".to_owned() } else { format!("{tasks} tasks") }
}

fn render(tasks: &[Task]) -> String {
    let lines: Vec<String> = tasks
        .iter()
        .enumerate()
        .map(|(at, task)| {
            let mark = match task.status {
                Status::Todo => "[ ]",
                Status::InProgress => "[>]",
                Status::Done => "[x]",
            };
            let notes = task.notes.trim();
            let notes =
                if notes.is_empty() { String::new() } else { format!("\n       {}", notes.replace('\n', "\n       ")) };
            format!("{:2}. {mark} {}{notes}", at + 1, task.title)
        })
        .collect();
    format!("Tasks ([ ] to do, [>] in progress, [x] done):\n{}", lines.join("\n"))
}

fn load(directory: &Path) -> Vec<Task> {
    let path = directory.join(FILE);
    let Ok(bytes) = std::fs::read(&path) else { return Vec::new() };
    serde_json::from_slice(&bytes).unwrap_or_else(|error| {
        tracing::warn!(path = %path.display(), %error, "the task list cannot be read, starting with an empty one");
        Vec::new()
    })
}

fn save(directory: &Path, tasks: &[Task]) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(&serde_json::to_vec_pretty(tasks)?)?;
    file.persist(directory.join(FILE)).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::*;

    fn context() -> ToolContext {
        ToolContext {
            working_dir: PathBuf::from("/"),
            observations_dir: None,
            environment: std::collections::BTreeMap::default(),
            cancel: CancellationToken::new(),
            secrets: Arc::new(crate::NoSecrets),
            models: None,
        }
    }

    async fn call(tool: &TaskTrackerTool, arguments: Value) -> Value {
        let action = tool.action(arguments).unwrap();
        tool.run(&action, &context()).await.unwrap().body
    }

    #[tokio::test]
    async fn a_plan_is_kept_over_restarts() {
        let directory = tempfile::tempdir().unwrap();
        let tool = TaskTrackerTool::new(Some(directory.path().to_owned()));
        let plan = json!({"command": "plan", "task_list": [
            {"title": "Read", "status": "completed"}, {"title": "Write", "notes": "two\nlines", "status": "In Progress"}, {"title": "Test"}]});
        let planned = json!([
            {"title": "Read", "notes": "", "status": "done"}, {"title": "Write", "notes": "two\nlines", "status": "in_progress"},
            {"title": "Test", "notes": "", "status": "todo"}]);
        let body = call(&tool, plan).await;
        assert_eq!(
            body,
            json!({
            "content": [{"type": "text", "cache_prompt": false, "text": "The list now has 3 tasks."}], "is_error": false,
            "command": "plan", "task_list": planned, "kind": "TaskTrackerObservation"})
        );
        let again = TaskTrackerTool::new(Some(directory.path().to_owned()));
        let body = call(&again, json!({})).await;
        assert_eq!(body["task_list"], planned);
        assert_eq!(
            body["content"][0]["text"],
            "Tasks ([ ] to do, [>] in progress, [x] done):\n 1. [x] Read\n 2. [>] Write\n       two\n       lines\n 3. [ ] Test"
        );
    }

    #[tokio::test]
    async fn damage_and_nonsense_are_no_disaster() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), "{").unwrap();
        let tool = TaskTrackerTool::new(Some(directory.path().to_owned()));
        assert_eq!(call(&tool, json!({})).await["task_list"], json!([]));
        let wrong =
            tool.action(json!({"command": "plan", "task_list": [{"title": "x", "status": "maybe"}]})).unwrap_err();
        assert!(wrong.0.contains("status 'maybe' is none of todo, in_progress, done"), "{wrong}");
    }
}
