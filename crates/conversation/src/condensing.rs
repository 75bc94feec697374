//! Shortens a history that has grown too long: reads the log, has a model summarise what will be forgotten, and appends the
//! event that says so.
//!
//! The reading and the model call run in a task of their own. Nothing is changed before the conversation's task appends the
//! event, so an interrupted condensation leaves no trace but its cost.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use openhands_agent::{CondenserRules, Need, Plan, summarizers};
use openhands_llm::{LlmClient, LlmError, LlmRequest, LlmResponse};
use openhands_prompts::SUMMARY_INSTRUCTIONS;
use openhands_protocol::{
    AgentSpec, Content, Event, ExecutionStatus, LlmConfig, Message, Role, Source, event::MarkerEvent,
};
use openhands_secrets::SecretRegistry;
use openhands_store::{EventLog, StoreError};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    calls::CallRecord, core::draft, error::CondenseError, failure, load, mailbox::Reply, model, run::Activity, saver,
    task::Task,
};

/// How long a cancelled condensation may take to end before it is dropped.
const GRACE: Duration = Duration::from_secs(2);
/// A summary that does not fit is asked for so often, of ever shorter events, before something else is tried.
const SHORTER: u32 = 3;

/// A condensation on its way.
pub(crate) struct Condensing {
    job: JoinHandle<Condensed>,
    cancel: CancellationToken,
    need: Need,
}

/// A condensation that has ended.
pub(crate) struct Condensed {
    /// What was read of the log: the active branch, and up to where.
    branch: Vec<Arc<Event>>,
    read_to: u64,
    calls: Vec<CallRecord>,
    /// The event that puts it into effect, or why there is none.
    result: Result<Box<Event>, LlmError>,
}

/// Everything a condensation needs.
struct Job {
    log: EventLog,
    need: Need,
    rules: CondenserRules,
    config: LlmConfig,
    client: Arc<dyn LlmClient>,
    secrets: Arc<SecretRegistry>,
    cancel: CancellationToken,
}

impl Condensing {
    pub(crate) async fn ended(&mut self) -> Condensed {
        match (&mut self.job).await {
            Ok(condensed) => condensed,
            Err(error) => Condensed::failed(LlmError::Internal(format!("the condensation broke off: {error}"))),
        }
    }

    /// Cancels it; what its calls cost comes back.
    pub(crate) async fn cancel(mut self) -> Vec<CallRecord> {
        self.cancel.cancel();
        match tokio::time::timeout(GRACE, &mut self.job).await {
            Ok(Ok(condensed)) => condensed.calls,
            _ => {
                self.job.abort();
                Vec::new()
            }
        }
    }

    pub(crate) fn abort(&self) {
        self.cancel.cancel();
        self.job.abort();
    }
}

impl Condensed {
    fn failed(error: LlmError) -> Self {
        Self { branch: Vec::new(), read_to: 0, calls: Vec::new(), result: Err(error) }
    }
}

impl Job {
    async fn run(self) -> Condensed {
        let events = match load::read_events(&self.log).await {
            Ok(events) => events,
            Err(error) => return Condensed::failed(LlmError::Internal(format!("the log cannot be read: {error}"))),
        };
        // What was appended during the reading may be among it.
        let read_to = events.last().and_then(|event| self.log.position(event.id())).map_or(0, |seq| seq + 1);
        let branch = load::active_branch(&events);
        let mut calls = Vec::new();
        let result = self.condense(&branch, &mut calls).await.map(Box::new);
        Condensed { branch, read_to, calls, result }
    }

    async fn condense(&self, branch: &[Arc<Event>], calls: &mut Vec<CallRecord>) -> Result<Event, LlmError> {
        let error = match Plan::of(branch, &self.rules, &self.need.reasons) {
            Ok(plan) => match self.put_into_effect(&plan, SHORTER, calls).await {
                Err(error) if !matches!(error, LlmError::Cancelled) => error,
                settled => return settled,
            },
            Err(nothing) => LlmError::ContextWindowExceeded(format!("the history cannot be shortened: {nothing}")),
        };
        let is_hopeless = matches!(error, LlmError::Authentication(_) | LlmError::NotSupported(_));
        if !self.need.reasons.is_hard() || is_hopeless {
            return Err(error);
        }
        tracing::warn!(code = error.code(), "a part of the history cannot be summarised, all of it is");
        let plan = Plan::reset(branch).map_err(|_| error)?;
        self.put_into_effect(&plan, self.rules.hard_context_reset_max_retries, calls).await
    }

    /// Has a plan's events summarised; when that fails again with shorter ones, at most `tries` times.
    async fn put_into_effect(&self, plan: &Plan, tries: u32, calls: &mut Vec<CallRecord>) -> Result<Event, LlmError> {
        let mut longest = None;
        let mut tried = 0;
        loop {
            tried += 1;
            let error = match self.summarise(plan.transcript(longest), calls).await {
                Ok((summary, response_id)) => return Ok(plan.event(summary, response_id)),
                Err(error) => error,
            };
            // Other failures had their own repetitions, and do not come from the length.
            let may_be_too_long = matches!(error, LlmError::ContextWindowExceeded(_) | LlmError::BadRequest(_));
            if !may_be_too_long || tried >= tries {
                return Err(error);
            }
            longest = Some(shorter(longest.unwrap_or_else(|| plan.longest()), &self.rules));
            tracing::warn!(code = error.code(), longest, "the summary failed, single events are cut");
        }
    }

    async fn summarise(&self, transcript: String, calls: &mut Vec<CallRecord>) -> Result<(String, String), LlmError> {
        let said = |role, text: String| Message::new(role, vec![Content::text(text)]);
        let request = LlmRequest {
            messages: vec![
                said(Role::System, SUMMARY_INSTRUCTIONS.to_owned()),
                said(Role::User, format!("{transcript}\nWrite the summary of these events now.")),
            ],
            ..LlmRequest::default()
        };
        let started = Instant::now();
        let response: LlmResponse = self.client.complete(&request, None, &self.cancel).await?;
        calls.push(model::record(&self.config, &response, started.elapsed()));
        let summary = self.secrets.mask(response.message.joined_text().trim());
        if summary.is_empty() {
            return Err(LlmError::NoResponse(format!("{} answered an empty summary", self.config.model)));
        }
        Ok((summary, response.id))
    }
}

fn shorter(longest: usize, rules: &CondenserRules) -> usize {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "lengths of texts, times a factor between 0 and 1"
    )]
    let shorter = (longest as f64 * rules.hard_context_reset_context_scaling) as usize;
    shorter.max(1)
}

/// The condensers of an agent that was accepted; one that cannot be read, in a stored conversation, is left out.
pub(crate) fn condensers(agent: &AgentSpec) -> Vec<(CondenserRules, LlmConfig)> {
    summarizers(agent.members().condenser.as_ref()).unwrap_or_else(|(member, why)| {
        tracing::warn!(member, why, "the agent's condenser cannot be used");
        Vec::new()
    })
}

impl Task {
    /// Begins a condensation, or goes on without when one that is not necessary cannot begin.
    pub(crate) fn condense(&mut self, need: Need) -> Result<(), StoreError> {
        self.core.tell_stats()?;
        if let Some((budget, spent)) = self.core.state.used_up() {
            if self.is_quiet() {
                return self.not_condensed(&need, &LlmError::BadRequest(failure::budget_text(budget, spent)));
            }
            return self.end(ExecutionStatus::Error, Some(failure::max_budget_reached(budget, spent)));
        }
        let mut condensers = condensers(&self.core.state.agent);
        if need.condenser >= condensers.len() {
            let error = LlmError::Internal("the agent's condenser is gone".to_owned());
            return self.not_condensed(&need, &error);
        }
        let (rules, llm) = condensers.swap_remove(need.condenser);
        // Summaries are read whole (F2-COND-23r).
        let config = LlmConfig { stream: false, ..llm };
        let client = match self.usable().and_then(|()| self.slots.client(&config)) {
            Ok(client) => client,
            Err(error) => return self.not_condensed(&need, &error),
        };
        let Some(run) = &mut self.run else { return Ok(()) };
        let cancel = run.cancel.child_token();
        let job = Job {
            log: self.core.log.clone(),
            need,
            rules,
            config,
            client,
            secrets: Arc::clone(&self.core.state.secrets),
            cancel: cancel.clone(),
        };
        run.activity = Activity::Condensing(Condensing { job: tokio::spawn(job.run()), cancel, need });
        self.saver.touch(saver::WHILE_RUNNING);
        Ok(())
    }

    /// Takes up the end of a condensation.
    pub(crate) fn condensed(&mut self, condensed: Condensed) -> Result<(), StoreError> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let Activity::Condensing(Condensing { need, .. }) = std::mem::replace(&mut run.activity, Activity::Nothing)
        else {
            return Ok(());
        };
        let Condensed { mut branch, read_to, calls, result } = condensed;
        calls.iter().for_each(|call| self.core.count_call(call));
        self.observer.completions.append_to(&mut self.core)?;
        match result {
            Ok(event) => {
                // What was said meanwhile is in the log, too, and comes after what was read.
                for stored in self.core.log.range(read_to, self.core.log.len()) {
                    branch.extend(stored.parse().ok().map(Arc::new));
                }
                branch.push(self.core.append(*event)?);
                self.core.machine.condensed(&branch);
                self.core.tell_stats()?;
                self.answer_condense(|| Ok(()));
                Ok(())
            }
            Err(error) => self.not_condensed(&need, &error),
        }
    }

    /// Whether the run that goes on is one that nobody sees.
    fn is_quiet(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.only_condenses)
    }

    fn not_condensed(&mut self, need: &Need, error: &LlmError) -> Result<(), StoreError> {
        let told = self.hidden(&error.to_string());
        self.answer_condense(|| Err(CondenseError::Model(told.clone())));
        if self.is_quiet() {
            // The run that was made for it ends by itself; what was asked for is not asked for again.
            self.core.machine.condensation_given_up();
            return Ok(());
        }
        if need.reasons.is_hard() {
            return self.end(ExecutionStatus::Error, Some(self.masked(failure::model_failed(error))));
        }
        tracing::warn!(conversation = %self.core.state.id, code = error.code(), "the history stays as long as it is for now");
        self.core.machine.condensation_failed();
        Ok(())
    }

    /// A client asks for a condensation (F2-COND-24r). A run that goes on takes it up before its next model call.
    pub(crate) fn condense_now(&mut self, reply: Reply<Result<(), CondenseError>>) {
        if condensers(&self.core.state.agent).is_empty() {
            let _ = reply.send(Err(CondenseError::NoCondenser));
            return;
        }
        let permit = match &self.run {
            Some(_) => None,
            None => match self.permit() {
                Some(permit) => Some(permit),
                None => {
                    let _ = reply.send(Err(CondenseError::CapacityFull));
                    return;
                }
            },
        };
        if let Err(error) =
            self.core.append(Event::CondensationRequest(MarkerEvent { base: draft(Source::Environment) }))
        {
            let _ = reply.send(Err(error.into()));
            return;
        }
        self.condense_replies.push(reply);
        if let Some(permit) = permit {
            self.begin_quietly(permit);
        }
    }

    pub(crate) fn answer_condense(&mut self, result: impl Fn() -> Result<(), CondenseError>) {
        for reply in self.condense_replies.drain(..) {
            let _ = reply.send(result());
        }
    }
}
