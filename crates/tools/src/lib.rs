//! The Tool trait, the registry and the built-in tools.
//!
//! What the model is told about a tool sits in one file (`<tool>/spec.rs`), what the tool does in another. Knows nothing of
//! models, conversations or the HTTP server.

mod arguments;
mod file_editor;
mod finish;
mod observation;
mod registry;
mod task_tracker;
mod terminal;
mod think;
pub mod tool;

pub use file_editor::FileEditorTool;
pub use finish::FinishTool;
pub use registry::{BuildError, Factory, Registry, ToolSetup, UnknownTool, keep_matching};
pub use task_tracker::TaskTrackerTool;
pub use terminal::{TerminalSettings, TerminalTool};
pub use think::ThinkTool;
pub use tool::{InvalidArguments, NoSecrets, Observation, SecretLookup, Tool, ToolContext, ToolError};
