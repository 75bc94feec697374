//! The task that owns a conversation: takes requests from the mailbox, hears of calls and tools that ended, and saves.
//!
//! Everything is decided here one after the other, so there is nothing to lock and no message can fall between two states.
//! What takes long (models, tools, saves) runs in tasks of its own.

use std::{path::PathBuf, sync::Arc, time::Duration};

use openhands_agent::Machine;
use openhands_llm::LlmRequest;
use openhands_protocol::{
    Event, EventId, ExecutionStatus, Message, Role, Source,
    event::{MarkerEvent, MessageEvent, UserRejectObservation},
};
use openhands_store::{Lease, StoreError};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    acting::Workplace,
    core::{Core, draft},
    create,
    echo::Echo,
    environment::Environment,
    error::{CondenseError, RunError, SendError, UpdateError},
    mailbox::{Change, Command, Reply},
    observer::Observer,
    prompt,
    request::SendMessage,
    run::{Ended, Run},
    saver::{self, Saver},
    slots::{Slots, TITLE},
    support, title,
    toolset::Wrong,
};

/// How long tools may take to end when the conversation closes.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// The owner of a conversation.
pub(crate) struct Task {
    pub(crate) env: Arc<Environment>,
    pub(crate) dir: PathBuf,
    pub(crate) core: Core,
    pub(crate) workplace: Arc<Workplace>,
    pub(crate) saver: Saver,
    pub(crate) lease: Lease,
    pub(crate) mailbox: mpsc::Receiver<Command>,
    /// For background calls to report to; does not keep the conversation alive.
    pub(crate) own_mailbox: mpsc::WeakSender<Command>,
    /// The static part of the system prompt.
    pub(crate) static_prompt: String,
    /// The system prompt is in the log.
    pub(crate) opened: bool,
    /// The next user message is to be given a title.
    pub(crate) title_wanted: bool,
    /// Why this conversation cannot run, although it can be read.
    pub(crate) unable: Option<String>,
    /// Places for calls beside the runs.
    pub(crate) asides: Arc<Semaphore>,
    /// The clients of its models.
    pub(crate) slots: Slots,
    /// The request without its messages, which are the machine's while no call is out.
    pub(crate) request: LlmRequest,
    pub(crate) run: Option<Run>,
    pub(crate) echo: Echo,
    /// Who waits for a condensation.
    pub(crate) condense_replies: Vec<Reply<Result<(), CondenseError>>>,
    /// Hears of calls, runs and tools.
    pub(crate) observer: Observer,
    /// Ends background calls.
    pub(crate) closing: CancellationToken,
}

/// What the task waits for.
enum Input {
    Request(Option<Command>),
    Ended(Ended),
    SaveDue,
    EchoDue,
    LeaseLost,
    StorageFailed(StoreError),
}

impl Task {
    /// Lives until the conversation is closed, its last handle is gone, or its lease is lost.
    pub(crate) async fn live(mut self) {
        // A run that was begun before the task started (an initial message) goes on here.
        let begun = self.proceed();
        self.note(begun);
        loop {
            self.core.publish();
            match self.wait().await {
                Input::Request(Some(Command::Close { delete, reply })) => {
                    self.close(delete).await;
                    let _ = reply.send(());
                    return;
                }
                Input::Request(None) => return self.close(false).await,
                Input::Request(Some(request)) => self.handle(request).await,
                Input::Ended(ended) => {
                    let result = self.ended(ended);
                    self.note(result);
                }
                Input::SaveDue => self.save_changes().await,
                Input::EchoDue => self.core.publish_full_state(),
                Input::LeaseLost => return self.abandon().await,
                Input::StorageFailed(error) => self.storage_failed(error),
            }
        }
    }

    async fn wait(&mut self) -> Input {
        let Self { mailbox, run, saver, lease, echo, core, .. } = self;
        let ended = async {
            match run {
                Some(run) => run.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            request = mailbox.recv() => Input::Request(request),
            ended = ended => Input::Ended(ended),
            () = saver.due() => Input::SaveDue,
            () = echo.due() => Input::EchoDue,
            () = lease.lost() => Input::LeaseLost,
            error = core.storage.trouble() => Input::StorageFailed(error),
        }
    }

    /// Answers a request. Readers see the change before the caller hears of it; what it sets in motion comes after.
    async fn handle(&mut self, request: Command) {
        // Whoever asks for something has seen the end of the last run.
        self.echo.stop();
        match request {
            Command::Send { message, reply } => {
                let result = self.send(message);
                self.core.publish();
                let _ = reply.send(result);
            }
            Command::Run { reply } => {
                let result = self.start();
                self.core.publish();
                let _ = reply.send(result);
            }
            Command::Respond { accept: true, reply, .. } => {
                let result = match self.start() {
                    Err(RunError::AlreadyRunning) => Ok(()),
                    other => other,
                };
                self.core.publish();
                let _ = reply.send(result);
            }
            Command::Respond { accept: false, reason, reply } => {
                let result = self.reject(reason.as_deref()).map_err(RunError::from);
                self.core.publish();
                let _ = reply.send(result);
            }
            Command::Pause { reply } => {
                let result = self.pause();
                self.note(result);
                self.core.publish();
                let _ = reply.send(());
            }
            Command::Interrupt { reply } => {
                let result = self.interrupt().await;
                self.note(result);
                self.core.publish();
                let _ = reply.send(());
            }
            Command::Update { change, reply } => {
                let result = self.update(change).await;
                self.core.publish();
                let _ = reply.send(result);
            }
            Command::Switch { llm, reply } => {
                let result = self.switch(*llm).await;
                self.core.publish();
                let _ = reply.send(result);
            }
            Command::Condense { reply } => self.condense_now(reply),
            Command::Deliver { llm, reply } => {
                let result = self.deliver(*llm).await;
                self.core.publish();
                let _ = reply.send(result);
            }
            Command::AskAside { question, reply } => self.ask_aside(&question, reply),
            Command::Complete { llm, request, reply } => self.complete(*llm, request, reply),
            Command::Count { call, reply } => {
                self.core.count_call(&call);
                let result = self.core.tell_stats();
                self.saver.touch(saver::SOON);
                self.note(result);
                self.core.publish();
                let _ = reply.send(());
            }
            Command::Titled(titled) => {
                let result = self.titled(*titled);
                self.note(result);
            }
            // Handled by the loop, which ends with it.
            Command::Close { .. } => {}
        }
        let result = self.proceed();
        self.note(result);
    }

    fn send(&mut self, message: SendMessage) -> Result<EventId, SendError> {
        if message.role != Role::User {
            return Err(SendError::NotAUserMessage);
        }
        self.check_storage()?;
        // A message that asks for a run which cannot start is not taken either, so that the caller may simply repeat it.
        let permit = match (&self.run, message.run) {
            (None, true) => Some(self.permit().ok_or(SendError::CapacityFull)?),
            _ => None,
        };
        let wanted = message.run;
        let id = self.append_message(message, EventId::random())?;
        if let Some(permit) = permit {
            self.begin(permit)?;
        } else if wanted {
            self.wake()?;
        }
        Ok(id)
    }

    /// Appends a user message, before the first one the system prompt.
    pub(crate) fn append_message(&mut self, message: SendMessage, id: EventId) -> Result<EventId, StoreError> {
        if matches!(self.core.state.status, ExecutionStatus::Finished | ExecutionStatus::Stuck) {
            self.core.set_status(ExecutionStatus::Idle)?;
        }
        if !self.opened {
            let prompt = prompt::system_prompt(
                &self.core.state,
                &self.workplace.tools,
                &self.static_prompt,
                &self.workplace.working_dir,
            );
            self.core.append(prompt)?;
            self.opened = true;
        }
        let SendMessage { role, content, sender, run: _ } = message;
        let llm_message = Message::new(role, content);
        let text = llm_message.joined_text();
        self.core.append(Event::Message(MessageEvent {
            base: openhands_protocol::EventBase { id: id.clone(), ..draft(Source::User) },
            llm_message,
            llm_response_id: None,
            activated_skills: Vec::new(),
            extended_content: prompt::message_additions(&self.core.state.agent),
            sender,
            critic_result: None,
        }))?;
        self.core.state.last_user_message = Some(id.clone());
        self.core.tell("last_user_message_id", json!(id))?;
        self.saver.touch(saver::SOON);
        self.want_title(text);
        Ok(id)
    }

    /// Has a title made for the first message, beside everything else.
    fn want_title(&mut self, text: String) {
        if text.trim().is_empty() || !std::mem::take(&mut self.title_wanted) {
            return;
        }
        let own = self.client().ok().map(|client| (client, self.core.state.agent.members().llm.clone()));
        let profile =
            self.core.state.request.get("title_llm_profile").and_then(|name| name.as_str().map(str::to_owned));
        let maker = self.slots.maker().clone();
        let (mailbox, closing) = (self.own_mailbox.clone(), self.closing.clone());
        tokio::spawn(async move {
            let titled = tokio::select! {
                titled = async {
                    let model = match profile {
                        Some(name) => maker.saved(name, TITLE).await.or(own),
                        None => own,
                    };
                    title::make(model, text, closing.clone()).await
                } => titled,
                () = closing.cancelled() => return,
            };
            if let Some(mailbox) = mailbox.upgrade() {
                let _ = mailbox.send(Command::Titled(Box::new(titled))).await;
            }
        });
    }

    fn titled(&mut self, titled: title::Titled) -> Result<(), StoreError> {
        self.observer.completions.append_to(&mut self.core)?;
        if let Some(call) = titled.call {
            self.core.count_call(&call);
            self.core.tell_stats()?;
        }
        if self.core.state.title.is_none() {
            self.core.state.title = Some(titled.title.into());
        }
        self.saver.touch(saver::SOON);
        Ok(())
    }

    /// Starts a run; actions that wait are thereby approved.
    fn start(&mut self) -> Result<(), RunError> {
        if self.run.as_ref().is_some_and(|run| !run.only_condenses) {
            return Err(RunError::AlreadyRunning);
        }
        self.check_storage()?;
        if self.has_nothing_to_do() {
            if self.core.state.status == ExecutionStatus::Paused {
                self.core.set_status(ExecutionStatus::Idle)?;
            }
            // The caller waits for the end of a run that is over before it began.
            self.core.publish_full_state();
            self.echo.start();
            return Ok(());
        }
        if self.wake()? {
            return Ok(());
        }
        let permit = self.permit().ok_or(RunError::CapacityFull)?;
        Ok(self.begin(permit)?)
    }

    pub(crate) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.env.run_permits).try_acquire_owned().ok()
    }

    fn reject(&mut self, reason: Option<&str>) -> Result<(), StoreError> {
        // While a run goes on, its actions are already approved.
        if self.run.as_ref().is_some_and(|run| !run.only_condenses) {
            return Ok(());
        }
        if self.core.state.status == ExecutionStatus::WaitingForConfirmation {
            self.core.set_status(ExecutionStatus::Idle)?;
        }
        let reason = reason.map(str::trim).filter(|reason| !reason.is_empty()).unwrap_or("User rejected the action");
        for pending in self.core.machine.pending().events().to_vec() {
            let Event::Action(action) = &*pending else { continue };
            self.core.append(Event::UserReject(UserRejectObservation {
                base: draft(Source::Environment),
                tool_name: action.tool_name.clone(),
                tool_call_id: action.tool_call_id.clone(),
                rejection_reason: reason.to_owned(),
                rejection_source: "user".to_owned(),
                action_id: action.base.id.clone(),
            }))?;
        }
        self.saver.touch(saver::SOON);
        Ok(())
    }

    fn pause(&mut self) -> Result<(), StoreError> {
        if let Some(run) = self.run.as_mut().filter(|run| !run.only_condenses) {
            run.pausing = true;
        } else if self.core.state.status == ExecutionStatus::Idle {
            self.core.set_status(ExecutionStatus::Paused)?;
            self.core.append(Event::Pause(MarkerEvent { base: draft(Source::User) }))?;
            self.saver.touch(saver::SOON);
        }
        Ok(())
    }

    async fn update(&mut self, change: Change) -> Result<(), UpdateError> {
        let invalid = |(member, reason): Wrong| UpdateError::Invalid { member, reason };
        match change {
            Change::Policy(policy) => {
                support::check_policy(&policy).map_err(invalid)?;
                if self.core.state.policy != policy {
                    self.core.tell("confirmation_policy", json!(policy))?;
                    self.core.state.policy = policy;
                }
            }
            Change::Analyzer(analyzer) => {
                support::check_analyzer(analyzer.as_ref()).map_err(invalid)?;
                if self.core.state.analyzer != analyzer {
                    self.core.tell("security_analyzer", json!(analyzer))?;
                    self.core.state.analyzer = analyzer;
                }
            }
            Change::Secrets(secrets) => {
                self.core.state.secrets.update(&secrets, self.env.cipher.as_deref()).map_err(|error| {
                    UpdateError::Invalid { member: format!("secrets.{}", error.name), reason: error.problem }
                })?;
            }
            Change::Budget(budget) => {
                support::check_budget(budget).map_err(invalid)?;
                self.core.state.budget = budget;
            }
            Change::Labels { title, tags } => {
                if let Some(tags) = tags {
                    support::check_tags(&tags).map_err(invalid)?;
                    if self.core.state.tags != tags {
                        self.core.tell("tags", json!(tags))?;
                        self.core.state.tags = tags;
                    }
                }
                if let Some(title) = title {
                    self.core.state.title = Some(title.trim().into());
                    self.title_wanted = false;
                }
            }
        }
        self.core.state.updated_at = openhands_protocol::time::utc_now();
        // Such changes are in no event, so the document itself must be durable before the caller hears of it.
        Ok(self.saver.save(&self.core.state).await?)
    }

    async fn save_changes(&mut self) {
        if self.run.is_some() {
            self.saver.save_behind(&self.core.state);
            return;
        }
        match self.saver.save(&self.core.state).await {
            Ok(()) => self.fold_calls(),
            Err(error) => tracing::warn!(conversation = %self.core.state.id, %error, "the state could not be saved"),
        }
    }

    /// Forgets the records of single calls, which are in the document that was just saved.
    fn fold_calls(&self) {
        if let Err(error) = self.core.calls_file.clear() {
            tracing::warn!(conversation = %self.core.state.id, %error, "records of model calls stay beside the state");
        }
    }

    async fn close(&mut self, delete: bool) {
        self.closing.cancel();
        self.echo.stop();
        let stopped = self.interrupt_run().await;
        self.note(stopped);
        if delete {
            self.core.put_status(ExecutionStatus::Deleting);
            self.core.publish();
        }
        if tokio::time::timeout(CLOSE_LIMIT, self.workplace.tools.close()).await.is_err() {
            tracing::warn!(conversation = %self.core.state.id, "tools did not end and were left");
        }
        let committed = self.core.log.commit().await;
        if !delete {
            match self.saver.save(&self.core.state).await {
                Ok(()) => self.fold_calls(),
                Err(error) => {
                    tracing::error!(conversation = %self.core.state.id, %error, "closed without its last state")
                }
            }
            if let Err(error) = committed {
                tracing::error!(conversation = %self.core.state.id, %error, "closed without its last events");
            }
        }
        self.core.hub.close();
        let (lease, dir, id) = (self.lease.clone(), self.dir.clone(), self.core.state.id);
        let released = tokio::task::spawn_blocking(move || {
            if delete {
                // What went out of the terminals' sessions would live as long as the pod.
                let left = openhands_workspace::marked::kill(create::MARK, &id.hex());
                if left > 0 {
                    tracing::info!(conversation = %id, left, "processes of a deleted conversation were ended");
                }
            }
            if delete && let Err(error) = std::fs::remove_dir_all(&dir) {
                tracing::error!(conversation = %id, %error, dir = %dir.display(), "the conversation could not be removed");
            }
            lease.release()
        });
        match released.await {
            Ok(Err(error)) if !delete => tracing::warn!(conversation = %id, %error, "the lease was not released"),
            _ => {}
        }
    }

    /// Another server owns the conversation now: nothing may be written any more.
    async fn abandon(&mut self) {
        tracing::error!(conversation = %self.core.state.id, "the conversation was taken over by another server");
        self.closing.cancel();
        if let Some(run) = self.run.take() {
            run.drop_all(&mut self.request, &mut self.core.machine);
        }
        self.core.put_status(ExecutionStatus::Error);
        self.core.publish();
        let _ = tokio::time::timeout(CLOSE_LIMIT, self.workplace.tools.close()).await;
        self.core.hub.close();
    }

    /// The machine has nothing to ask for, and nobody waits for a yes.
    fn has_nothing_to_do(&self) -> bool {
        use openhands_agent::{Next, Progress};
        let machine: &Machine = &self.core.machine;
        matches!(machine.next(Progress { iterations: 0, cleared: true }), Next::Finished | Next::Idle)
    }
}
