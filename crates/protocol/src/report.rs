//! The small level-triggered report that a server sends to the operator: the latest only, until it is acknowledged.

use serde::{Deserialize, Serialize};

use crate::{id::ConversationId, secret::SecretText, status::ExecutionStatus};

/// Longest final message in a report, bytes of UTF-8.
pub const MAX_FINAL_MESSAGE: usize = 1024;
/// Largest report, bytes of JSON.
pub const MAX_REPORT: usize = 16 * 1024;

/// Where reports go; part of [`crate::init::InitRequest`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportTarget {
    /// `POST` address.
    pub url: String,
    /// Bearer token, bound to the pod and the conversation.
    #[serde(serialize_with = "plain")]
    pub token: SecretText,
    /// The conversation that is reported.
    pub conversation_id: ConversationId,
    /// The pod that reports.
    pub pod_uid: String,
}

fn plain<S: serde::Serializer>(secret: &SecretText, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

/// The state of one conversation as the operator needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The pod that reports.
    pub pod_uid: String,
    /// The conversation.
    pub conversation_id: ConversationId,
    /// Rises with every report of a server process; starts at the process's start time in microseconds, so that it also
    /// rises over restarts.
    pub seq: u64,
    /// Where the run stands.
    pub execution_status: ExecutionStatus,
    /// Actions that wait for the user's yes or no.
    pub pending_actions: u32,
    /// Sums over all models.
    pub usage: ReportedUsage,
    /// UTC time of the last event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_activity: Option<String>,
    /// UTC time since when nothing ran; absent while something runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<String>,
    /// The agent's last words, at most [`MAX_FINAL_MESSAGE`] bytes, without control characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_message: Option<String>,
    /// Why the run ended with an error: the error's name and text, at most [`MAX_FINAL_MESSAGE`] bytes, without control
    /// characters. A server that was started again does not repeat it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Usage in a report.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedUsage {
    /// US dollars as a decimal string.
    pub cost: String,
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
}
