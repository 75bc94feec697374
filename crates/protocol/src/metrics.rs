//! Token usage and cost, per usage id.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Tokens of one call, or of all calls together.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// The model.
    pub model: String,
    /// Tokens read, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens written, reasoning included.
    pub completion_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Tokens of reasoning.
    pub reasoning_tokens: u64,
    /// The model's context window, 0 when unknown.
    pub context_window: u64,
    /// Prompt and completion tokens of the latest call.
    pub per_turn_token: u64,
    /// The provider's response id; empty in sums.
    pub response_id: String,
}

impl TokenUsage {
    /// Adds a call to a running sum.
    pub fn add(&mut self, call: &Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(call.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(call.completion_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(call.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(call.cache_write_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(call.reasoning_tokens);
        self.context_window = self.context_window.max(call.context_window);
        self.per_turn_token = call.per_turn_token;
    }
}

/// The sums of one usage id (`MetricsSnapshot` on the wire).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetricsSnapshot {
    /// The model.
    pub model_name: String,
    /// US dollars.
    pub accumulated_cost: f64,
    /// US dollars, `None` without a limit.
    pub max_budget_per_task: Option<f64>,
    /// Sums over all calls; `None` before the first.
    pub accumulated_token_usage: Option<TokenUsage>,
}

impl Default for MetricsSnapshot {
    fn default() -> Self {
        Self {
            model_name: "default".to_owned(),
            accumulated_cost: 0.0,
            max_budget_per_task: None,
            accumulated_token_usage: None,
        }
    }
}

impl MetricsSnapshot {
    /// Adds one call.
    pub fn add(&mut self, cost: f64, usage: &TokenUsage) {
        self.accumulated_cost += cost;
        self.accumulated_token_usage
            .get_or_insert_with(|| TokenUsage { model: usage.model.clone(), ..TokenUsage::default() })
            .add(usage);
    }
}

/// The sums of a conversation, by usage id.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ConversationStats {
    /// Usage id (such as `agent`, `condenser`) to sums.
    pub usage_to_metrics: IndexMap<String, MetricsSnapshot>,
}

impl ConversationStats {
    /// All usage ids together; `None` before the first call.
    #[must_use]
    pub fn combined(&self) -> Option<MetricsSnapshot> {
        let mut all = self.usage_to_metrics.values();
        let mut sum = all.next()?.clone();
        for one in all {
            sum.accumulated_cost += one.accumulated_cost;
            if let Some(usage) = &one.accumulated_token_usage {
                sum.accumulated_token_usage.get_or_insert_with(TokenUsage::default).add(usage);
            }
        }
        Some(sum)
    }
}
