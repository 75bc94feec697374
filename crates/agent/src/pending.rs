//! Which actions still lack a result.

use std::sync::Arc;

use openhands_protocol::{Event, event::ActionEvent};

/// Executable actions without an observation, rejection or error, in the order of their calls.
#[derive(Clone, Debug, Default)]
pub struct PendingActions(Vec<Arc<Event>>);

impl PendingActions {
    /// Takes an event into account.
    pub fn observe(&mut self, event: &Arc<Event>) {
        match &**event {
            // An action without a body was never executable; its error follows.
            Event::Action(action) if action.action.is_some() => self.0.push(Arc::clone(event)),
            Event::Observation(result) => self.0.retain(|pending| *pending.id() != result.action_id),
            Event::UserReject(result) => self.0.retain(|pending| *pending.id() != result.action_id),
            Event::AgentError(error) => {
                // Errors name the call, not the action. Call ids may repeat over a long conversation: one error answers one.
                let answered =
                    self.0.iter().position(|p| action(p).is_some_and(|a| a.tool_call_id == error.tool_call_id));
                if let Some(index) = answered {
                    self.0.remove(index);
                }
            }
            _ => {}
        }
    }

    /// Whether every action has its result.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many actions wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The events themselves.
    #[must_use]
    pub fn events(&self) -> &[Arc<Event>] {
        &self.0
    }

    /// The actions.
    pub fn actions(&self) -> impl Iterator<Item = &ActionEvent> {
        self.0.iter().filter_map(action)
    }
}

fn action(event: &Arc<Event>) -> Option<&ActionEvent> {
    match &**event {
        Event::Action(action) => Some(action),
        _ => None,
    }
}
