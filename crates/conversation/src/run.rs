//! Drives a run: asks the machine what is next, does it, and feeds back what came of it.

use std::{sync::Arc, time::Instant};

use openhands_agent::{Answer, Machine, Next, Progress};
use openhands_llm::{LlmClient, LlmError, LlmRequest, LlmResponse};
use openhands_protocol::{Content, Event, ExecutionStatus, Message, Source, error::Classification, event::MarkerEvent};
use openhands_store::StoreError;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::{
    acting::{Acting, ActionEnd},
    condensing::{Condensed, Condensing},
    core::draft,
    echo,
    error::CondenseError,
    failure, keys,
    model::{self, Asking, CallEnd},
    saver,
    task::Task,
};

/// Filters keep the same thing back again and again; so often the model may try other words.
const FILTERED_LIMIT: u32 = 3;
/// A history that is still refused after being shortened so often will not become acceptable.
const REFUSED_LIMIT: u32 = 3;

/// A run that goes on.
pub(crate) struct Run {
    /// Given back when the run ends.
    _permit: OwnedSemaphorePermit,
    progress: Progress,
    /// Stop after the current step.
    pub(crate) pausing: bool,
    started: Instant,
    pub(crate) cancel: CancellationToken,
    pub(crate) activity: Activity,
    /// Answers in a row that a content filter kept back.
    filtered: u32,
    /// Requests in a row that were refused because of the history.
    refused: u32,
    /// Made to shorten the history only: nobody sees that it runs.
    pub(crate) only_condenses: bool,
}

/// What a run waits for.
pub(crate) enum Activity {
    Nothing,
    Asking(Asking),
    Condensing(Condensing),
    Acting(Box<Acting>),
}

/// Something a run waited for has ended.
pub(crate) enum Ended {
    Call(Box<CallEnd>),
    Action(Box<ActionEnd>),
    Condensed(Box<Condensed>),
}

impl Run {
    fn new(permit: OwnedSemaphorePermit) -> Self {
        Self {
            _permit: permit,
            // Whoever starts a run approves the actions that wait.
            progress: Progress { iterations: 0, cleared: true },
            pausing: false,
            started: Instant::now(),
            cancel: CancellationToken::new(),
            activity: Activity::Nothing,
            filtered: 0,
            refused: 0,
            only_condenses: false,
        }
    }

    /// Waits for the call or one of the actions. May be dropped and called again.
    pub(crate) async fn ended(&mut self) -> Ended {
        match &mut self.activity {
            Activity::Nothing => std::future::pending().await,
            Activity::Asking(asking) => Ended::Call(Box::new(asking.ended().await)),
            Activity::Condensing(condensing) => Ended::Condensed(Box::new(condensing.ended().await)),
            Activity::Acting(acting) => match acting.ended().await {
                Some(ended) => Ended::Action(Box::new(ended)),
                None => std::future::pending().await,
            },
        }
    }

    /// What the model is being asked.
    pub(crate) fn asking(&self) -> Option<&LlmRequest> {
        match &self.activity {
            Activity::Asking(asking) => Some(asking.request()),
            Activity::Nothing | Activity::Condensing(_) | Activity::Acting(_) => None,
        }
    }

    /// Drops everything at once, for when nothing may be written any more.
    pub(crate) fn drop_all(self, request: &mut LlmRequest, machine: &mut Machine) {
        self.cancel.cancel();
        match self.activity {
            Activity::Asking(asking) => {
                let mut back = asking.abort();
                machine.give_back_messages(std::mem::take(&mut back.messages), false);
                *request = back;
            }
            Activity::Condensing(condensing) => condensing.abort(),
            Activity::Nothing | Activity::Acting(_) => {}
        }
    }
}

impl Task {
    /// Begins a run.
    pub(crate) fn begin(&mut self, permit: OwnedSemaphorePermit) -> Result<(), StoreError> {
        self.echo.stop();
        self.core.set_status(ExecutionStatus::Running)?;
        self.observer.run_began();
        self.run = Some(Run::new(permit));
        self.saver.touch(saver::SOON);
        Ok(())
    }

    /// Begins a run that only shortens the history. The status stays.
    pub(crate) fn begin_quietly(&mut self, permit: OwnedSemaphorePermit) {
        self.run = Some(Run { only_condenses: true, ..Run::new(permit) });
    }

    /// Makes a run of its own out of one that only shortens the history; `false` when there is no such run.
    pub(crate) fn wake(&mut self) -> Result<bool, StoreError> {
        let Some(run) = self.run.as_mut().filter(|run| run.only_condenses) else { return Ok(false) };
        (run.only_condenses, run.pausing) = (false, false);
        self.core.set_status(ExecutionStatus::Running)?;
        self.observer.run_began();
        self.saver.touch(saver::SOON);
        Ok(true)
    }

    fn end_quietly(&mut self) {
        self.run = None;
        self.answer_condense(|| Err(CondenseError::RunEnded));
        self.core.publish();
        self.saver.touch(saver::SOON);
    }

    /// Does what is next until the run waits for something or has ended.
    pub(crate) fn proceed(&mut self) -> Result<(), StoreError> {
        loop {
            let Some(run) = &mut self.run else { return Ok(()) };
            if !matches!(run.activity, Activity::Nothing) {
                return Ok(());
            }
            if run.only_condenses {
                match self.core.machine.condensation().filter(|need| need.reasons.request) {
                    Some(need) => self.condense(need)?,
                    None => self.end_quietly(),
                }
                continue;
            }
            match self.core.machine.next(run.progress) {
                Next::Judge => {
                    let judgement = self.core.machine.judge(&self.core.state.policy, self.core.state.analyzer.as_ref());
                    run.progress.cleared = !judgement.ask;
                    if let Some(analysis) = judgement.analysis {
                        self.core.append(Event::SecurityAnalysis(analysis))?;
                    }
                    if judgement.ask {
                        self.end(ExecutionStatus::WaitingForConfirmation, None)?;
                    }
                }
                Next::Execute(actions) => {
                    let limit = self.core.state.agent.members().tool_concurrency_limit;
                    let acting = Acting::start(Arc::clone(&self.workplace), actions, limit, run.cancel.clone());
                    run.activity = Activity::Acting(Box::new(acting));
                    self.tell_results()?;
                }
                Next::Finished => self.end(ExecutionStatus::Finished, None)?,
                _ if run.pausing => {
                    let pause = Event::Pause(MarkerEvent { base: draft(Source::User) });
                    self.end(ExecutionStatus::Paused, Some(pause))?;
                }
                Next::CallModel => self.ask()?,
                Next::Condense(need) => self.condense(need)?,
                Next::Append(event) => {
                    self.core.append(*event)?;
                    self.core.machine.nudged();
                }
                Next::Idle => self.end(ExecutionStatus::Idle, None)?,
                Next::Stuck => self.end(ExecutionStatus::Stuck, None)?,
                Next::MaxIterations => {
                    let error = failure::max_iterations_reached(self.core.state.max_iterations);
                    self.end(ExecutionStatus::Error, Some(error))?;
                }
                Next::EmptyAnswers => self.end(ExecutionStatus::Error, Some(failure::empty_answers()))?,
            }
        }
    }

    /// Ends the run: status, the event that goes with it, the sums, and at last the snapshot that clients wait for.
    pub(crate) fn end(&mut self, status: ExecutionStatus, event: Option<Event>) -> Result<(), StoreError> {
        self.observer.run_ended(status);
        self.observer.completions.append_to(&mut self.core)?;
        self.core.set_status(status)?;
        if let Some(event) = event {
            self.core.append(event)?;
        }
        self.core.tell_stats()?;
        self.answer_condense(|| Err(CondenseError::RunEnded));
        let short = self.run.take().is_some_and(|run| run.started.elapsed() < echo::SHORT_RUN);
        self.core.publish();
        self.core.publish_full_state();
        if short {
            self.echo.start();
        }
        self.saver.touch(saver::SOON);
        Ok(())
    }

    /// Asks the model.
    fn ask(&mut self) -> Result<(), StoreError> {
        self.core.tell_stats()?;
        if let Some((budget, spent)) = self.core.state.used_up() {
            return self.end(ExecutionStatus::Error, Some(failure::max_budget_reached(budget, spent)));
        }
        if let Some(reason) = &self.unable {
            let classification = Classification::new("config", false, "settings");
            let error = failure::conversation_error("ToolsUnavailable", reason.clone(), classification);
            return self.end(ExecutionStatus::Error, Some(error));
        }
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => return self.end(ExecutionStatus::Error, Some(self.masked(failure::model_failed(&error)))),
        };
        let Some(run) = &mut self.run else { return Ok(()) };
        run.progress.iterations += 1;
        let mut request = std::mem::take(&mut self.request);
        request.messages = self.core.machine.lend_messages();
        let agent = Arc::clone(&self.core.state.agent);
        let llm = &agent.members().llm;
        self.core.state.open_usage(&llm.usage_id, &llm.model);
        let streams = llm.stream;
        let stream = streams.then(|| self.core.stream());
        run.activity = Activity::Asking(Asking::start(client, agent, request, stream, run.cancel.child_token()));
        self.saver.touch(saver::WHILE_RUNNING);
        Ok(())
    }

    /// The client of the agent's model.
    pub(crate) fn client(&mut self) -> Result<Arc<dyn LlmClient>, LlmError> {
        self.usable()?;
        let agent = Arc::clone(&self.core.state.agent);
        self.slots.client(&agent.members().llm)
    }

    /// Whether the agent's model may be asked at all.
    pub(crate) fn usable(&self) -> Result<(), LlmError> {
        if self.core.state.key_moved { Err(LlmError::Authentication(keys::MOVED.to_owned())) } else { Ok(()) }
    }

    /// Takes up the end of a call or an action, and goes on.
    pub(crate) fn ended(&mut self, ended: Ended) -> Result<(), StoreError> {
        match ended {
            Ended::Call(ended) => self.answered(*ended)?,
            Ended::Condensed(condensed) => self.condensed(*condensed)?,
            Ended::Action(ended) => {
                let Some(Run { activity: Activity::Acting(acting), .. }) = &mut self.run else { return Ok(()) };
                acting.take(*ended)?;
                self.tell_results()?;
            }
        }
        self.proceed()
    }

    fn answered(&mut self, ended: CallEnd) -> Result<(), StoreError> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let Activity::Asking(asking) = std::mem::replace(&mut run.activity, Activity::Nothing) else { return Ok(()) };
        run.progress.cleared = false;
        let asked = asking.finish(ended);
        self.take_back(asked.request, asked.result.is_ok());
        self.observer.completions.append_to(&mut self.core)?;
        let response = match asked.result {
            Ok(response) => response,
            Err(error) => {
                self.core.hub.give_up(error.code());
                return self.failed(&error);
            }
        };
        if let Some(run) = &mut self.run {
            (run.filtered, run.refused) = (0, 0);
        }
        let config = &asked.agent.members().llm;
        let (usage, window) = (&response.usage, response.usage.context_window);
        let limit = config.max_input_tokens.or((window > 0).then_some(window));
        self.core.machine.note_tokens(usage.prompt_tokens.saturating_add(usage.completion_tokens), limit);
        self.core.count_call(&model::record(&asked.agent.members().llm, &response, asked.latency));
        let rate = self.core.state.analyzer.is_some();
        let LlmResponse { id, mut message, .. } = response;
        self.mask(&mut message);
        self.core.append_answer(Answer::read(message, &id, &self.workplace.tools, rate).events)
    }

    /// What follows a failed call: mostly the end of the run.
    fn failed(&mut self, error: &LlmError) -> Result<(), StoreError> {
        if let (LlmError::ContentPolicy(_), Some(run)) = (error, &mut self.run)
            && run.filtered < FILTERED_LIMIT
        {
            run.filtered += 1;
            // Not what the provider says of it: that repeats the prompt.
            tracing::warn!(conversation = %self.core.state.id, "an answer was kept back by a content filter");
            return self.core.append(failure::kept_back()).map(drop);
        }
        let is_for_condenser = matches!(error, LlmError::ContextWindowExceeded(_) | LlmError::MalformedHistory(_));
        if is_for_condenser && self.core.state.has_condenser() {
            // Whoever condenses, this server or the reference that takes the conversation up, finds the request in the log.
            self.core.append(Event::CondensationRequest(MarkerEvent { base: draft(Source::Environment) }))?;
            if let Some(run) = &mut self.run
                && run.refused < REFUSED_LIMIT
                && self.core.machine.condensation().is_some()
            {
                run.refused += 1;
                tracing::warn!(conversation = %self.core.state.id, code = error.code(), "the history is refused and becomes shorter");
                return Ok(());
            }
        }
        self.end(ExecutionStatus::Error, Some(self.masked(failure::model_failed(error))))
    }

    /// The request comes back: its messages to the machine, the rest stays for the next call.
    fn take_back(&mut self, mut request: LlmRequest, answered: bool) {
        self.core.machine.give_back_messages(std::mem::take(&mut request.messages), answered);
        self.request = request;
    }

    /// Appends the results that are there, in call order.
    fn tell_results(&mut self) -> Result<(), StoreError> {
        let Some(Run { activity: Activity::Acting(acting), .. }) = &mut self.run else { return Ok(()) };
        let results = acting.tellable();
        let done = acting.is_done();
        for result in results {
            self.core.append(result)?;
        }
        if let (true, Some(run)) = (done, &mut self.run) {
            run.activity = Activity::Nothing;
            run.progress.cleared = false;
        }
        Ok(())
    }

    /// Interrupts a run, or pauses without one.
    pub(crate) async fn interrupt(&mut self) -> Result<(), StoreError> {
        if self.run.is_none() {
            if self.core.state.status == ExecutionStatus::Idle {
                self.core.set_status(ExecutionStatus::Paused)?;
                self.core.append(Event::Pause(MarkerEvent { base: draft(Source::User) }))?;
            }
            return Ok(());
        }
        self.interrupt_run().await
    }

    /// Cancels what a run waits for and pauses it. Every action gets a result.
    pub(crate) async fn interrupt_run(&mut self) -> Result<(), StoreError> {
        let Some(run) = &mut self.run else { return Ok(()) };
        match std::mem::replace(&mut run.activity, Activity::Nothing) {
            Activity::Nothing => {}
            Activity::Asking(asking) => {
                let request = asking.cancel().await;
                self.core.hub.give_up("cancelled");
                self.take_back(request, false);
            }
            Activity::Condensing(condensing) => {
                for call in condensing.cancel().await {
                    self.core.count_call(&call);
                }
            }
            Activity::Acting(acting) => {
                for result in acting.cancel().await {
                    self.core.append(result)?;
                }
            }
        }
        if self.run.as_ref().is_some_and(|run| run.only_condenses) {
            self.core.machine.condensation_given_up();
            self.core.tell_stats()?;
            self.end_quietly();
            return Ok(());
        }
        self.end(ExecutionStatus::Paused, Some(Event::Interrupt(MarkerEvent { base: draft(Source::User) })))
    }

    /// Hides secrets in what the model said. Signed parts stay as they are: a changed one would be refused when replayed.
    fn mask(&self, message: &mut Message) {
        let secrets = &self.core.state.secrets;
        for part in &mut message.content {
            if let Content::Text { text, .. } = part {
                *text = secrets.mask(text);
            }
        }
        if let Some(reasoning) = &mut message.reasoning_content {
            *reasoning = secrets.mask(reasoning);
        }
    }

    /// Hides secrets, the model's key among them, in what a provider says about a failure.
    pub(crate) fn masked(&self, event: Event) -> Event {
        let Event::ConversationError(mut error) = event else { return event };
        error.detail = self.hidden(&error.detail);
        Event::ConversationError(error)
    }

    /// A text without secrets and model keys.
    pub(crate) fn hidden(&self, text: &str) -> String {
        let text = self.core.state.secrets.mask(text);
        match &self.core.state.agent.members().llm.api_key {
            Some(key) if key.expose().len() >= 8 => text.replace(key.expose(), openhands_protocol::secret::MASK),
            _ => text,
        }
    }
}
