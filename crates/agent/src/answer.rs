//! A model's answer becomes events: actions, errors for calls that are none, a message, or a nudge for an empty answer.
//!
//! The events are drafts: who appends them gives them ids, time stamps and parents.

use std::collections::HashSet;

use openhands_protocol::{
    Content, Event, EventBase, EventId, Message, Role, Source, TextContent, ToolCall,
    error::Classification,
    event::{ActionEvent, AgentErrorEvent, MessageEvent},
    policy::SecurityRisk,
};
use serde_json::json;

use crate::{
    actions::Toolset,
    arguments::{self, python_json},
    offer,
};

/// What kind of answer it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// Tool calls, good or bad.
    Calls,
    /// Text, which ends the turn.
    Text,
    /// Neither; the model is nudged and asked again.
    Empty,
}

/// An answer as drafts of events, in the order in which they are appended.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What it was.
    pub kind: AnswerKind,
    /// Without ids, time stamps and parents.
    pub events: Vec<Event>,
}

/// Longest summary made from arguments, bytes.
const MAX_SUMMARY: usize = 4096;

const NUDGE: &str = "Your last answer contained neither text nor a tool call. Go on with the task: call a tool, or answer in \
                     plain text if the task is done.";

impl Answer {
    /// Reads a model's message. `rate` says whether an analyzer wants the risks that the model gave.
    #[must_use]
    pub fn read(message: Message, response_id: &str, tools: &dyn Toolset, rate: bool) -> Self {
        if message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty()) {
            return Self { kind: AnswerKind::Calls, events: read_calls(message, response_id, tools, rate) };
        }
        let has_text = message.content.iter().any(|part| part.as_text().is_some_and(|text| !text.trim().is_empty()));
        let said = said(message, response_id);
        if has_text {
            Self { kind: AnswerKind::Text, events: vec![said] }
        } else {
            Self { kind: AnswerKind::Empty, events: vec![said, nudge(NUDGE.to_owned())] }
        }
    }
}

/// A draft's base.
pub(crate) fn draft(source: Source) -> EventBase {
    EventBase { id: EventId::from(""), timestamp: String::new(), source, parent_id: None }
}

/// A draft of what the framework tells the model in the user's role.
pub(crate) fn nudge(text: String) -> Event {
    Event::Message(MessageEvent {
        base: draft(Source::Environment),
        llm_message: Message::new(Role::User, vec![Content::text(text)]),
        llm_response_id: None,
        activated_skills: Vec::new(),
        extended_content: Vec::new(),
        sender: None,
        critic_result: None,
    })
}

fn said(message: Message, response_id: &str) -> Event {
    Event::Message(MessageEvent {
        base: draft(Source::Agent),
        llm_message: Message { role: Role::Assistant, tool_calls: None, ..message },
        llm_response_id: Some(response_id.to_owned()),
        activated_skills: Vec::new(),
        extended_content: Vec::new(),
        sender: None,
        critic_result: None,
    })
}

fn read_calls(message: Message, response_id: &str, tools: &dyn Toolset, rate: bool) -> Vec<Event> {
    let Message { content, tool_calls, reasoning_content, thinking_blocks, responses_reasoning_item, .. } = message;
    let mut thought: Vec<TextContent> = content
        .into_iter()
        .filter_map(|part| match part {
            Content::Text { cache_prompt, text } if !text.is_empty() => Some(TextContent { cache_prompt, text }),
            _ => None,
        })
        .collect();
    let mut reasoning = (reasoning_content, thinking_blocks, responses_reasoning_item);
    let mut seen = HashSet::new();
    let mut events = Vec::new();
    for mut call in tool_calls.unwrap_or_default() {
        make_unique(&mut call, &mut seen);
        let read = read_call(&mut call, tools);
        // Only the first action of a batch carries what was said beside the calls.
        let (reasoning_content, thinking_blocks, responses_reasoning_item) = std::mem::take(&mut reasoning);
        let mut action = ActionEvent {
            base: draft(Source::Agent),
            thought: std::mem::take(&mut thought),
            reasoning_content,
            thinking_blocks,
            responses_reasoning_item,
            action: None,
            tool_name: call.name.clone(),
            tool_call_id: call.id.clone(),
            tool_call: call,
            llm_response_id: response_id.to_owned(),
            security_risk: SecurityRisk::Unknown,
            critic_result: None,
            summary: None,
        };
        match read {
            Ok(read) => {
                action.action = Some(read.action);
                action.summary = Some(read.summary);
                action.security_risk = if rate { read.risk } else { SecurityRisk::Unknown };
                events.push(Event::Action(action));
            }
            Err(error) => {
                let error = AgentErrorEvent {
                    base: draft(Source::Agent),
                    tool_name: action.tool_name.clone(),
                    tool_call_id: action.tool_call_id.clone(),
                    error,
                    classification: Some(Classification::new("agent_action", true, "retry")),
                };
                events.extend([Event::Action(action), Event::AgentError(error)]);
            }
        }
    }
    events
}

/// Results are matched to calls by id, so ids that are empty or repeated within an answer are made unique.
fn make_unique(call: &mut ToolCall, seen: &mut HashSet<String>) {
    if call.id.is_empty() {
        "call".clone_into(&mut call.id);
    }
    let (given, mut number) = (call.id.clone(), 1);
    while !seen.insert(call.id.clone()) {
        number += 1;
        call.id = format!("{given}-{number}");
    }
}

struct ReadCall {
    action: serde_json::Value,
    summary: String,
    risk: SecurityRisk,
}

/// The action of a call, or what the model did wrong. Arguments that are no JSON are replaced in the call, because providers
/// refuse a history that contains them.
fn read_call(call: &mut ToolCall, tools: &dyn Toolset) -> Result<ReadCall, String> {
    let name = call.name.clone();
    let mut parsed = match arguments::parse(&call.arguments) {
        Ok(parsed) => parsed,
        Err(why) => {
            let error = format!(
                "Error validating tool '{name}': {why}. The arguments must be one JSON object, not: {}",
                shortened(call.arguments.clone(), MAX_SUMMARY)
            );
            call.arguments = json!({"_openhands_malformed_tool_call": true, "error": &error}).to_string();
            return Err(error);
        }
    };
    let Some(spec) = tools.spec(&name) else {
        let names: Vec<String> = tools.names().iter().map(|name| format!("'{name}'")).collect();
        return Err(format!("Tool '{name}' not found. Available: [{}]", names.join(", ")));
    };
    let (risk, summary) = offer::take_own(spec, &mut parsed);
    arguments::repair(&spec.parameters, &mut parsed);
    let given: Vec<String> = parsed.keys().map(|name| format!("'{name}'")).collect();
    let summary = summary.unwrap_or_else(|| shortened(format!("{name}: {}", python_json(&parsed)), MAX_SUMMARY));
    match tools.action(&name, parsed.into()) {
        Ok(action) => Ok(ReadCall { action, summary, risk }),
        Err(refusal) => Err(format!(
            "Error validating tool '{name}': {}. Parameters provided: [{}]",
            refusal.0.trim_end_matches('.'),
            given.join(", ")
        )),
    }
}

/// At most `limit` bytes, cut between characters.
fn shortened(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.push('…');
    }
    text
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
