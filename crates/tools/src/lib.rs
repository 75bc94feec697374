//! The Tool trait, the registry and the built-in tools.
//!
//! What the model is told about a tool sits in one file (`<tool>/spec.rs`), what the tool does in another. Knows nothing of
//! models, conversations or the HTTP server.

mod apply_patch;
mod arguments;
mod file;
mod file_editor;
mod finish;
mod observation;
mod registry;
mod switch_llm;
mod task_tracker;
mod terminal;
mod think;
pub mod tool;

pub use apply_patch::ApplyPatchTool;
pub use file_editor::FileEditorTool;
pub use finish::FinishTool;
pub use registry::{BuildError, Factory, Registry, ToolSetup, UnknownTool, keep_matching};
pub use switch_llm::{ModelSwitch, SwitchLlmTool, SwitchRefused};
pub use task_tracker::TaskTrackerTool;
pub use terminal::{TerminalSettings, TerminalTool};
pub use think::ThinkTool;
pub use tool::{InvalidArguments, NoSecrets, Observation, SecretLookup, Tool, ToolContext, ToolError};
