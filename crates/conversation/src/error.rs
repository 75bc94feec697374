//! Why a request to a conversation failed, by who can do something about it.

use openhands_protocol::EventId;
use openhands_store::{LeaseError, StoreError};

use crate::environment::ProfileProblem;

/// A conversation that was not created; nothing of it remains.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// A member is malformed or asks for something this server does not do. The caller can fix it (422).
    #[error("{member}: {reason}")]
    Invalid {
        /// The member of the start request.
        member: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The directory holds a conversation already.
    #[error("the conversation exists already")]
    Exists,
    /// It has an initial message, and all run permits are taken (429).
    #[error("all run permits are taken, try again later")]
    CapacityFull,
    /// Another server owns the directory.
    #[error("cannot own the conversation")]
    Lease(#[source] LeaseError),
    /// The disk.
    #[error("cannot store the conversation")]
    Store(#[from] StoreError),
}

impl CreateError {
    pub(crate) fn invalid(member: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { member: member.into(), reason: reason.into() }
    }
}

/// A conversation that was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The directory holds no conversation.
    #[error("no conversation is stored there")]
    Missing,
    /// A stored member cannot be used; names it.
    #[error("stored conversation is damaged: {0}")]
    Damaged(String),
    /// Another server owns it.
    #[error("cannot own the conversation")]
    Lease(#[source] LeaseError),
    /// The disk.
    #[error("cannot read the conversation")]
    Store(#[from] StoreError),
}

/// A run that did not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A run is going on (409).
    #[error("a run is already going on")]
    AlreadyRunning,
    /// All run permits are taken (429).
    #[error("all run permits are taken, try again later")]
    CapacityFull,
    /// The conversation is being closed or deleted.
    #[error("the conversation is closed")]
    Closed,
    /// The disk.
    #[error("cannot store the run")]
    Store(#[from] StoreError),
}

/// A message that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Only user messages are accepted.
    #[error("role: only \"user\" messages can be sent")]
    NotAUserMessage,
    /// It asks for a run, and all run permits are taken (429).
    #[error("all run permits are taken, try again later")]
    CapacityFull,
    /// The conversation is being closed or deleted.
    #[error("the conversation is closed")]
    Closed,
    /// The disk; the message may or may not be stored.
    #[error("cannot store the message")]
    Store(#[from] StoreError),
}

/// A change that was not made.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// A member is malformed or unsupported (422).
    #[error("{member}: {reason}")]
    Invalid {
        /// The member.
        member: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The conversation is being closed or deleted.
    #[error("the conversation is closed")]
    Closed,
    /// The disk.
    #[error("cannot store the change")]
    Store(#[from] StoreError),
}

/// A model that was not changed; the old one stays.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The saved profile cannot be had (404, 400).
    #[error(transparent)]
    Profile(#[from] ProfileProblem),
    /// The configuration cannot be used (422).
    #[error("{member}: {reason}")]
    Invalid {
        /// The member.
        member: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The conversation is being closed or deleted.
    #[error("the conversation is closed")]
    Closed,
    /// The disk.
    #[error("cannot store the change")]
    Store(#[from] StoreError),
}

/// A history that was not condensed.
#[derive(Debug, thiserror::Error)]
pub enum CondenseError {
    /// Nobody is there to do it (409).
    #[error("the agent has no condenser; give it an LLMSummarizingCondenser")]
    NoCondenser,
    /// All run permits are taken (429).
    #[error("all run permits are taken, try again later")]
    CapacityFull,
    /// The model's failure, secrets hidden.
    #[error("the history cannot be condensed: {0}")]
    Model(String),
    /// The run ended before it came to it.
    #[error("the run ended before the history was condensed, try again")]
    RunEnded,
    /// The conversation is being closed or deleted.
    #[error("the conversation is closed")]
    Closed,
    /// The disk.
    #[error("cannot store the condensation")]
    Store(#[from] StoreError),
}

/// A copy that was not made.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// A member is malformed (422).
    #[error("{member}: {reason}")]
    Invalid {
        /// The member.
        member: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The history has no such event (404).
    #[error("from_event_id: {0} is no event of this conversation's history")]
    UnknownEvent(EventId),
    /// The source is being deleted: parts of it may be gone.
    #[error("the conversation is closed")]
    Closed,
    /// The directory of the copy cannot be had.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The disk.
    #[error("cannot store the copy")]
    Store(#[from] StoreError),
}

/// A question that was not answered.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It is longer than anybody reads (422).
    #[error("question: longer than {0} bytes")]
    TooLong(usize),
    /// So many calls are out already (429).
    #[error("{0} calls beside the conversation's runs are out already, try again later")]
    Busy(usize),
    /// The model's failure, secrets hidden.
    #[error("the model cannot answer: {0}")]
    Model(String),
    /// The conversation is being closed or deleted.
    #[error("the conversation is closed")]
    Closed,
}

/// Statistics that were asked for by a usage id that has none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing was spent under usage id {usage_id:?}; there are: {}", known.join(", "))]
pub struct UnknownUsage {
    /// What was asked for.
    pub usage_id: String,
    /// The usage ids that exist.
    pub known: Vec<String>,
}
