//! The handlers, one file a resource.

pub mod absent;
pub mod bash;
pub mod connections;
pub mod conversations;
pub mod details;
pub mod events;
pub mod file;
pub mod gateway;
pub mod git;
pub mod models;
pub mod profiles;
pub mod runtime;
pub mod settings;
pub mod subscription;
pub mod unsupported;
