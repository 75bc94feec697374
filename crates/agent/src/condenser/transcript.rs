//! Events as plain text, for the model that summarises them.

use std::{fmt::Write as _, sync::Arc};

use openhands_protocol::{Content, Event, Role, TextContent};

use crate::observation;

/// A single event is never longer in a transcript, characters; a summary needs no more of it.
const LONGEST: usize = 20_000;

/// All events, one below the other.
pub(super) fn of(events: &[Arc<Event>], longest: Option<usize>) -> String {
    let longest = longest.unwrap_or(LONGEST).min(LONGEST);
    let mut text = String::new();
    for event in events {
        text.push_str("<EVENT>\n");
        text.push_str(&shortened(told(event), longest));
        text.push_str("\n</EVENT>\n");
    }
    text
}

pub(super) fn longest(events: &[Arc<Event>]) -> usize {
    events.iter().map(|event| told(event).chars().count().min(LONGEST)).max().unwrap_or_default()
}

/// Roughly how much of a request an event takes up, bytes.
pub(super) fn size(event: &Event) -> u64 {
    told(event).len() as u64
}

fn told(event: &Event) -> String {
    match event {
        Event::SystemPrompt(prompt) => {
            let dynamic = prompt.dynamic_context.as_ref().map(|part| part.text.as_str()).unwrap_or_default();
            format!("instructions:\n{}\n{dynamic}", prompt.system_prompt.text)
        }
        Event::Message(message) => {
            let who = if message.llm_message.role == Role::Assistant { "agent" } else { "user" };
            format!("{who} says:\n{}{}", parts(&message.llm_message.content), texts(&message.extended_content))
        }
        Event::Action(action) => {
            let mut text = texts(&action.thought);
            if !text.is_empty() {
                text.insert_str(0, "agent thinks:\n");
                text.push('\n');
            }
            let _ = write!(
                text,
                "agent calls {} (call {}):\n{}",
                action.tool_name, action.tool_call_id, action.tool_call.arguments
            );
            text
        }
        Event::Observation(result) => {
            let content = observation::parts(&result.observation, &result.extended_content);
            format!("{} answers (call {}):\n{}", result.tool_name, result.tool_call_id, parts(&content))
        }
        Event::UserReject(result) => {
            format!("user refuses call {} of {}: {}", result.tool_call_id, result.tool_name, result.rejection_reason)
        }
        Event::AgentError(error) => {
            format!("call {} of {} failed: {}", error.tool_call_id, error.tool_name, error.error)
        }
        _ => String::new(),
    }
}

fn parts(content: &[Content]) -> String {
    let parts: Vec<&str> = content.iter().map(|part| part.as_text().unwrap_or("[image]")).collect();
    parts.join("\n")
}

fn texts(content: &[TextContent]) -> String {
    let texts: Vec<&str> = content.iter().map(|part| part.text.as_str()).collect();
    texts.join("\n")
}

fn shortened(text: String, longest: usize) -> String {
    let mut part = Content::text(text);
    observation::shorten(&mut part, longest);
    match part {
        Content::Text { text, .. } => text,
        Content::Image { .. } => String::new(),
    }
}
