//! Applies the condensations of a log: what was forgotten goes, a summary takes its place (F1-EVT-13).

use std::{collections::HashSet, sync::Arc};

use openhands_protocol::{
    Content, Event, EventBase, EventId, Message, Role, Source,
    event::{CondensationEvent, MessageEvent},
};

/// The events that are left, with summaries as messages. Without condensations the list itself.
pub(crate) fn apply(events: &[Arc<Event>]) -> Vec<Arc<Event>> {
    let mut left: Vec<Arc<Event>> = Vec::with_capacity(events.len());
    for event in events {
        match &**event {
            Event::Condensation(condensation) => condense(&mut left, condensation),
            event_ if is_for_model(event_) => left.push(Arc::clone(event)),
            _ => {}
        }
    }
    left
}

pub(crate) fn is_for_model(event: &Event) -> bool {
    matches!(
        event,
        Event::SystemPrompt(_)
            | Event::Message(_)
            | Event::Action(_)
            | Event::Observation(_)
            | Event::UserReject(_)
            | Event::AgentError(_)
    )
}

fn condense(left: &mut Vec<Arc<Event>>, condensation: &CondensationEvent) {
    let forgotten: HashSet<&EventId> = condensation.forgotten_event_ids.iter().collect();
    left.retain(|event| !forgotten.contains(event.id()));
    if let (Some(summary), Some(offset)) = (&condensation.summary, condensation.summary_offset) {
        left.insert(offset.min(left.len()), Arc::new(summary_message(condensation, summary)));
    }
}

/// A summary is made on the fly, never stored; its id follows the condensation's.
fn summary_message(condensation: &CondensationEvent, summary: &str) -> Event {
    Event::Message(MessageEvent {
        base: EventBase {
            id: EventId::from(format!("{}-summary", condensation.base.id)),
            timestamp: condensation.base.timestamp.clone(),
            source: Source::Environment,
            parent_id: None,
        },
        llm_message: Message::new(Role::User, vec![Content::text(summary)]),
        llm_response_id: None,
        activated_skills: Vec::new(),
        extended_content: Vec::new(),
        sender: None,
        critic_result: None,
    })
}
