//! When a history is too long, what of it is forgotten, and what a summary is made from (F2-COND rows).
//!
//! Pure: asking a model for the summary is the driver's.

mod choice;
mod rules;
mod transcript;

use std::sync::Arc;

use openhands_protocol::{Event, EventBase, EventId, Source, event::CondensationEvent};

pub use choice::NothingToForget;
pub use rules::{CondenserRules, summarizers};

/// Why a history has to become shorter; several may hold at once (F2-COND-17r).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// It was asked for: by the user, or because a provider refused the history.
    pub request: bool,
    /// More tokens than may be sent.
    pub tokens: Option<Tokens>,
    /// More events than `max_size`.
    pub events: bool,
}

/// How full the model's window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Tokens of the history; the latest call's as the provider counted them, what came since estimated.
    pub used: u64,
    /// As many may be sent.
    pub cap: u64,
}

impl Reasons {
    /// Whether the run cannot go on without it (F2-COND-18r).
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.request || self.tokens.is_some()
    }

    fn any(&self) -> bool {
        self.is_hard() || self.events
    }
}

/// A condensation that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Which condenser of [`crate::Machine::set_condensers`] asks for it.
    pub condenser: usize,
    /// Why.
    pub reasons: Reasons,
}

/// What will be forgotten and where its summary stands.
#[derive(Clone, Debug)]
pub struct Plan {
    forgotten: Vec<Arc<Event>>,
    offset: usize,
}

impl Plan {
    /// Forgets the middle of a history: neither its beginning nor its latest part, and never half of a batch of calls.
    ///
    /// # Errors
    /// [`NothingToForget`] when there is too little between the two.
    pub fn of(events: &[Arc<Event>], rules: &CondenserRules, reasons: &Reasons) -> Result<Self, NothingToForget> {
        choice::middle(&crate::condensation::apply(events), rules, reasons)
    }

    /// Forgets everything but the system prompt, for when nothing less helps (F2-COND-20r).
    ///
    /// # Errors
    /// [`NothingToForget`] when there is nothing else.
    pub fn reset(events: &[Arc<Event>]) -> Result<Self, NothingToForget> {
        choice::everything(&crate::condensation::apply(events))
    }

    /// What is forgotten, as text for the model that summarises; single events are cut to `longest` characters.
    #[must_use]
    pub fn transcript(&self, longest: Option<usize>) -> String {
        transcript::of(&self.forgotten, longest)
    }

    /// The length of the longest event in the transcript, characters.
    #[must_use]
    pub fn longest(&self) -> usize {
        transcript::longest(&self.forgotten)
    }

    /// The draft of the event that puts the plan into effect.
    #[must_use]
    pub fn event(&self, summary: String, response_id: String) -> Event {
        Event::Condensation(CondensationEvent {
            base: EventBase {
                id: EventId::from(""),
                timestamp: String::new(),
                source: Source::Environment,
                parent_id: None,
            },
            forgotten_event_ids: self.forgotten.iter().map(|event| event.id().clone()).collect(),
            summary: Some(summary),
            summary_offset: Some(self.offset),
            llm_response_id: response_id,
        })
    }
}

#[cfg(test)]
mod tests;
