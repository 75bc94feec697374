//! The state of a conversation as readers see it: a value that is cheap to clone and never changes.

use std::{collections::BTreeMap, sync::Arc};

use openhands_agent::StuckThresholds;
use openhands_protocol::{
    AgentSpec, ConversationId, EventId, ExecutionStatus,
    metrics::ConversationStats,
    policy::{ConfirmationPolicy, SecurityAnalyzer},
};
use openhands_secrets::SecretRegistry;
use serde_json::{Map, Value};

use crate::calls::Calls;

/// Everything about a conversation but its events and secrets' values.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) id: ConversationId,
    /// The conversation's directory, as configured.
    pub(crate) persistence_dir: Arc<str>,
    pub(crate) agent: Arc<AgentSpec>,
    pub(crate) workspace: Arc<Value>,
    pub(crate) max_iterations: u32,
    pub(crate) stuck_detection: bool,
    pub(crate) thresholds: StuckThresholds,
    pub(crate) status: ExecutionStatus,
    pub(crate) policy: ConfirmationPolicy,
    pub(crate) analyzer: Option<SecurityAnalyzer>,
    pub(crate) last_user_message: Option<EventId>,
    /// HEAD: the parent of the next event.
    pub(crate) leaf: Option<EventId>,
    pub(crate) stats: ConversationStats,
    pub(crate) calls: Calls,
    pub(crate) secrets: Arc<SecretRegistry>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) title: Option<Arc<str>>,
    pub(crate) created_at: Arc<str>,
    pub(crate) updated_at: String,
    /// Members of `base_state.json` that this server only keeps: skills, blocked actions, agent state.
    pub(crate) kept: Arc<Map<String, Value>>,
    /// The members of `meta.json` that come from the start request and never change.
    pub(crate) request: Arc<Map<String, Value>>,
    /// The message of the latest `finish` call or text reply.
    pub(crate) final_response: Arc<str>,
}
