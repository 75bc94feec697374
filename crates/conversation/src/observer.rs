//! Who hears of a conversation's calls, runs and tools: a telemetry that is handed in, and the log of completions.
//!
//! Knows nothing of spans or exporters. Without both of them a model's client is made without an observer and costs nothing.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use openhands_llm::{
    CallObserver, ClientOptions,
    observer::{CallStart, CallTrace, RetryNotice},
};
use openhands_protocol::{ConversationId, ExecutionStatus, LlmConfig, event::ActionEvent};
use openhands_secrets::SecretRegistry;
use openhands_tools::{Observation, ToolError};
use serde_json::{Map, Value};

use crate::{completions::Completions, snapshot::Snapshot};

/// Where conversations tell what they do, for traces.
pub trait Telemetry: Send + Sync {
    /// Begins to observe a conversation, new or loaded.
    fn conversation(&self, about: &Traced<'_>) -> Arc<dyn ConversationTelemetry>;
}

/// What a telemetry is told about a conversation.
pub struct Traced<'a> {
    /// Its id.
    pub id: ConversationId,
    /// Whose it is.
    pub user_id: Option<&'a str>,
    /// The start request's members, `observability_*` among them.
    pub request: &'a Map<String, Value>,
    /// Hides the conversation's secrets; values that are added later included.
    pub secrets: Arc<SecretRegistry>,
}

/// Told what one conversation does. Calls come from several tasks, must not block, and may stop at any moment.
pub trait ConversationTelemetry: CallObserver {
    /// A run begins.
    fn run_began(&self);

    /// The run has ended with this status.
    fn run_ended(&self, status: ExecutionStatus);

    /// A tool has ended.
    fn tool_ended(&self, tool: &ToolTrace<'_>);
}

/// A tool call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct ToolTrace<'a> {
    /// The tool's name.
    pub name: &'a str,
    /// The call's id.
    pub call_id: &'a str,
    /// When it began.
    pub began: SystemTime,
    /// How long it took.
    pub latency: Duration,
    /// A short word for what went wrong; `None` when nothing did.
    pub error: Option<&'static str>,
}

/// Hears of everything in one conversation. Clones share it.
#[derive(Clone)]
pub(crate) struct Observer {
    telemetry: Option<Arc<dyn ConversationTelemetry>>,
    pub(crate) completions: Arc<Completions>,
}

impl Observer {
    pub(crate) fn new(telemetry: Option<&Arc<dyn Telemetry>>, state: &Snapshot) -> Self {
        let about = Traced {
            id: state.id,
            user_id: state.request.get("user_id").and_then(Value::as_str),
            request: &state.request,
            secrets: Arc::clone(&state.secrets),
        };
        Self {
            telemetry: telemetry.map(|telemetry| telemetry.conversation(&about)),
            completions: Arc::new(Completions::new(Arc::clone(&state.secrets))),
        }
    }

    /// How the client of a model is made.
    pub(crate) fn options(&self, config: &LlmConfig) -> ClientOptions {
        let mut options = ClientOptions::default();
        if self.telemetry.is_some() || config.log_completions {
            options.observer = Some(Arc::new(self.clone()));
        }
        options
    }

    pub(crate) fn run_began(&self) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.run_began();
        }
    }

    pub(crate) fn run_ended(&self, status: ExecutionStatus) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.run_ended(status);
        }
    }
}

/// Follows one tool call; one that is dropped on its way counts as cancelled. Only there when somebody listens.
pub(crate) struct ToolWatch {
    telemetry: Arc<dyn ConversationTelemetry>,
    name: String,
    call_id: String,
    began: SystemTime,
    clock: Instant,
    error: Option<&'static str>,
}

impl ToolWatch {
    pub(crate) fn new(observer: &Observer, action: &ActionEvent) -> Option<Self> {
        Some(Self {
            telemetry: Arc::clone(observer.telemetry.as_ref()?),
            name: action.tool_name.clone(),
            call_id: action.tool_call_id.clone(),
            began: SystemTime::now(),
            clock: Instant::now(),
            error: Some("cancelled"),
        })
    }

    /// The tool begins now; what came before was waiting.
    pub(crate) fn begun(mut self) -> Self {
        (self.began, self.clock) = (SystemTime::now(), Instant::now());
        self
    }

    pub(crate) fn ended(mut self, result: &Result<Observation, ToolError>) {
        self.error = match result {
            Ok(observation) => {
                let is_error = observation.body.get("is_error").and_then(Value::as_bool);
                is_error.unwrap_or_default().then_some("tool_reported_error")
            }
            Err(_) => Some("tool_failed"),
        };
    }
}

impl Drop for ToolWatch {
    fn drop(&mut self) {
        self.telemetry.tool_ended(&ToolTrace {
            name: &self.name,
            call_id: &self.call_id,
            began: self.began,
            latency: self.clock.elapsed(),
            error: self.error,
        });
    }
}

impl CallObserver for Observer {
    fn wants_body(&self, config: &LlmConfig) -> bool {
        config.log_completions || self.telemetry.as_ref().is_some_and(|telemetry| telemetry.wants_body(config))
    }

    fn started(&self, call: &CallStart<'_>) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.started(call);
        }
    }

    fn retrying(&self, notice: &RetryNotice<'_>) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.retrying(notice);
        }
    }

    fn finished(&self, trace: &CallTrace<'_>) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.finished(trace);
        }
        if trace.config.log_completions {
            self.completions.add(trace);
        }
    }
}
