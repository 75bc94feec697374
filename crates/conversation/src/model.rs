//! One model call of a run: asked in a task of its own, pieces handed to subscribers, time and usage taken down.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use openhands_llm::{LlmClient, LlmError, LlmRequest, LlmResponse};
use openhands_protocol::{AgentSpec, LlmConfig};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{calls::CallRecord, live::Stream};

/// How long a cancelled call may take to end before it is dropped.
const GRACE: Duration = Duration::from_secs(2);

/// What a call gave and how long it took.
type Outcome = (Result<LlmResponse, LlmError>, Duration);

/// How the task of a call ended.
pub(crate) type CallEnd = Result<Outcome, JoinError>;

/// A call on its way.
pub(crate) struct Asking {
    /// Lent to the call; comes back when it has ended.
    request: Arc<LlmRequest>,
    call: JoinHandle<Outcome>,
    cancel: CancellationToken,
    /// The agent whose model is asked; the conversation may have another one when the answer comes.
    agent: Arc<AgentSpec>,
}

/// A call that has ended.
pub(crate) struct Asked {
    pub(crate) request: LlmRequest,
    pub(crate) result: Result<LlmResponse, LlmError>,
    pub(crate) latency: Duration,
    pub(crate) agent: Arc<AgentSpec>,
}

impl Asking {
    /// Starts a call. With `stream` its pieces are published as they come.
    pub(crate) fn start(
        client: Arc<dyn LlmClient>,
        agent: Arc<AgentSpec>,
        request: LlmRequest,
        stream: Option<Stream>,
        cancel: CancellationToken,
    ) -> Self {
        let request = Arc::new(request);
        let (lent, token) = (Arc::clone(&request), cancel.clone());
        let call = tokio::spawn(async move {
            let started = Instant::now();
            let result = match stream {
                Some(mut stream) => {
                    let result = client.complete(&lent, Some(&mut |delta| stream.take(delta)), &token).await;
                    stream.finish();
                    result
                }
                None => client.complete(&lent, None, &token).await,
            };
            (result, started.elapsed())
        });
        Self { request, call, cancel, agent }
    }

    /// Waits for the end. May be dropped and called again.
    pub(crate) async fn ended(&mut self) -> CallEnd {
        (&mut self.call).await
    }

    /// What was asked.
    pub(crate) fn request(&self) -> &LlmRequest {
        &self.request
    }

    /// Puts the end and the request together.
    pub(crate) fn finish(self, ended: CallEnd) -> Asked {
        let (result, latency) = ended.unwrap_or_else(|error| {
            (Err(LlmError::Internal(format!("the model call broke off: {error}"))), Duration::ZERO)
        });
        Asked { request: Self::take_back(self.request), result, latency, agent: self.agent }
    }

    /// Cancels the call and waits until it has ended, at most [`GRACE`].
    pub(crate) async fn cancel(mut self) -> LlmRequest {
        self.cancel.cancel();
        if tokio::time::timeout(GRACE, &mut self.call).await.is_err() {
            self.call.abort();
            let _ = (&mut self.call).await;
        }
        Self::take_back(self.request)
    }

    /// Drops the call without waiting for it.
    pub(crate) fn abort(self) -> LlmRequest {
        self.cancel.cancel();
        self.call.abort();
        Self::take_back(self.request)
    }

    /// The call has ended, so nobody else holds the request; a copy is made if somebody does.
    fn take_back(request: Arc<LlmRequest>) -> LlmRequest {
        Arc::try_unwrap(request).unwrap_or_else(|shared| (*shared).clone())
    }
}

/// What a call cost, as it is written down.
pub(crate) fn record(config: &LlmConfig, response: &LlmResponse, latency: Duration) -> CallRecord {
    let mut usage = response.usage.clone();
    if usage.model.is_empty() {
        usage.model.clone_from(&config.model);
    }
    usage.response_id.clone_from(&response.id);
    #[expect(clippy::cast_precision_loss, reason = "microseconds of this century fit into 53 bits")]
    let at = Timestamp::now().as_microsecond() as f64 / 1e6;
    CallRecord {
        id: Uuid::new_v4().simple().to_string(),
        // A router's model has a slot of its own.
        configured: if response.usage_id.is_some() { usage.model.clone() } else { config.model.clone() },
        usage_id: response.usage_id.clone().unwrap_or_else(|| config.usage_id.clone()),
        model: usage.model.clone(),
        // A negative price is a mistake of a price list, and clients refuse it.
        cost: response.cost.max(0.0),
        at,
        latency: latency.as_secs_f64(),
        usage,
    }
}
