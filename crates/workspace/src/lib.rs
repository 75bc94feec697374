//! Files, git, processes and terminals of the pod. It knows neither HTTP nor conversations.

pub mod archive;
pub mod bash;
pub mod environment;
pub mod file;
pub mod git;
pub mod marked;
pub mod process;

pub mod terminal;
