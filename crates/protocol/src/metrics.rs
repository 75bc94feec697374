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

impl TokenUsage {
    /// What came since an earlier state of the same sum; window and latest call are today's.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens.saturating_sub(earlier.prompt_tokens),
            completion_tokens: self.completion_tokens.saturating_sub(earlier.completion_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_sub(earlier.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(earlier.cache_write_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_sub(earlier.reasoning_tokens),
            ..self.clone()
        }
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

impl MetricsSnapshot {
    /// Adds the sums of another usage id or process.
    pub fn merge(&mut self, other: &Self) {
        self.accumulated_cost += other.accumulated_cost;
        self.max_budget_per_task = self.max_budget_per_task.or(other.max_budget_per_task);
        if let Some(usage) = &other.accumulated_token_usage {
            self.accumulated_token_usage
                .get_or_insert_with(|| TokenUsage { model: usage.model.clone(), ..TokenUsage::default() })
                .add(usage);
        }
    }

    /// What came since an earlier state of the same sums.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let usage = match (&self.accumulated_token_usage, &earlier.accumulated_token_usage) {
            (Some(now), Some(then)) => Some(now.since(then)),
            (now, _) => now.clone(),
        };
        Self {
            accumulated_cost: (self.accumulated_cost - earlier.accumulated_cost).max(0.0),
            accumulated_token_usage: usage,
            ..self.clone()
        }
    }

    /// Whether more was spent than the budget allows; never without a budget.
    #[must_use]
    pub fn is_over_budget(&self) -> bool {
        self.max_budget_per_task.is_some_and(|budget| self.accumulated_cost > budget)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_merge_and_differ() {
        let call = |tokens: u64| TokenUsage {
            model: "m".to_owned(),
            prompt_tokens: tokens,
            completion_tokens: 1,
            context_window: 100,
            per_turn_token: tokens + 1,
            ..TokenUsage::default()
        };
        let mut sums = MetricsSnapshot { max_budget_per_task: Some(0.5), ..MetricsSnapshot::default() };
        sums.add(0.25, &call(10));
        let earlier = sums.clone();
        sums.add(0.25, &call(20));
        assert!(!sums.is_over_budget());
        let since = sums.since(&earlier);
        assert!((since.accumulated_cost - 0.25).abs() < 1e-12);
        assert_eq!(since.accumulated_token_usage, Some(call(20)));
        let mut all = MetricsSnapshot::default();
        all.merge(&sums);
        all.merge(&earlier);
        let usage = all.accumulated_token_usage.clone().unwrap();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.per_turn_token), (40, 3, 11));
        assert!(all.is_over_budget(), "0.75 of 0.5");
        assert_eq!(sums.since(&MetricsSnapshot::default()), sums);
        assert!(!MetricsSnapshot::default().is_over_budget());
    }
}
