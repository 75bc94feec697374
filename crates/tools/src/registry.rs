//! Which tools there are, and making the ones an agent asks for.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use openhands_protocol::agent::ToolRef;
use regex::Regex;
use serde_json::{Map, Value};

use crate::{
    ApplyPatchTool, FileEditorTool, FinishTool, SwitchLlmTool, TaskTrackerTool, TerminalSettings, TerminalTool,
    ThinkTool, Tool,
};

/// What a conversation gives to its tools when they are made.
#[derive(Clone, Debug, Default)]
pub struct ToolSetup {
    /// The conversation's working directory.
    pub working_dir: PathBuf,
    /// The conversation's own directory, for what tools keep over restarts. `None`: kept in memory only.
    pub persistence_dir: Option<PathBuf>,
    /// Whether the model sees images; only changes what it is told.
    pub vision: bool,
    /// Names of the saved profiles that the conversation may change to.
    pub profiles: Vec<String>,
}

/// Makes the tools of one name from its parameters. The text of an error says which parameter is wrong.
pub type Factory = Arc<dyn Fn(&Map<String, Value>, &ToolSetup) -> Result<Vec<Arc<dyn Tool>>, String> + Send + Sync>;

/// A name that no tool has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no tool is called '{name}'; available: {}", available.join(", "))]
pub struct UnknownTool {
    /// The name.
    pub name: String,
    /// The names there are.
    pub available: Vec<String>,
}

/// Why an agent's tools cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A name that no tool has.
    #[error(transparent)]
    Unknown(#[from] UnknownTool),
    /// Wrong parameters.
    #[error("the parameters of the tool '{name}' are wrong: {problem}")]
    Parameters {
        /// The tool.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// Two tools of one name.
    #[error("the tool '{0}' is there twice")]
    Duplicate(String),
    /// A filter that is no regular expression.
    #[error("filter_tools_regex is no regular expression: {0}")]
    Filter(String),
}

/// Other names of tools: class names, and names of earlier versions.
const ALIASES: &[(&str, &str)] = &[
    ("TerminalTool", "terminal"),
    ("BashTool", "terminal"),
    ("execute_bash", "terminal"),
    ("FileEditorTool", "file_editor"),
    ("ApplyPatchTool", "apply_patch"),
    ("TaskTrackerTool", "task_tracker"),
    ("FinishTool", "finish"),
    ("ThinkTool", "think"),
    ("SwitchLLMTool", "switch_llm"),
];

/// The tools that can be made, by name.
#[derive(Clone, Default)]
pub struct Registry {
    factories: BTreeMap<String, Factory>,
}

impl Registry {
    /// The built-in tools: `terminal`, `file_editor`, `apply_patch`, `task_tracker`, `finish`, `think`,
    /// `switch_llm`.
    #[must_use]
    pub fn stock() -> Self {
        let mut registry = Self::default();
        registry.register("terminal", |params, setup| {
            let settings = TerminalSettings::read(params)?;
            Ok(vec![Arc::new(TerminalTool::new(settings, setup.working_dir.clone()))])
        });
        registry.register("file_editor", |params, setup| {
            none(params)?;
            Ok(vec![Arc::new(FileEditorTool::new(&setup.working_dir, setup.vision))])
        });
        registry.register("apply_patch", |params, _| {
            none(params)?;
            Ok(vec![Arc::new(ApplyPatchTool::new())])
        });
        registry.register("task_tracker", |params, setup| {
            none(params)?;
            Ok(vec![Arc::new(TaskTrackerTool::new(setup.persistence_dir.clone()))])
        });
        registry.register("finish", |params, _| {
            none(params)?;
            Ok(vec![Arc::new(FinishTool::new())])
        });
        registry.register("switch_llm", |params, setup| {
            none(params)?;
            Ok(vec![Arc::new(SwitchLlmTool::new(&setup.profiles))])
        });
        registry.register("think", |params, _| {
            none(params)?;
            Ok(vec![Arc::new(ThinkTool::new())])
        });
        registry
    }

    /// Adds or replaces what a name makes.
    pub fn register(
        &mut self,
        name: &str,
        factory: impl Fn(&Map<String, Value>, &ToolSetup) -> Result<Vec<Arc<dyn Tool>>, String> + Send + Sync + 'static,
    ) {
        self.factories.insert(name.to_owned(), Arc::new(factory));
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.factories.keys().map(String::as_str)
    }

    /// Makes the tools an agent names, then the defaults (class names such as `FinishTool`) it does not have yet.
    ///
    /// # Errors
    /// [`BuildError`] for unknown names, wrong parameters and double names.
    pub fn build(
        &self,
        tools: &[ToolRef],
        include_default_tools: &[String],
        setup: &ToolSetup,
    ) -> Result<Vec<Arc<dyn Tool>>, BuildError> {
        let mut made: Vec<Arc<dyn Tool>> = Vec::new();
        for tool in tools {
            for tool in self.make(&tool.name, &tool.params, setup)? {
                let name = &tool.spec().name;
                if made.iter().any(|other| &other.spec().name == name) {
                    return Err(BuildError::Duplicate(name.clone()));
                }
                made.push(tool);
            }
        }
        for name in include_default_tools {
            for tool in self.make(name, &Map::new(), setup)? {
                if made.iter().all(|other| other.spec().name != tool.spec().name) {
                    made.push(tool);
                }
            }
        }
        Ok(made)
    }

    fn make(
        &self,
        name: &str,
        params: &Map<String, Value>,
        setup: &ToolSetup,
    ) -> Result<Vec<Arc<dyn Tool>>, BuildError> {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, real)| *real);
        let factory = self.factories.get(name).or_else(|| self.factories.get(alias?)).ok_or_else(|| UnknownTool {
            name: name.to_owned(),
            available: self.names().map(str::to_owned).collect(),
        })?;
        factory(params, setup).map_err(|problem| BuildError::Parameters { name: name.to_owned(), problem })
    }
}

/// Keeps the tools whose name matches `filter` from its beginning; all without a filter.
///
/// # Errors
/// [`BuildError::Filter`] when it is no regular expression.
pub fn keep_matching(tools: Vec<Arc<dyn Tool>>, filter: Option<&str>) -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    let Some(filter) = filter else { return Ok(tools) };
    let filter = Regex::new(&format!("^(?:{filter})")).map_err(|error| BuildError::Filter(error.to_string()))?;
    Ok(tools.into_iter().filter(|tool| filter.is_match(&tool.spec().name)).collect())
}

fn none(params: &Map<String, Value>) -> Result<(), String> {
    match params.keys().next() {
        None => Ok(()),
        Some(name) => Err(format!("it takes none, but {name} was given")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools(names: &[&str]) -> Vec<ToolRef> {
        names.iter().map(|name| ToolRef { name: (*name).to_owned(), params: Map::new() }).collect()
    }

    fn defaults() -> Vec<String> {
        vec!["FinishTool".to_owned(), "ThinkTool".to_owned()]
    }

    fn names(tools: &[Arc<dyn Tool>]) -> Vec<&str> {
        tools.iter().map(|tool| tool.spec().name.as_str()).collect()
    }

    #[test]
    fn makes_what_is_named_and_the_defaults() {
        let setup = ToolSetup::default();
        let made =
            Registry::stock().build(&tools(&["terminal", "file_editor", "task_tracker"]), &defaults(), &setup).unwrap();
        assert_eq!(names(&made), ["terminal", "file_editor", "task_tracker", "finish", "think"]);
        let made = Registry::stock().build(&tools(&["BashTool", "finish"]), &defaults(), &setup).unwrap();
        assert_eq!(names(&made), ["terminal", "finish", "think"]);
        let kept = keep_matching(made, Some("t(e|h)")).unwrap();
        assert_eq!(names(&kept), ["terminal", "think"]);
    }

    #[test]
    fn says_what_is_wrong() {
        let wrong = |tools: &[ToolRef]| match Registry::stock().build(tools, &defaults(), &ToolSetup::default()) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(
            wrong(&tools(&["no_such"])),
            "no tool is called 'no_such'; available: apply_patch, file_editor, finish, switch_llm, task_tracker, terminal, think"
        );
        assert_eq!(wrong(&tools(&["terminal", "TerminalTool"])), "the tool 'terminal' is there twice");
        let params = json!({"no_change_timeout_seconds": -1}).as_object().cloned().unwrap();
        let wrong = wrong(&[ToolRef { name: "terminal".to_owned(), params }]);
        assert!(wrong.contains("no_change_timeout_seconds"), "{wrong}");
    }
}
