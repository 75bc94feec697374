//! The Tool trait, the registry and the built-in tools.
//!
//! What the model is told about a tool sits in one file (`<tool>/spec.rs`), what the tool does in another. Knows nothing of
//! models, conversations or the HTTP server.

pub mod tool;

pub use tool::{InvalidArguments, Observation, Tool, ToolContext, ToolError};
