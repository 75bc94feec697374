//! The rim towards the API server: bounded calls, and what their failures mean.

mod call;
mod client;
mod count;

pub use call::{CallError, Kube};
pub use client::{ClientOptions, build};
