//! Keeps one conversation alive: mailbox, driver, pause, subscribers.
//!
//! One task owns a conversation. [`Conversation`] is a cheap clone handle on its bounded mailbox; readers see snapshots and
//! never wait for the task. The agent's decisions come from `openhands-agent`, which knows nothing of files, models or time;
//! this crate does what it decides and writes down what happened. It knows nothing of HTTP, sockets or Kubernetes.

mod error;
mod environment;
mod handle;
mod hub;
mod mailbox;
mod report;
mod request;

pub use environment::{Environment, LeaseSettings, LlmFactory, ToolRequest, Toolbox};
pub use error::{CreateError, LoadError, RunError, SendError, UpdateError};
pub use handle::Conversation;
pub use hub::{Published, Subscription, SubscriptionEnded, TooManySubscribers};
pub use report::ReportState;
pub use request::{NewConversation, SendMessage, StuckThresholds};
