//! What may be asked of the task that owns a conversation. Every request carries the way back for its answer.

use std::collections::BTreeMap;

use openhands_protocol::{
    EventId,
    policy::{ConfirmationPolicy, SecurityAnalyzer},
};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::{
    error::{RunError, SendError, UpdateError},
    request::SendMessage,
};

/// Most requests that wait; further callers wait for a place.
pub(crate) const MAILBOX_SIZE: usize = 64;

/// The way back of an answer. A caller that went away is no error.
pub(crate) type Reply<T> = oneshot::Sender<T>;

/// A request to the task.
pub(crate) enum Command {
    Send {
        message: SendMessage,
        reply: Reply<Result<EventId, SendError>>,
    },
    Run {
        reply: Reply<Result<(), RunError>>,
    },
    Pause {
        reply: Reply<()>,
    },
    Interrupt {
        reply: Reply<()>,
    },
    Respond {
        accept: bool,
        reason: Option<String>,
        reply: Reply<Result<(), RunError>>,
    },
    Update {
        change: Change,
        reply: Reply<Result<(), UpdateError>>,
    },
    /// From the background call that made a title.
    Titled(Box<crate::title::Titled>),
    Close {
        delete: bool,
        reply: Reply<()>,
    },
}

/// A change of a state field.
pub(crate) enum Change {
    Policy(ConfirmationPolicy),
    Analyzer(Option<SecurityAnalyzer>),
    Secrets(Map<String, Value>),
    Labels { title: Option<String>, tags: Option<BTreeMap<String, String>> },
}
