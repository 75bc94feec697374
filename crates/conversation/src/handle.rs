//! The handle on a conversation: requests go to its task, reads come from snapshots.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use bytes::Bytes;
use openhands_llm::{LlmRequest, LlmResponse};
use openhands_protocol::{
    ConversationId, EventId, ExecutionStatus, LlmConfig,
    metrics::Metrics,
    policy::{ConfirmationPolicy, SecurityAnalyzer},
};
use openhands_store::EventLog;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    environment::Environment,
    error::{
        AskError, CondenseError, CreateError, LoadError, RunError, SendError, SwitchError, UnknownUsage, UpdateError,
    },
    hub::{Audience, Hub, Subscription, TooManySubscribers},
    info,
    mailbox::{Change, Command},
    report::ReportState,
    request::{NewConversation, SendMessage},
    side,
    snapshot::Snapshot,
    switch::Switchboard,
    task::Task,
};

/// One conversation. Clones are cheap and all mean the same one; the conversation lives until [`Conversation::close`] or
/// [`Conversation::delete`], or until the last handle is dropped.
#[derive(Clone)]
pub struct Conversation {
    pub(crate) shared: Arc<Shared>,
}

/// What handles hold besides the mailbox.
pub(crate) struct Shared {
    pub(crate) id: ConversationId,
    pub(crate) log: EventLog,
    pub(crate) mailbox: mpsc::Sender<Command>,
    pub(crate) snapshot: watch::Receiver<Arc<Snapshot>>,
    pub(crate) report: watch::Receiver<ReportState>,
    pub(crate) hub: Hub,
    pub(crate) switchboard: Arc<Switchboard>,
    /// The task itself, for tests that end it as a crash would.
    #[cfg(test)]
    pub(crate) task: std::sync::OnceLock<tokio::task::AbortHandle>,
}

impl Conversation {
    /// Creates a conversation in `dir`. The creation and the initial message are one durable act: after a crash either both
    /// are there or nothing is. With an initial message the run has started when this returns.
    ///
    /// # Errors
    /// [`CreateError`]; nothing of the conversation remains then.
    pub async fn create(env: Arc<Environment>, dir: &Path, new: NewConversation) -> Result<Self, CreateError> {
        crate::create::create(env, dir, new).await
    }

    /// Takes up a stored conversation. One that was running has become `error`, and each of its actions without a result
    /// gets an error result: nothing is ever executed twice.
    ///
    /// # Errors
    /// [`LoadError`].
    pub async fn load(env: Arc<Environment>, dir: &Path) -> Result<Self, LoadError> {
        crate::load::load(env, dir).await
    }

    /// The conversation's id.
    #[must_use]
    pub fn id(&self) -> ConversationId {
        self.shared.id
    }

    /// `ConversationInfo` as on the wire, null members kept, secrets null.
    #[must_use]
    pub fn info(&self) -> Value {
        info::conversation_info(&self.snapshot())
    }

    /// Where the run stands.
    #[must_use]
    pub fn status(&self) -> ExecutionStatus {
        self.shared.snapshot.borrow().status
    }

    /// UTC time of the creation.
    #[must_use]
    pub fn created_at(&self) -> String {
        self.shared.snapshot.borrow().created_at.to_string()
    }

    /// UTC time of the last change.
    #[must_use]
    pub fn updated_at(&self) -> String {
        self.shared.snapshot.borrow().updated_at.clone()
    }

    /// The log, for lists and single reads.
    #[must_use]
    pub fn events(&self) -> EventLog {
        self.shared.log.clone()
    }

    /// Appends a user message and, when asked, starts a run. Returns the message event's id once it is durable. A message
    /// sent during a run is taken up by it, even when the run is about to end.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send_message(&self, message: SendMessage) -> Result<EventId, SendError> {
        let id = self.ask(|reply| Command::Send { message, reply }).await.ok_or(SendError::Closed)??;
        self.shared.log.commit().await?;
        Ok(id)
    }

    /// Starts a run, or continues a paused one. Actions that wait for confirmation are thereby approved. A conversation with
    /// nothing to do stays as it is.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn run(&self) -> Result<(), RunError> {
        self.ask(|reply| Command::Run { reply }).await.ok_or(RunError::Closed)??;
        self.shared.log.commit().await?;
        Ok(())
    }

    /// Asks the run to stop after its current step. Without a run an idle conversation becomes `paused`; otherwise nothing
    /// happens.
    ///
    /// # Errors
    /// [`UpdateError`].
    pub async fn pause(&self) -> Result<(), UpdateError> {
        self.ask(|reply| Command::Pause { reply }).await.ok_or(UpdateError::Closed)?;
        Ok(self.shared.log.commit().await?)
    }

    /// Cancels the model call or the tools in flight and pauses. Returns when they have ended. Without a run like
    /// [`Conversation::pause`].
    ///
    /// # Errors
    /// [`UpdateError`].
    pub async fn interrupt(&self) -> Result<(), UpdateError> {
        self.ask(|reply| Command::Interrupt { reply }).await.ok_or(UpdateError::Closed)?;
        Ok(self.shared.log.commit().await?)
    }

    /// Accepts (a run continues with the waiting actions) or rejects (each gets a rejection with the reason, status idle)
    /// all waiting actions.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn respond_to_confirmation(&self, accept: bool, reason: Option<String>) -> Result<(), RunError> {
        self.ask(|reply| Command::Respond { accept, reason, reply }).await.ok_or(RunError::Closed)??;
        self.shared.log.commit().await?;
        Ok(())
    }

    /// Sets when the user is asked; takes effect with the next batch of actions.
    ///
    /// # Errors
    /// [`UpdateError`].
    pub async fn set_confirmation_policy(&self, policy: ConfirmationPolicy) -> Result<(), UpdateError> {
        self.update_with(Change::Policy(policy)).await
    }

    /// Sets who judges risks, `None` for nobody. Only `LLMSecurityAnalyzer` is supported.
    ///
    /// # Errors
    /// [`UpdateError`].
    pub async fn set_security_analyzer(&self, analyzer: Option<SecurityAnalyzer>) -> Result<(), UpdateError> {
        self.update_with(Change::Analyzer(analyzer)).await
    }

    /// Adds or replaces secrets, in the forms of [`NewConversation::secrets`].
    ///
    /// # Errors
    /// [`UpdateError`]; nothing was changed then.
    pub async fn update_secrets(&self, secrets: Map<String, Value>) -> Result<(), UpdateError> {
        self.update_with(Change::Secrets(secrets)).await
    }

    /// Sets the title and the tags; `None` keeps them.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing was changed then.
    pub async fn update(
        &self,
        title: Option<String>,
        tags: Option<BTreeMap<String, String>>,
    ) -> Result<(), UpdateError> {
        self.update_with(Change::Labels { title, tags }).await
    }

    /// Changes the agent's model (F2-PROF-08): a run goes on with it after the call that is out. `**********` in a key's place keeps
    /// the present key when the address stays the same. Returns the model's name once the change is durable.
    ///
    /// # Errors
    /// [`SwitchError`]; the old model stays then.
    pub async fn switch_llm(&self, llm: LlmConfig) -> Result<String, SwitchError> {
        self.shared.switchboard.to_llm(llm).await
    }

    /// [`Conversation::switch_llm`] to a saved profile, which counts under the usage id `profile:<name>` (F2-PROF-13r).
    ///
    /// # Errors
    /// [`SwitchError`]; the old model stays then.
    pub async fn switch_profile(&self, name: &str) -> Result<String, SwitchError> {
        self.shared.switchboard.to_profile(name).await
    }

    /// The owner of the agent's model delivers it again, with a new home of the conversation ([`NewConversation::delivers_llm`]). A
    /// delivery that differs from the one before wins over what is stored; a repeated one leaves a model that was chosen since.
    ///
    /// # Errors
    /// [`SwitchError`]; the stored model stays then.
    pub async fn deliver_llm(&self, llm: LlmConfig) -> Result<(), SwitchError> {
        let llm = Box::new(llm);
        self.ask(|reply| Command::Deliver { llm, reply }).await.ok_or(SwitchError::Closed)?
    }

    /// Asks the agent's model a question about the conversation, beside any run. Nothing is recorded but what it cost, under
    /// `ask-agent-llm`.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn ask_agent(&self, question: &str) -> Result<String, AskError> {
        if question.len() > side::MAX_QUESTION {
            return Err(AskError::TooLong(side::MAX_QUESTION));
        }
        let question = question.to_owned();
        let answer = self.ask(|reply| Command::AskAside { question, reply }).await.ok_or(AskError::Closed)?;
        Ok(answer?.message.joined_text())
    }

    /// One call of any model in the conversation's name: what it costs is part of the statistics, under the configuration's usage id
    /// (F2-REG-04). Text of the answer has the conversation's secrets hidden.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn complete(&self, llm: LlmConfig, request: LlmRequest) -> Result<LlmResponse, AskError> {
        let llm = Box::new(llm);
        self.ask(|reply| Command::Complete { llm, request, reply }).await.ok_or(AskError::Closed)?
    }

    /// Has the older part of the history summarised now (F2-COND-24r); returns when that is done and durable. During a run it
    /// happens before the next model call.
    ///
    /// # Errors
    /// [`CondenseError`]; the history stays as it is then.
    pub async fn condense(&self) -> Result<(), CondenseError> {
        self.ask(|reply| Command::Condense { reply }).await.ok_or(CondenseError::Closed)??;
        Ok(self.shared.log.commit().await?)
    }

    /// Limits what all models of the conversation together may cost, US dollars; `None` lifts the limit.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing was changed then.
    pub async fn set_budget(&self, budget: Option<f64>) -> Result<(), UpdateError> {
        self.update_with(Change::Budget(budget)).await
    }

    /// Everything that was spent under a usage id, with its single calls (F2-METR-11).
    ///
    /// # Errors
    /// [`UnknownUsage`] (F2-METR-16r).
    pub fn metrics_for_usage(&self, usage_id: &str) -> Result<Metrics, UnknownUsage> {
        let state = self.snapshot();
        info::metrics(&state, usage_id).ok_or_else(|| UnknownUsage {
            usage_id: usage_id.to_owned(),
            known: state.stats.usage_to_metrics.keys().cloned().collect(),
        })
    }

    /// Everything that was spent, all usage ids together (F2-METR-10).
    #[must_use]
    pub fn combined_metrics(&self) -> Metrics {
        let state = self.snapshot();
        let mut all = Metrics::new("default");
        for metrics in state.stats.usage_to_metrics.keys().filter_map(|usage_id| info::metrics(&state, usage_id)) {
            all.merge(&metrics);
        }
        all
    }

    /// The message of the latest `finish` call or text reply; empty when there is none.
    #[must_use]
    pub fn agent_final_response(&self) -> String {
        self.shared.snapshot.borrow().final_response.to_string()
    }

    /// Receives everything that is published from now on, in the form of the audience, unless `limit` subscribers listen
    /// already.
    ///
    /// # Errors
    /// [`TooManySubscribers`].
    pub fn subscribe(&self, audience: Audience, limit: usize) -> Result<Subscription, TooManySubscribers> {
        self.shared.hub.subscribe(audience, limit)
    }

    /// A `full_state` frame of this moment, for a new subscriber. It is not stored.
    #[must_use]
    pub fn snapshot_event(&self) -> Bytes {
        info::full_state_event(&self.snapshot())
    }

    /// Follows what an operator needs to know.
    #[must_use]
    pub fn report_watch(&self) -> watch::Receiver<ReportState> {
        self.shared.report.clone()
    }

    /// Stops the run (a model call or tools in flight are interrupted), writes everything down, ends tools and
    /// subscriptions, and releases the lease. Closing twice is no error.
    pub async fn close(&self) {
        self.ask(|reply| Command::Close { delete: false, reply }).await;
    }

    /// Closes and removes everything that is stored.
    pub async fn delete(&self) {
        self.ask(|reply| Command::Close { delete: true, reply }).await;
    }

    /// Sets the task to work.
    pub(crate) fn spawn(&self, task: Task) {
        let handle = tokio::spawn(task.live());
        #[cfg(test)]
        let _ = self.shared.task.set(handle.abort_handle());
        drop(handle);
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.snapshot.borrow())
    }

    async fn update_with(&self, change: Change) -> Result<(), UpdateError> {
        self.ask(|reply| Command::Update { change, reply }).await.ok_or(UpdateError::Closed)??;
        Ok(self.shared.log.commit().await?)
    }

    /// Sends a request and waits for its answer; `None` when the task has ended.
    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.shared.mailbox.send(request(reply)).await.ok()?;
        answer.await.ok()
    }
}
