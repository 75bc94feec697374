//! Events for tests.

use openhands_protocol::{
    Content, Event, EventBase, EventId, Message, Role, Source, TextContent, ToolCall,
    content::CallOrigin,
    event::{ActionEvent, AgentErrorEvent, MessageEvent, ObservationEvent, SystemPromptEvent, UserRejectObservation},
    policy::SecurityRisk,
};
use serde_json::{Value, json};

pub(crate) fn base(id: &str, source: Source) -> EventBase {
    EventBase { id: EventId::from(id), timestamp: "t".to_owned(), source, parent_id: None }
}

/// An action whose id, call id and response id derive from `id` (`"r1.a"` belongs to response `r1`).
pub(crate) fn action(id: &str, tool: &str) -> ActionEvent {
    ActionEvent {
        base: base(id, Source::Agent),
        thought: Vec::new(),
        reasoning_content: None,
        thinking_blocks: Vec::new(),
        responses_reasoning_item: None,
        action: Some(json!({"kind": "AnyAction"})),
        tool_name: tool.to_owned(),
        tool_call_id: format!("call-{id}"),
        tool_call: ToolCall {
            id: format!("call-{id}"),
            responses_item_id: None,
            name: tool.to_owned(),
            arguments: "{}".to_owned(),
            origin: CallOrigin::Completion,
        },
        llm_response_id: id.split('.').next().unwrap_or_default().to_owned(),
        security_risk: SecurityRisk::Unknown,
        critic_result: None,
        summary: None,
    }
}

pub(crate) fn action_event(id: &str, tool: &str) -> Event {
    Event::Action(action(id, tool))
}

pub(crate) fn with_body(event: Event, body: Value) -> Event {
    match event {
        Event::Action(action) => Event::Action(ActionEvent { action: Some(body), ..action }),
        other => other,
    }
}

pub(crate) fn observation_event(id: &str, tool: &str, text: &str) -> Event {
    Event::Observation(ObservationEvent {
        base: base(&format!("o-{id}"), Source::Environment),
        tool_name: tool.to_owned(),
        tool_call_id: format!("call-{id}"),
        observation: json!({"content": [{"type": "text", "text": text}], "is_error": false, "kind": "AnyObservation"}),
        action_id: EventId::from(id),
        extended_content: Vec::new(),
    })
}

pub(crate) fn error_event(id: &str, tool: &str, text: &str) -> Event {
    Event::AgentError(AgentErrorEvent {
        base: base(&format!("e-{id}"), Source::Agent),
        tool_name: tool.to_owned(),
        tool_call_id: format!("call-{id}"),
        error: text.to_owned(),
        classification: None,
    })
}

pub(crate) fn reject_event(id: &str, tool: &str, reason: &str) -> Event {
    Event::UserReject(UserRejectObservation {
        base: base(&format!("j-{id}"), Source::Environment),
        tool_name: tool.to_owned(),
        tool_call_id: format!("call-{id}"),
        rejection_reason: reason.to_owned(),
        rejection_source: "user".to_owned(),
        action_id: EventId::from(id),
    })
}

fn message(source: Source, role: Role, text: &str) -> Event {
    Event::Message(MessageEvent {
        base: base(&format!("m-{text}"), source),
        llm_message: Message::new(role, if text.is_empty() { Vec::new() } else { vec![Content::text(text)] }),
        llm_response_id: None,
        activated_skills: Vec::new(),
        extended_content: Vec::new(),
        sender: None,
        critic_result: None,
    })
}

pub(crate) fn user_says(text: &str) -> Event {
    message(Source::User, Role::User, text)
}

pub(crate) fn agent_says(text: &str) -> Event {
    message(Source::Agent, Role::Assistant, text)
}

pub(crate) fn system(text: &str) -> Event {
    Event::SystemPrompt(SystemPromptEvent {
        base: base("s", Source::Agent),
        system_prompt: TextContent::new(text),
        tools: Vec::new(),
        dynamic_context: None,
    })
}
