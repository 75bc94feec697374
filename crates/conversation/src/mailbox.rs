//! What may be asked of the task that owns a conversation. Every request carries the way back for its answer.

use std::collections::BTreeMap;

use openhands_llm::{LlmRequest, LlmResponse};
use openhands_protocol::{
    EventId, LlmConfig,
    policy::{ConfirmationPolicy, SecurityAnalyzer},
};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::{
    calls::CallRecord,
    error::{AskError, CondenseError, RunError, SendError, SwitchError, UpdateError},
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
    Switch {
        llm: Box<LlmConfig>,
        reply: Reply<Result<String, SwitchError>>,
    },
    Condense {
        reply: Reply<Result<(), CondenseError>>,
    },
    Deliver {
        llm: Box<LlmConfig>,
        reply: Reply<Result<(), SwitchError>>,
    },
    AskAside {
        question: String,
        reply: Reply<Result<LlmResponse, AskError>>,
    },
    Complete {
        llm: Box<LlmConfig>,
        request: LlmRequest,
        reply: Reply<Result<LlmResponse, AskError>>,
    },
    /// From a call beside the runs, to be counted.
    Count {
        call: Box<CallRecord>,
        reply: Reply<()>,
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
    /// US dollars for all models together; `None` for no limit.
    Budget(Option<f64>),
    Labels {
        title: Option<String>,
        tags: Option<BTreeMap<String, String>>,
    },
}
