//! The state of a conversation as readers see it: a value that is cheap to clone and never changes.

use std::{collections::BTreeMap, sync::Arc};

use openhands_agent::StuckThresholds;
use openhands_protocol::{
    AgentSpec, ConversationId, EventId, ExecutionStatus, LlmConfig,
    metrics::{ConversationStats, MetricsSnapshot, TokenUsage},
    policy::{ConfirmationPolicy, SecurityAnalyzer},
};
use openhands_secrets::SecretRegistry;
use serde_json::{Map, Value};

use crate::{
    calls::{CallRecord, Calls},
    keys::LostToken,
};

/// Usage ids of one conversation: each is stored with all its calls, and clients choose them.
pub(crate) const USAGE_IDS_LIMIT: usize = 256;

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
    /// US dollars that all models together may cost; `None` for no limit.
    pub(crate) budget: Option<f64>,
    /// The agent's model as its owner delivered it last (with keys), to tell a new delivery from a repeated one.
    pub(crate) delivered: Option<Arc<LlmConfig>>,
    /// The stored model's address is not the one its key was given for, so it is not asked.
    pub(crate) key_moved: bool,
    /// Stored tokens of models that this server cannot open; they are written back as they are.
    pub(crate) lost_tokens: Arc<[LostToken]>,
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

impl Snapshot {
    /// The sums of a usage id; new ones bear the name of the model that it is configured with.
    pub(crate) fn open_usage(&mut self, usage_id: &str, model: &str) -> &mut MetricsSnapshot {
        self.stats.usage_to_metrics.entry(usage_id.to_owned()).or_insert_with(|| MetricsSnapshot {
            model_name: model.to_owned(),
            accumulated_token_usage: Some(TokenUsage { model: model.to_owned(), ..TokenUsage::default() }),
            ..MetricsSnapshot::default()
        })
    }

    /// Whether there is room for the sums of this usage id.
    pub(crate) fn may_open(&self, usage_id: &str) -> bool {
        let known = &self.stats.usage_to_metrics;
        known.len() < USAGE_IDS_LIMIT || known.contains_key(usage_id)
    }

    /// Counts a model call.
    pub(crate) fn count(&mut self, call: &CallRecord) {
        let configured = if call.configured.is_empty() { &call.model } else { &call.configured };
        self.open_usage(&call.usage_id, configured).add(call.cost, &call.usage);
        self.calls.add(call);
    }

    /// The budget and what was spent, when nothing is left: of all models together, or of a usage id with a budget of its own
    /// (stored by the reference).
    pub(crate) fn used_up(&self) -> Option<(f64, f64)> {
        let all = self.stats.usage_to_metrics.values();
        let spent: f64 = all.clone().map(|sums| sums.accumulated_cost).sum();
        if let Some(budget) = self.budget
            && spent >= budget
        {
            return Some((budget, spent));
        }
        all.filter_map(|sums| Some((sums.max_budget_per_task?, sums.accumulated_cost)))
            .find(|(budget, spent)| spent >= budget)
    }

    /// Whether the agent names a condenser that does something.
    pub(crate) fn has_condenser(&self) -> bool {
        let kind = |condenser: &Value| condenser.get("kind").and_then(Value::as_str).map(str::to_owned);
        self.agent.members().condenser.as_ref().and_then(kind).is_some_and(|kind| kind != "NoOpCondenser")
    }
}
