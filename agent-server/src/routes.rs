//! The handlers, one file a resource.

pub mod bash;
pub mod conversations;
pub mod details;
pub mod events;
pub mod file;
pub mod gateway;
pub mod git;
pub mod settings;
pub mod unsupported;
