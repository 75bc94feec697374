//! The event log's entries: one closed enum made from one table, and an arm for what this version does not know.
//!
//! Clients refuse events with one member too many, so the structs write exactly the members of protocol 1.58.2. An event of
//! an unknown kind, or of a known kind in a foreign shape, is kept as raw JSON and survives a round trip unchanged.
//! Action and observation bodies are tagged JSON (`kind`) owned by their tool.

mod notice;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::{
    content::{Content, Message, TextContent, ToolCall},
    id::EventId,
    policy::SecurityRisk,
};

pub use notice::{
    CondensationEvent, ConversationErrorEvent, ConversationStateUpdateEvent, LlmCompletionLogEvent, MarkerEvent,
    SecurityAnalysisEvent, ServerErrorEvent, StreamingDeltaEvent,
};

/// Where an event came from; independent of the role in which a model reads it (F1-EVT-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The agent.
    Agent,
    /// The user.
    User,
    /// The framework and the tools.
    Environment,
    /// A hook.
    Hook,
}

impl Source {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::User => "user",
            Self::Environment => "environment",
            Self::Hook => "hook",
        }
    }
}

/// What every event has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventBase {
    /// Unique in its conversation.
    pub id: EventId,
    /// Naive local time, see [`crate::time::event_stamp`].
    pub timestamp: String,
    /// Where it came from.
    pub source: Source,
    /// The event it follows in the tree; absent at the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<EventId>,
}

/// The system prompt and the tools offered; first in a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemPromptEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// The static, cacheable part.
    pub system_prompt: TextContent,
    /// Tool definitions (`kind: TerminalTool` ...). Only tools the client named: it cannot decode others.
    pub tools: Vec<Value>,
    /// The part that differs between conversations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_context: Option<TextContent>,
}

/// A message of the user, the agent or the framework.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// The message, as it was written.
    pub llm_message: Message,
    /// The provider's response id of an agent message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm_response_id: Option<String>,
    /// Names of skills this message activated.
    #[serde(default)]
    pub activated_skills: Vec<String>,
    /// What the framework adds for the model, after the message's own content.
    #[serde(default)]
    pub extended_content: Vec<TextContent>,
    /// Who sent it, in runs of several agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// A critic's opinion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critic_result: Option<Value>,
}

/// A tool call of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// Text beside the calls; only on the first action of a batch.
    pub thought: Vec<TextContent>,
    /// Plain reasoning; only on the first action of a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Signed thinking; only on the first action of a batch.
    #[serde(default)]
    pub thinking_blocks: Vec<Value>,
    /// Reasoning item of the Responses interface; only on the first action of a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responses_reasoning_item: Option<Value>,
    /// The validated action (tagged by `kind`); absent when the arguments were invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Value>,
    /// The tool's name.
    pub tool_name: String,
    /// The call's id, which the result repeats.
    pub tool_call_id: String,
    /// The call as the model made it.
    pub tool_call: ToolCall,
    /// The provider's response id; the same for all actions of a batch.
    pub llm_response_id: String,
    /// The risk the model or an analyzer saw.
    #[serde(default)]
    pub security_risk: SecurityRisk,
    /// A critic's opinion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critic_result: Option<Value>,
    /// One line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservationEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// The tool's name.
    pub tool_name: String,
    /// The call it answers.
    pub tool_call_id: String,
    /// The result (tagged by `kind`, with `content` and `is_error`).
    pub observation: Value,
    /// The action it answers.
    pub action_id: EventId,
    /// What the framework adds for the model.
    #[serde(default)]
    pub extended_content: Vec<TextContent>,
}

/// The user or a hook refused an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRejectObservation {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// The tool's name.
    pub tool_name: String,
    /// The call it answers.
    pub tool_call_id: String,
    /// Why; shown to the model.
    pub rejection_reason: String,
    /// `user` or `hook`.
    pub rejection_source: String,
    /// The refused action.
    pub action_id: EventId,
}

/// A tool call that could not be executed; the model sees it and the run goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentErrorEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// The tool's name.
    pub tool_name: String,
    /// The call it answers.
    pub tool_call_id: String,
    /// The text for the model.
    pub error: String,
    /// See [`crate::error::Classification`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classification: Option<crate::error::Classification>,
}

/// An event this version does not know, kept word for word.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownEvent {
    /// The members every event has, where they could be read.
    pub base: EventBase,
    /// The `kind` member.
    pub kind: String,
    /// The whole event.
    pub raw: Value,
}

macro_rules! event_table {
    ($($arm:ident($body:ty) = $kind:literal, null: [$($null:literal),*];)*) => {
        /// An event of a conversation.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event {
            $(#[doc = concat!("`", $kind, "`")] $arm($body),)*
            /// A kind or shape this version does not know.
            Unknown(UnknownEvent),
        }

        impl Event {
            /// The members every event has.
            #[must_use]
            pub fn base(&self) -> &EventBase {
                match self { $(Self::$arm(body) => &body.base,)* Self::Unknown(body) => &body.base }
            }

            /// The members every event has, for the one place that assigns the parent.
            pub fn base_mut(&mut self) -> &mut EventBase {
                match self { $(Self::$arm(body) => &mut body.base,)* Self::Unknown(body) => &mut body.base }
            }

            /// The `kind` member.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self { $(Self::$arm(_) => $kind,)* Self::Unknown(body) => &body.kind }
            }

            fn known(kind: &str, raw: &[u8]) -> Option<Self> {
                match kind { $($kind => serde_json::from_slice(raw).ok().map(Self::$arm),)* _ => None }
            }

            fn nullable(&self) -> &'static [&'static str] {
                match self { $(Self::$arm(_) => &["parent_id", $($null),*],)* Self::Unknown(_) => &[] }
            }
        }

        impl Serialize for Event {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$arm(body) => Tagged { body, kind: $kind }.serialize(serializer),)*
                    Self::Unknown(body) => body.raw.serialize(serializer),
                }
            }
        }
    };
}

#[derive(Serialize)]
struct Tagged<'a, T> {
    #[serde(flatten)]
    body: &'a T,
    kind: &'static str,
}

event_table! {
    SystemPrompt(SystemPromptEvent) = "SystemPromptEvent", null: ["dynamic_context"];
    Message(MessageEvent) = "MessageEvent", null: ["llm_response_id", "sender", "critic_result"];
    Action(ActionEvent) = "ActionEvent", null: ["reasoning_content", "responses_reasoning_item", "action", "critic_result", "summary"];
    Observation(ObservationEvent) = "ObservationEvent", null: [];
    UserReject(UserRejectObservation) = "UserRejectObservation", null: [];
    AgentError(AgentErrorEvent) = "AgentErrorEvent", null: ["classification"];
    StateUpdate(ConversationStateUpdateEvent) = "ConversationStateUpdateEvent", null: [];
    ConversationError(ConversationErrorEvent) = "ConversationErrorEvent", null: ["classification"];
    ServerError(ServerErrorEvent) = "ServerErrorEvent", null: [];
    Pause(MarkerEvent) = "PauseEvent", null: [];
    Interrupt(MarkerEvent) = "InterruptEvent", null: [];
    CondensationRequest(MarkerEvent) = "CondensationRequest", null: [];
    Condensation(CondensationEvent) = "Condensation", null: ["summary", "summary_offset"];
    SecurityAnalysis(SecurityAnalysisEvent) = "SecurityAnalysisEvent", null: [];
    StreamingDelta(StreamingDeltaEvent) = "StreamingDeltaEvent", null: ["content", "reasoning_content"];
    LlmCompletionLog(LlmCompletionLogEvent) = "LLMCompletionLogEvent", null: [];
}

/// Why bytes are no event.
#[derive(Debug, thiserror::Error)]
pub enum NotAnEvent {
    /// Not JSON, or no object.
    #[error("event is not a JSON object")]
    Json(#[from] serde_json::Error),
    /// A member every event has is missing or of the wrong type.
    #[error("event lacks id, timestamp, source or kind")]
    Base(#[source] serde_json::Error),
}

impl Event {
    /// Reads one event. Unknown kinds and foreign shapes become [`Event::Unknown`].
    ///
    /// # Errors
    /// When the bytes are no JSON object with `kind`, `id`, `timestamp` and `source`.
    pub fn from_slice(raw: &[u8]) -> Result<Self, NotAnEvent> {
        #[derive(Deserialize)]
        struct Head {
            kind: String,
            #[serde(flatten)]
            base: EventBase,
        }
        // Two passes over the bytes are cheaper than buffering the members of a tagged enum.
        #[derive(Deserialize)]
        struct KindOnly<'a> {
            #[serde(borrow)]
            kind: std::borrow::Cow<'a, str>,
        }
        let kind: KindOnly<'_> = serde_json::from_slice(raw).map_err(NotAnEvent::Base)?;
        if let Some(event) = Self::known(&kind.kind, raw) {
            return Ok(event);
        }
        let Head { kind, base } = serde_json::from_slice(raw).map_err(NotAnEvent::Base)?;
        Ok(Self::Unknown(UnknownEvent { base, kind, raw: serde_json::from_slice(raw)? }))
    }

    /// The event's id.
    #[must_use]
    pub fn id(&self) -> &EventId {
        &self.base().id
    }

    /// The long form: members that are null are written as null (single reads and batch reads).
    #[must_use]
    pub fn to_json_with_nulls(&self) -> Value {
        let mut json = serde_json::to_value(self).unwrap_or_default();
        if let Some(members) = json.as_object_mut() {
            for name in self.nullable() {
                members.entry(*name).or_insert(Value::Null);
            }
        }
        json
    }

    /// Tree events move HEAD; state updates, errors of the transport and deltas do not (protocol section 3).
    #[must_use]
    pub fn moves_head(&self) -> bool {
        !matches!(self, Self::StateUpdate(_) | Self::ServerError(_) | Self::StreamingDelta(_))
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let raw = serde_json::to_vec(&value).map_err(serde::de::Error::custom)?;
        Self::from_slice(&raw).map_err(serde::de::Error::custom)
    }
}

/// The text of an observation body's content parts, joined by line feeds.
#[must_use]
pub fn observation_text(observation: &Value) -> String {
    observation_content(observation).iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
}

/// An observation body's content parts.
#[must_use]
pub fn observation_content(observation: &Value) -> Vec<Content> {
    observation.get("content").and_then(|content| Vec::deserialize(content).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_known_event_round_trips_without_nulls() {
        let raw = json!({"id": "a", "timestamp": "2026-01-02T03:04:05.678901", "source": "environment", "parent_id": "b",
            "tool_name": "terminal", "tool_call_id": "c", "observation": {"content": [], "is_error": false, "kind": "X"},
            "action_id": "d", "extended_content": [], "kind": "ObservationEvent"});
        let event = Event::from_slice(raw.to_string().as_bytes()).unwrap();
        assert!(matches!(event, Event::Observation(_)));
        assert_eq!(serde_json::to_value(&event).unwrap(), raw);
    }

    #[test]
    fn an_unknown_kind_and_a_foreign_shape_survive() {
        for raw in [
            json!({"id": "a", "timestamp": "t", "source": "hook", "kind": "NewEvent", "n": 18446744073709551615u64}),
            json!({"id": "a", "timestamp": "t", "source": "user", "kind": "MessageEvent", "llm_message": 7}),
        ] {
            let event = Event::from_slice(raw.to_string().as_bytes()).unwrap();
            assert!(matches!(event, Event::Unknown(_)));
            assert_eq!(serde_json::to_value(&event).unwrap(), raw);
        }
        assert!(Event::from_slice(b"{\"id\": 1").is_err());
    }

    #[test]
    fn the_long_form_has_nulls() {
        let raw = json!({"id": "a", "timestamp": "t", "source": "user", "kind": "PauseEvent"});
        let event = Event::from_slice(raw.to_string().as_bytes()).unwrap();
        assert_eq!(event.to_json_with_nulls()["parent_id"], Value::Null);
        assert!(event.to_json_with_nulls().as_object().unwrap().contains_key("parent_id"));
    }
}
