//! The machine that answers "what next?".
//!
//! It is fed every event of the active branch and holds only what follows from them, so feeding it a log again puts it where
//! it was. What does not follow from events, how long this run is already and what the user cleared, is asked of the driver.

use std::{collections::VecDeque, sync::Arc};

use openhands_protocol::{
    Event, EventId, Message, Role, Source,
    policy::{ConfirmationPolicy, SecurityAnalyzer},
};
use serde_json::Value;

use crate::{
    answer,
    condenser::{CondenserRules, Need},
    length::Length,
    pending::PendingActions,
    policy::{self, Judgement},
    stuck::{self, StuckThresholds, Verdict},
    view::View,
};

/// Empty answers in a row after which the run ends with an error; the stuck detector is usually earlier.
const MAX_EMPTY_ANSWERS: u32 = 5;

/// What bounds a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most model calls of one run.
    pub max_iterations: u32,
    /// `None` switches the stuck detector off.
    pub stuck: Option<StuckThresholds>,
    /// Longest text of one part of a message, characters; 0 for no limit.
    pub max_message_chars: usize,
}

/// Where this run stands, beyond what the events say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Model calls of this run so far.
    pub iterations: u32,
    /// The pending actions may run: the policy let them pass or the user said yes.
    pub cleared: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Actions lack results and have not been judged: ask [`Machine::judge`].
    Judge,
    /// Execute these actions; append their results in this order.
    Execute(Vec<Arc<Event>>),
    /// The history is too long: shorten it, then tell [`Machine::condensed`] or [`Machine::condensation_failed`].
    Condense(Need),
    /// Ask the model, with the messages of [`Machine::lend_messages`].
    CallModel,
    /// Append this draft, then ask again what next.
    Append(Box<Event>),
    /// The agent is done with its turn.
    Finished,
    /// There is nothing to work on.
    Idle,
    /// The run goes in circles.
    Stuck,
    /// The run had all its model calls.
    MaxIterations,
    /// The model answered nothing, again and again.
    EmptyAnswers,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nobody said anything yet.
    Empty,
    /// The agent's.
    Agent,
    /// The user's: the agent is done.
    User,
}

/// Decides the next step from events.
#[derive(Clone, Debug)]
pub struct Machine {
    limits: Limits,
    view: View,
    pending: PendingActions,
    /// The latest tree events, for the stuck detector.
    window: VecDeque<Arc<Event>>,
    turn: Turn,
    /// The batch at work contains a `finish` that was executed.
    finishing: bool,
    /// Something was said while the model was asked: its answer cannot have taken it into account.
    said_while_asked: bool,
    /// Something was said while actions lacked results: only the next answer takes it into account.
    said_while_acting: bool,
    empty_answers: u32,
    /// The error that the model was nudged about.
    nudged: Option<EventId>,
    final_response: Arc<str>,
    length: Length,
}

impl Machine {
    /// A machine that has seen nothing.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let view = View::new(limits.max_message_chars);
        Self {
            limits,
            view,
            pending: PendingActions::default(),
            window: VecDeque::new(),
            turn: Turn::Empty,
            finishing: false,
            said_while_asked: false,
            said_while_acting: false,
            empty_answers: 0,
            nudged: None,
            final_response: "".into(),
            length: Length::default(),
        }
    }

    /// Sets who shortens a history that grows too long, in the order in which they are asked; nobody by default.
    pub fn set_condensers(&mut self, condensers: Vec<CondenserRules>) {
        self.length.set_condensers(condensers);
    }

    /// A machine that has seen these events, in log order.
    #[must_use]
    pub fn replay(limits: Limits, events: &[Arc<Event>]) -> Self {
        let mut machine = Self::new(limits);
        for event in events {
            machine.follow(event);
        }
        machine.view = View::of(events, machine.limits.max_message_chars);
        machine
    }

    /// Takes an event into account that was appended to the active branch.
    pub fn observe(&mut self, event: &Arc<Event>) {
        self.view.observe(event);
        self.follow(event);
    }

    /// Whatever the event means except for the model's messages.
    fn follow(&mut self, event: &Arc<Event>) {
        self.length.observe(event);
        let acting = !self.pending.is_empty();
        self.pending.observe(event);
        match &**event {
            Event::Message(message) if message.llm_message.role == Role::Assistant => {
                self.said_while_acting = false;
                let text = message.llm_message.joined_text();
                if text.trim().is_empty() {
                    self.empty_answers += 1;
                    self.turn = Turn::Agent;
                } else {
                    self.end_turn();
                }
                self.final_response = text.into();
            }
            Event::Message(message) => {
                self.turn = Turn::Agent;
                self.said_while_asked |= self.view.is_lent();
                self.said_while_acting |= acting;
                if message.base.source == Source::User {
                    self.empty_answers = 0;
                    self.window.clear();
                }
            }
            Event::Action(action) => {
                self.turn = Turn::Agent;
                self.empty_answers = 0;
                // A new batch begins with nothing pending.
                self.said_while_acting &= acting;
                if action.tool_name == FINISH {
                    let said = action.action.as_ref().and_then(|body| body.get("message")).and_then(Value::as_str);
                    self.final_response = said.unwrap_or_default().into();
                }
            }
            Event::Observation(result) => {
                self.finishing |= result.tool_name == FINISH;
                self.settle();
            }
            Event::AgentError(_) | Event::UserReject(_) => self.settle(),
            _ => {}
        }
        if event.moves_head()
            && let Some(thresholds) = &self.limits.stuck
        {
            self.window.push_back(Arc::clone(event));
            while self.window.len() > thresholds.window() {
                self.window.pop_front();
            }
        }
    }

    /// After a result: the turn goes on, or ends when the batch is complete and had a `finish` in it.
    fn settle(&mut self) {
        self.turn = Turn::Agent;
        if self.pending.is_empty() && std::mem::take(&mut self.finishing) {
            self.end_turn();
        }
    }

    /// The turn ends unless the user said something that the agent cannot have seen.
    fn end_turn(&mut self) {
        self.turn = if self.said_while_asked || self.said_while_acting { Turn::Agent } else { Turn::User };
    }

    /// What to do next. Actions without results come before everything: a model is never asked while one is missing.
    #[must_use]
    pub fn next(&self, progress: Progress) -> Next {
        if !self.pending.is_empty() {
            return if progress.cleared { Next::Execute(self.pending.events().to_vec()) } else { Next::Judge };
        }
        match self.turn {
            Turn::Empty => return Next::Idle,
            Turn::User => return Next::Finished,
            Turn::Agent => {}
        }
        if progress.iterations >= self.limits.max_iterations {
            return Next::MaxIterations;
        }
        if let Some(thresholds) = &self.limits.stuck {
            let events: Vec<&Event> = self.window.iter().map(|event| &**event).collect();
            match stuck::examine(&events, thresholds, self.nudged.as_ref()) {
                Verdict::Fine => {}
                Verdict::Nudge { text, .. } => return Next::Append(Box::new(answer::nudge(text))),
                Verdict::Stuck => return Next::Stuck,
            }
        }
        if self.empty_answers >= MAX_EMPTY_ANSWERS {
            return Next::EmptyAnswers;
        }
        self.length.need().map_or(Next::CallModel, Next::Condense)
    }

    /// A condensation that is due, whoever's turn it is.
    #[must_use]
    pub fn condensation(&self) -> Option<Need> {
        self.length.need()
    }

    /// Takes down how many tokens the latest call had, as the provider counted them, and how many its model takes at most.
    pub fn note_tokens(&mut self, used: u64, limit: Option<u64>) {
        self.length.note_tokens(used, limit);
    }

    /// A condensation was appended. `events` is the whole log with it.
    pub fn condensed(&mut self, events: &[Arc<Event>]) {
        self.view = View::of(events, self.limits.max_message_chars);
    }

    /// A condensation that was asked for cannot be had and is no longer wanted.
    pub fn condensation_given_up(&mut self) {
        self.length.forget_request();
    }

    /// A condensation that was not necessary failed; it is tried again when the history has grown some more.
    pub fn condensation_failed(&mut self) {
        self.length.put_off();
    }

    /// Judges the pending actions as a batch.
    #[must_use]
    pub fn judge(&self, policy: &ConfirmationPolicy, analyzer: Option<&SecurityAnalyzer>) -> Judgement {
        let batch: Vec<_> = self.pending.actions().collect();
        policy::judge(&batch, policy, analyzer)
    }

    /// Actions without results.
    #[must_use]
    pub fn pending(&self) -> &PendingActions {
        &self.pending
    }

    /// The message of the latest `finish` call or text reply; empty when there is none.
    #[must_use]
    pub fn final_response(&self) -> &Arc<str> {
        &self.final_response
    }

    /// Lends the messages for a model call. What users say until [`Machine::give_back_messages`] comes after the answer.
    #[must_use]
    pub fn lend_messages(&mut self) -> Vec<Message> {
        self.said_while_asked = false;
        self.view.lend()
    }

    /// The messages as they would be lent now, with stand-ins for missing results.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        self.view.messages()
    }

    /// Cuts texts of what comes from now on at another length, for another model.
    pub fn limit_messages(&mut self, max_message_chars: usize) {
        self.limits.max_message_chars = max_message_chars;
        self.view.limit(max_message_chars);
    }

    /// Takes the messages back; `answered` when events of an answer follow.
    pub fn give_back_messages(&mut self, messages: Vec<Message>, answered: bool) {
        self.view.give_back(messages, answered);
    }

    /// Remembers that the model was told about a failing streak. To be called when the draft of a [`Next::Append`] is
    /// appended; a replay forgets it, which costs one more nudge at worst.
    pub fn nudged(&mut self) {
        self.nudged =
            self.window.iter().rev().find(|event| matches!(&***event, Event::AgentError(_))).map(|e| e.id().clone());
    }
}

/// The tool that ends a turn.
const FINISH: &str = "finish";

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
