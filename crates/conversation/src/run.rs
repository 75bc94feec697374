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
    core::draft,
    echo, failure,
    model::{self, Asking, CallEnd},
    saver,
    task::Task,
};

/// A run that goes on.
pub(crate) struct Run {
    /// Given back when the run ends.
    _permit: OwnedSemaphorePermit,
    progress: Progress,
    /// Stop after the current step.
    pub(crate) pausing: bool,
    started: Instant,
    cancel: CancellationToken,
    activity: Activity,
}

/// What a run waits for.
enum Activity {
    Nothing,
    Asking(Asking),
    Acting(Box<Acting>),
}

/// Something a run waited for has ended.
pub(crate) enum Ended {
    Call(Box<CallEnd>),
    Action(Box<ActionEnd>),
}

impl Run {
    /// Waits for the call or one of the actions. May be dropped and called again.
    pub(crate) async fn ended(&mut self) -> Ended {
        match &mut self.activity {
            Activity::Nothing => std::future::pending().await,
            Activity::Asking(asking) => Ended::Call(Box::new(asking.ended().await)),
            Activity::Acting(acting) => match acting.ended().await {
                Some(ended) => Ended::Action(Box::new(ended)),
                None => std::future::pending().await,
            },
        }
    }

    /// Drops everything at once, for when nothing may be written any more.
    pub(crate) fn drop_all(self, request: &mut LlmRequest, machine: &mut Machine) {
        self.cancel.cancel();
        if let Activity::Asking(asking) = self.activity {
            let mut back = asking.abort();
            machine.give_back_messages(std::mem::take(&mut back.messages), false);
            *request = back;
        }
    }
}

impl Task {
    /// Begins a run.
    pub(crate) fn begin(&mut self, permit: OwnedSemaphorePermit) -> Result<(), StoreError> {
        self.echo.stop();
        self.core.set_status(ExecutionStatus::Running)?;
        self.run = Some(Run {
            _permit: permit,
            // Whoever starts a run approves the actions that wait.
            progress: Progress { iterations: 0, cleared: true },
            pausing: false,
            started: Instant::now(),
            cancel: CancellationToken::new(),
            activity: Activity::Nothing,
        });
        self.saver.touch(saver::SOON);
        Ok(())
    }

    /// Does what is next until the run waits for something or has ended.
    pub(crate) fn proceed(&mut self) -> Result<(), StoreError> {
        loop {
            let Some(run) = &mut self.run else { return Ok(()) };
            if !matches!(run.activity, Activity::Nothing) {
                return Ok(());
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
    fn end(&mut self, status: ExecutionStatus, event: Option<Event>) -> Result<(), StoreError> {
        self.core.set_status(status)?;
        if let Some(event) = event {
            self.core.append(event)?;
        }
        self.core.tell_stats()?;
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
        if let Some(reason) = &self.unable {
            let classification = Classification::new("config", false, "settings");
            let error = failure::conversation_error("ToolsUnavailable", reason.clone(), classification);
            return self.end(ExecutionStatus::Error, Some(error));
        }
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => return self.end(ExecutionStatus::Error, Some(failure::model_failed(&error))),
        };
        let Some(run) = &mut self.run else { return Ok(()) };
        run.progress.iterations += 1;
        let mut request = std::mem::take(&mut self.request);
        request.messages = self.core.machine.lend_messages();
        let streams = self.core.state.agent.members().llm.stream;
        let stream = streams.then(|| self.core.stream());
        run.activity = Activity::Asking(Asking::start(client, request, stream, run.cancel.child_token()));
        self.saver.touch(saver::WHILE_RUNNING);
        Ok(())
    }

    /// The model's client, made when it is first needed.
    pub(crate) fn client(&mut self) -> Result<Arc<dyn LlmClient>, LlmError> {
        if let Some(client) = &self.client {
            return Ok(Arc::clone(client));
        }
        let client = (self.env.llm)(&self.core.state.agent.members().llm)?;
        self.client = Some(Arc::clone(&client));
        Ok(client)
    }

    /// Takes up the end of a call or an action, and goes on.
    pub(crate) fn ended(&mut self, ended: Ended) -> Result<(), StoreError> {
        match ended {
            Ended::Call(ended) => self.answered(*ended)?,
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
        let response = match asked.result {
            Ok(response) => response,
            Err(error) => {
                self.core.hub.give_up(error.code());
                return self.end(ExecutionStatus::Error, Some(self.masked(failure::model_failed(&error))));
            }
        };
        self.core.count_call(&model::record(&self.core.state.agent.members().llm, &response, asked.latency));
        let rate = self.core.state.analyzer.is_some();
        let LlmResponse { id, mut message, .. } = response;
        self.mask(&mut message);
        self.core.append_answer(Answer::read(message, &id, &self.workplace.tools, rate).events)
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
            Activity::Acting(acting) => {
                for result in acting.cancel().await {
                    self.core.append(result)?;
                }
            }
        }
        self.end(ExecutionStatus::Paused, Some(Event::Interrupt(MarkerEvent { base: draft(Source::User) })))
    }

    /// Hides secrets in what the model said. Signed parts stay as they are: a changed one would be refused when replayed.
    fn mask(&self, message: &mut Message) {
        let secrets = &self.core.state.secrets;
        if secrets.is_empty() {
            return;
        }
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
    fn masked(&self, event: Event) -> Event {
        let Event::ConversationError(mut error) = event else { return event };
        error.detail = self.core.state.secrets.mask(&error.detail);
        if let Some(key) = &self.core.state.agent.members().llm.api_key
            && key.expose().len() >= 8
        {
            error.detail = error.detail.replace(key.expose(), openhands_protocol::secret::MASK);
        }
        Event::ConversationError(error)
    }
}
