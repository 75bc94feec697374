//! Keeps one conversation alive: mailbox, driver, pause, subscribers.
//!
//! One task owns a conversation. [`Conversation`] is a cheap clone handle on its bounded mailbox; readers see snapshots and
//! never wait for the task. The agent's decisions come from `openhands-agent`, which knows nothing of files, models or time;
//! this crate does what it decides and writes down what happened. It knows nothing of HTTP, sockets or Kubernetes.

mod acting;
mod calls;
mod client_tool;
mod completions;
mod condensing;
mod core;
mod create;
mod echo;
mod environment;
mod error;
mod failure;
mod fork;
mod handle;
mod hub;
mod info;
mod keys;
mod live;
mod load;
mod mailbox;
mod model;
mod observer;
mod prompt;
mod remove;
mod report;
mod request;
mod run;
mod saver;
mod side;
mod slots;
mod snapshot;
mod storage;
mod support;
mod switch;
mod task;
#[cfg(test)]
mod tests;
mod title;
mod toolset;

pub use create::MARK;
pub use environment::{
    Environment, LeaseSettings, LlmFactory, ProfileProblem, Profiles, SecretFetcher, ToolRequest, Toolbox,
};
pub use error::{
    AskError, CondenseError, CreateError, ForkError, LoadError, RunError, SendError, SwitchError, UnknownUsage,
    UpdateError,
};
pub use fork::Fork;
pub use handle::Conversation;
pub use hub::{Audience, OpenItem, Published, Subscription, SubscriptionEnded, TooManySubscribers};
pub use observer::{ConversationTelemetry, Telemetry, ToolTrace, Traced};
pub use report::ReportState;
pub use request::{NewConversation, SendMessage, StuckThresholds};
