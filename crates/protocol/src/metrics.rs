//! Token usage and cost, per usage id: sums here, single calls in [`calls`].

pub mod calls;

pub use calls::{Cost, Metrics, NegativeCost, ResponseLatency};
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
        // What is not finite cannot be written as JSON.
        self.accumulated_cost = (self.accumulated_cost + cost).min(f64::MAX);
        self.accumulated_token_usage
            .get_or_insert_with(|| TokenUsage { model: usage.model.clone(), ..TokenUsage::default() })
            .add(usage);
    }
}

impl MetricsSnapshot {
    /// Adds the sums of another usage id or process.
    pub fn merge(&mut self, other: &Self) {
        self.accumulated_cost = (self.accumulated_cost + other.accumulated_cost).min(f64::MAX);
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

    /// Which part of the prompts came from the provider's cache, 0 to 1; `None` before the first prompt. Where the provider counts
    /// cached tokens beside the prompt and not in it, both together are the whole.
    #[must_use]
    pub fn cache_hit_rate(&self) -> Option<f64> {
        let usage = self.accumulated_token_usage.as_ref()?;
        let (prompt, cached) = (usage.prompt_tokens, usage.cache_read_tokens);
        let all = if cached > prompt { prompt.saturating_add(cached) } else { prompt };
        #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
        let rate = |cached: u64, all: u64| cached as f64 / all as f64;
        (all > 0).then(|| rate(cached, all))
    }

    /// Whether more was spent than the budget allows; never without a budget.
    #[must_use]
    pub fn is_over_budget(&self) -> bool {
        self.max_budget_per_task.is_some_and(|budget| self.accumulated_cost > budget)
    }
}

/// Sums with their calls, by usage id: what a whole conversation spent, and on what.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallStats {
    /// Usage id to sums and calls.
    pub usage_to_metrics: IndexMap<String, Metrics>,
}

/// A usage id that nothing was counted for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no model was used under the usage id {0:?}")]
pub struct UnknownUsage(String);

impl CallStats {
    /// All usage ids together; empty sums before the first call (F2-METR-10).
    #[must_use]
    pub fn combined(&self) -> Metrics {
        let mut all = Metrics::new(MetricsSnapshot::default().model_name);
        self.usage_to_metrics.values().for_each(|one| all.merge(one));
        all
    }

    /// Sums and calls of one usage id.
    ///
    /// # Errors
    /// [`UnknownUsage`] when there are none.
    pub fn of_usage(&self, usage_id: &str) -> Result<&Metrics, UnknownUsage> {
        self.usage_to_metrics.get(usage_id).ok_or_else(|| UnknownUsage(usage_id.to_owned()))
    }

    /// The metrics that a model's calls are counted in; stored ones are taken up again (F2-METR-17r).
    pub fn register(&mut self, usage_id: &str, model: &str) -> &mut Metrics {
        self.usage_to_metrics.entry(usage_id.to_owned()).or_insert_with(|| Metrics::new(model))
    }

    /// The sums alone (F1-MET-06).
    #[must_use]
    pub fn snapshot(&self) -> ConversationStats {
        let sums = self.usage_to_metrics.iter().map(|(usage_id, one)| (usage_id.clone(), one.snapshot().clone()));
        ConversationStats { usage_to_metrics: sums.collect() }
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
            sum.accumulated_cost = (sum.accumulated_cost + one.accumulated_cost).min(f64::MAX);
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
    fn conversations_count_by_usage_id() {
        let mut stats = CallStats::default();
        assert_eq!(stats.combined(), Metrics::new("default"));
        stats.register("agent", "m").add_cost(1.0, 1.0).unwrap();
        stats.register("condenser", "n").add_cost(0.5, 2.0).unwrap();
        // What was stored is gone on with.
        let stored = serde_json::to_value(&stats).unwrap();
        let mut stats: CallStats = serde_json::from_value(stored).unwrap();
        stats.register("agent", "other").add_cost(1.0, 3.0).unwrap();
        assert_eq!(stats.of_usage("agent").unwrap().snapshot().model_name, "m");
        assert!((stats.of_usage("agent").unwrap().snapshot().accumulated_cost - 2.0).abs() < 1e-12);
        assert!((stats.combined().snapshot().accumulated_cost - 2.5).abs() < 1e-12);
        assert_eq!(stats.combined().costs().len(), 3);
        assert_eq!(stats.snapshot().usage_to_metrics.keys().collect::<Vec<_>>(), ["agent", "condenser"]);
        let unknown = stats.of_usage("x").unwrap_err().to_string();
        assert_eq!(unknown, r#"no model was used under the usage id "x""#);
    }

    #[test]
    fn cached_parts_of_prompts() {
        let rate = |prompt_tokens, cache_read_tokens| {
            let usage = TokenUsage { prompt_tokens, cache_read_tokens, ..TokenUsage::default() };
            MetricsSnapshot { accumulated_token_usage: Some(usage), ..MetricsSnapshot::default() }.cache_hit_rate()
        };
        assert_eq!((rate(100, 25), rate(0, 0), rate(100, 300)), (Some(0.25), None, Some(0.75)));
        assert_eq!(MetricsSnapshot::default().cache_hit_rate(), None);
    }

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
        let mut endless = MetricsSnapshot { accumulated_cost: f64::MAX, ..MetricsSnapshot::default() };
        endless.add(f64::MAX, &call(1));
        assert!(endless.accumulated_cost.is_finite(), "JSON has no other numbers");
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
