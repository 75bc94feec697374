//! Who is told about calls: before each wait of a retry, and once at the end of every call (F1-LLM-08, F1-MET-04).
//!
//! Knows nothing of logs, spans or files. Without an observer nothing is kept; with one the request's bytes are shared, not copied.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use openhands_protocol::LlmConfig;

use crate::{Delta, DeltaSink, LlmError, LlmRequest, LlmResponse, ProfileLookup, Session, TokenSource};

/// Attempts that are kept apart; of further ones only the number is known.
const ATTEMPTS_KEPT: usize = 64;

/// Told about the calls of a client. Called on the task that makes the call: must not block, and is not awaited.
pub trait CallObserver: Send + Sync {
    /// Whether [`CallTrace::sent`] is looked at for calls of this model. A body lives as long as its call then.
    fn wants_body(&self, _config: &LlmConfig) -> bool {
        false
    }

    /// A call begins.
    fn started(&self, _call: &CallStart<'_>) {}

    /// An attempt failed and another one follows after a wait. Told before the wait.
    fn retrying(&self, _notice: &RetryNotice<'_>) {}

    /// A call has ended: answered, failed, cancelled, or dropped (which counts as cancelled). Told exactly once per call.
    fn finished(&self, _trace: &CallTrace<'_>) {}
}

/// How a client is made beyond its model's configuration.
#[derive(Clone, Default)]
pub struct ClientOptions {
    /// Told about every call of the client.
    pub observer: Option<Arc<dyn CallObserver>>,
    /// Where credentials come from, instead of the configuration and the environment.
    pub credentials: Option<Arc<dyn TokenSource>>,
    /// Where the saved models of `llm.fallback_strategy` are looked up.
    pub profiles: Option<ProfileLookup>,
    /// The conversation that calls belong to.
    pub session: Session,
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientOptions").field("observer", &self.observer.is_some()).finish_non_exhaustive()
    }
}

/// The interface a call speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// Chat Completions, Azure's deployments included.
    Chat,
    /// Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
    /// Google's generateContent.
    GenerateContent,
    /// Bedrock's Converse.
    Converse,
}

/// Where a call goes.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The provider's prefix in model names, such as `anthropic`.
    pub provider: &'a str,
    /// The interface.
    pub spoken: Spoken,
    /// The server's name, without path or credentials.
    pub host: &'a str,
    /// The server's port.
    pub port: Option<u16>,
    /// The model's name as the provider is told it.
    pub model: &'a str,
}

/// A call that begins.
#[derive(Clone, Copy, Debug)]
pub struct CallStart<'a> {
    /// The model's configuration, keys included.
    pub config: &'a LlmConfig,
    /// Where it goes.
    pub destination: Destination<'a>,
}

/// An attempt that failed and will be made again.
#[derive(Clone, Copy, Debug)]
pub struct RetryNotice<'a> {
    /// The model's configuration, keys included.
    pub config: &'a LlmConfig,
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// Most attempts of the call.
    pub max: u32,
    /// Why it failed; `None` when an attempt is made again for another reason.
    pub error: Option<&'a LlmError>,
    /// How long is waited.
    pub wait: Duration,
}

/// One attempt of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptTrace {
    /// From the beginning of the call.
    pub began: Duration,
    /// How long it took.
    pub latency: Duration,
    /// [`LlmError::code`] when it failed.
    pub failure: Option<&'static str>,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct CallTrace<'a> {
    /// The model's configuration, keys included.
    pub config: &'a LlmConfig,
    /// Where it went.
    pub destination: Destination<'a>,
    /// What was asked, in no provider's words.
    pub request: &'a LlmRequest,
    /// The body of the last attempt as it was sent, without headers and so without keys; empty when there was none, or when the
    /// observer does not want it.
    pub sent: &'a [u8],
    /// Whether the answer was asked for as a stream.
    pub streamed: bool,
    /// The answer, assembled when it was streamed, or why there is none. Tokens and cost are in it.
    pub result: Result<&'a LlmResponse, &'a LlmError>,
    /// The attempts in order; those without a mark for the cache or without earlier reasoning count.
    pub attempts: &'a [AttemptTrace],
    /// When the call began.
    pub began: SystemTime,
    /// From beginning to end, waits included.
    pub latency: Duration,
    /// From the beginning to the first piece of a stream.
    pub first_piece: Option<Duration>,
    /// The context window of the model, tokens, 0 when unknown.
    pub context_window: u64,
}

/// The notes of one call. Tells the observer at the end, or when it is dropped without one.
pub(crate) struct Notes<'a> {
    observer: &'a dyn CallObserver,
    start: CallStart<'a>,
    request: &'a LlmRequest,
    streamed: bool,
    context_window: u64,
    began: SystemTime,
    clock: Instant,
    wants_body: bool,
    sent: Bytes,
    attempts: Vec<AttemptTrace>,
    first_piece: Arc<OnceLock<Duration>>,
    is_told: bool,
}

impl<'a> Notes<'a> {
    pub(crate) fn begin(
        observer: &'a dyn CallObserver,
        start: CallStart<'a>,
        request: &'a LlmRequest,
        streamed: bool,
        context_window: u64,
    ) -> Self {
        observer.started(&start);
        Self {
            observer,
            start,
            request,
            streamed,
            context_window,
            began: SystemTime::now(),
            clock: Instant::now(),
            wants_body: observer.wants_body(start.config),
            sent: Bytes::new(),
            attempts: Vec::new(),
            first_piece: Arc::default(),
            is_told: false,
        }
    }

    /// Takes down what an attempt sends.
    pub(crate) fn sends(&mut self, body: &Bytes) {
        if self.wants_body {
            self.sent = body.clone();
        }
    }

    /// Hands pieces on and takes down when the first one came.
    pub(crate) fn watching<'s>(&self, sink: DeltaSink<'s>) -> impl FnMut(Delta) + Send + use<'s> {
        let (clock, first) = (self.clock, Arc::clone(&self.first_piece));
        move |delta| {
            first.get_or_init(|| clock.elapsed());
            sink(delta);
        }
    }

    /// Takes down an attempt that began at `since`.
    pub(crate) fn attempted(&mut self, since: Instant, failure: Option<&LlmError>) {
        if self.attempts.len() < ATTEMPTS_KEPT {
            self.attempts.push(AttemptTrace {
                began: since.duration_since(self.clock),
                latency: since.elapsed(),
                failure: failure.map(LlmError::code),
            });
        }
    }

    pub(crate) fn retrying(&self, attempt: u32, max: u32, error: &LlmError, wait: Duration) {
        self.observer.retrying(&RetryNotice { config: self.start.config, attempt, max, error: Some(error), wait });
    }

    pub(crate) fn finish(mut self, result: Result<&LlmResponse, &LlmError>) {
        self.tell(result);
    }

    fn tell(&mut self, result: Result<&LlmResponse, &LlmError>) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        self.observer.finished(&CallTrace {
            config: self.start.config,
            destination: self.start.destination,
            request: self.request,
            sent: &self.sent,
            streamed: self.streamed,
            result,
            attempts: &self.attempts,
            began: self.began,
            latency: self.clock.elapsed(),
            first_piece: self.first_piece.get().copied(),
            context_window: self.context_window,
        });
    }
}

impl Drop for Notes<'_> {
    fn drop(&mut self) {
        self.tell(Err(&LlmError::Cancelled));
    }
}

#[cfg(test)]
mod tests;
