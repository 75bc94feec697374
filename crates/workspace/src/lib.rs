//! Files, git, processes and terminals of the pod. It knows neither HTTP nor conversations.

pub mod bash;
pub mod environment;
pub mod process;

pub mod terminal;
