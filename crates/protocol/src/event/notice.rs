//! Events that nobody says or does: news of a conversation's state, its failures, what became of its history, what goes on while a model
//! answers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::EventBase;
use crate::id::EventId;

/// A state field changed (`key` is its name), or a whole snapshot (`key: full_state`, never stored).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConversationStateUpdateEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// The field's name, `full_state` or `goal`.
    pub key: String,
    /// The new value.
    #[serde(default)]
    pub value: Value,
}

/// The run ended with an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConversationErrorEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// A class name, such as `LLMAuthenticationError` or `MaxIterationsReached`.
    pub code: String,
    /// The text for the user.
    pub detail: String,
    /// See [`crate::error::Classification`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classification: Option<crate::error::Classification>,
}

/// Something went wrong on a socket; never stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerErrorEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// A class name.
    pub code: String,
    /// The text for the client.
    pub detail: String,
}

/// An event without a body of its own (pause, interrupt, condensation request).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkerEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
}

/// Older events were forgotten, perhaps replaced by a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CondensationEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// What the model no longer sees.
    #[serde(default)]
    pub forgotten_event_ids: Vec<EventId>,
    /// What it sees instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Where the summary stands in the reduced list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_offset: Option<usize>,
    /// The provider's response id.
    pub llm_response_id: String,
}

/// The risks an analyzer found in a batch of actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecurityAnalysisEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// The analyzer's class name.
    pub analyzer: String,
    /// The confirmation policy's class name.
    pub policy: String,
    /// Action id to risk.
    #[serde(default)]
    pub risks: Map<String, Value>,
    /// What the analyzer adds.
    #[serde(default)]
    pub details: Map<String, Value>,
}

/// A piece of an answer while it streams; never stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamingDeltaEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// A piece of text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// A piece of reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
}

/// What one model call sent and got, for clients that asked for it (`llm.log_completions`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LlmCompletionLogEvent {
    /// See [`EventBase`].
    #[serde(flatten)]
    pub base: EventBase,
    /// The name of the file that a client writes it to; no path.
    pub filename: String,
    /// A JSON document.
    pub log_data: String,
    /// The model that was asked.
    #[serde(default = "unknown_model")]
    pub model_name: String,
    /// The slot it was asked for.
    #[serde(default = "default_usage")]
    pub usage_id: String,
}

fn unknown_model() -> String {
    "unknown".to_owned()
}

fn default_usage() -> String {
    "default".to_owned()
}
