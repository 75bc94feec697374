//! Sums of one usage id together with its calls, one record each (F1-MET-01, F2-METR rows); the sums alone are [`MetricsSnapshot`].
//!
//! Reads no clock: whoever records a call says when it was.

use serde::{Deserialize, Serialize};

use super::{MetricsSnapshot, TokenUsage};

/// So many records of each kind are kept; older ones are in the sums only.
const KEPT: usize = 10_000;

/// What one call cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The model that answered.
    pub model: String,
    /// US dollars, not negative.
    pub cost: f64,
    /// Seconds since 1970.
    #[serde(default)]
    pub timestamp: f64,
}

/// How long one call took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponseLatency {
    /// The model that answered.
    pub model: String,
    /// Seconds, not negative.
    pub latency: f64,
    /// The provider's response id.
    pub response_id: String,
}

/// A cost that is no amount of money.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a cost of {0} cannot be added, it must be a number and not negative")]
pub struct NegativeCost(f64);

/// Sums and records of one usage id (`Metrics` of the reference, with its JSON).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Metrics {
    /// The sums; their token usage is always there.
    #[serde(flatten)]
    sums: MetricsSnapshot,
    costs: Vec<Cost>,
    response_latencies: Vec<ResponseLatency>,
    token_usages: Vec<TokenUsage>,
    /// Records of each kind that are not kept any more: costs, latencies, usages.
    #[serde(skip)]
    dropped: [usize; 3],
}

impl Metrics {
    /// Nothing spent yet by this model.
    #[must_use]
    pub fn new(model_name: impl Into<String>) -> Self {
        let sums = MetricsSnapshot { model_name: model_name.into(), ..MetricsSnapshot::default() };
        Self::of(sums)
    }

    /// Known sums without their records.
    #[must_use]
    pub fn of(mut sums: MetricsSnapshot) -> Self {
        let model = &sums.model_name;
        sums.accumulated_token_usage
            .get_or_insert_with(|| TokenUsage { model: model.clone(), ..TokenUsage::default() });
        Self { sums, costs: Vec::new(), response_latencies: Vec::new(), token_usages: Vec::new(), dropped: [0; 3] }
    }

    /// Adds what a call cost, at `timestamp` seconds since 1970.
    ///
    /// # Errors
    /// [`NegativeCost`] for what is no amount of money; nothing is added then.
    pub fn add_cost(&mut self, cost: f64, timestamp: f64) -> Result<(), NegativeCost> {
        let model = self.sums.model_name.clone();
        self.add_cost_of(model, cost, timestamp)
    }

    /// Adds how long a call took, seconds. Less than nothing counts as nothing.
    pub fn add_response_latency(&mut self, seconds: f64, response_id: impl Into<String>) {
        self.add_latency_of(self.sums.model_name.clone(), seconds, response_id.into());
    }

    /// Adds a call's tokens, under the model that the usage names, or this one's when it names none.
    pub fn add_token_usage(&mut self, mut usage: TokenUsage) {
        if usage.model.is_empty() {
            usage.model.clone_from(&self.sums.model_name);
        }
        self.usage().add(&usage);
        self.token_usages.push(usage);
        shorten(&mut self.token_usages, &mut self.dropped[2]);
    }

    /// Adds a whole call under the model that answered, which a fallback or a router may have chosen (F2-FALL-06).
    ///
    /// # Errors
    /// [`NegativeCost`]; nothing is added then.
    pub fn add_call(&mut self, usage: TokenUsage, cost: f64, seconds: f64, timestamp: f64) -> Result<(), NegativeCost> {
        self.add_cost_of(usage.model.clone(), cost, timestamp)?;
        self.add_latency_of(usage.model.clone(), seconds, usage.response_id.clone());
        self.add_token_usage(usage);
        Ok(())
    }

    fn add_cost_of(&mut self, model: String, cost: f64, timestamp: f64) -> Result<(), NegativeCost> {
        if !cost.is_finite() || cost < 0.0 {
            return Err(NegativeCost(cost));
        }
        self.sums.accumulated_cost += cost;
        self.costs.push(Cost { model, cost, timestamp });
        shorten(&mut self.costs, &mut self.dropped[0]);
        Ok(())
    }

    fn add_latency_of(&mut self, model: String, seconds: f64, response_id: String) {
        // `max` gives 0 for what is no number.
        self.response_latencies.push(ResponseLatency { model, latency: seconds.max(0.0), response_id });
        shorten(&mut self.response_latencies, &mut self.dropped[1]);
    }

    /// Adds sums and records of another.
    pub fn merge(&mut self, other: &Self) {
        self.sums.merge(&other.sums);
        self.costs.extend_from_slice(&other.costs);
        self.response_latencies.extend_from_slice(&other.response_latencies);
        self.token_usages.extend_from_slice(&other.token_usages);
        for (ours, theirs) in self.dropped.iter_mut().zip(other.dropped) {
            *ours += theirs;
        }
        shorten(&mut self.costs, &mut self.dropped[0]);
        shorten(&mut self.response_latencies, &mut self.dropped[1]);
        shorten(&mut self.token_usages, &mut self.dropped[2]);
    }

    /// What came since `baseline`, an earlier state of this. The budget stays with the whole.
    #[must_use]
    pub fn diff(&self, baseline: &Self) -> Self {
        let mut sums = self.sums.since(&baseline.sums);
        sums.max_budget_per_task = None;
        if let Some(usage) = &mut sums.accumulated_token_usage {
            usage.model.clone_from(&self.sums.model_name);
            usage.per_turn_token = 0;
            usage.response_id.clear();
        }
        Self {
            sums,
            costs: since(&self.costs, self.dropped[0], baseline.costs.len() + baseline.dropped[0]),
            response_latencies: since(
                &self.response_latencies,
                self.dropped[1],
                baseline.response_latencies.len() + baseline.dropped[1],
            ),
            token_usages: since(&self.token_usages, self.dropped[2], baseline.token_usages.len() + baseline.dropped[2]),
            dropped: [0; 3],
        }
    }

    /// The sums alone (F1-MET-02).
    #[must_use]
    pub const fn snapshot(&self) -> &MetricsSnapshot {
        &self.sums
    }

    /// The costs, oldest first; the latest 10,000.
    #[must_use]
    pub fn costs(&self) -> &[Cost] {
        &self.costs
    }

    /// The latencies, oldest first; the latest 10,000.
    #[must_use]
    pub fn response_latencies(&self) -> &[ResponseLatency] {
        &self.response_latencies
    }

    /// The calls' tokens, oldest first; the latest 10,000.
    #[must_use]
    pub fn token_usages(&self) -> &[TokenUsage] {
        &self.token_usages
    }

    /// Sets the budget, US dollars.
    pub const fn set_budget(&mut self, dollars: Option<f64>) {
        self.sums.max_budget_per_task = dollars;
    }

    /// One line a member, for logs.
    #[must_use]
    pub fn log(&self) -> String {
        let json = serde_json::to_value(self).unwrap_or_default();
        json.as_object().into_iter().flatten().map(|(name, value)| format!("{name}: {value}\n")).collect()
    }

    fn usage(&mut self) -> &mut TokenUsage {
        self.sums.accumulated_token_usage.get_or_insert_with(TokenUsage::default)
    }
}

fn shorten<T>(records: &mut Vec<T>, dropped: &mut usize) {
    let excess = records.len().saturating_sub(KEPT);
    records.drain(..excess);
    *dropped += excess;
}

/// The records behind the first `known` ever made.
fn since<T: Clone>(records: &[T], dropped: usize, known: usize) -> Vec<T> {
    records.get(known.saturating_sub(dropped)..).unwrap_or_default().to_vec()
}

/// What is read: every member may be missing.
#[derive(Deserialize)]
struct Stored {
    #[serde(flatten)]
    sums: MetricsSnapshot,
    #[serde(default)]
    costs: Vec<Cost>,
    #[serde(default)]
    response_latencies: Vec<ResponseLatency>,
    #[serde(default)]
    token_usages: Vec<TokenUsage>,
}

impl From<Stored> for Metrics {
    fn from(stored: Stored) -> Self {
        let Stored { sums, costs, response_latencies, token_usages } = stored;
        let mut metrics = Self { costs, response_latencies, token_usages, ..Self::of(sums) };
        shorten(&mut metrics.costs, &mut metrics.dropped[0]);
        shorten(&mut metrics.response_latencies, &mut metrics.dropped[1]);
        shorten(&mut metrics.token_usages, &mut metrics.dropped[2]);
        metrics
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn usage(prompt: u64, completion: u64, id: &str) -> TokenUsage {
        TokenUsage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            cache_read_tokens: prompt / 2,
            cache_write_tokens: 3,
            reasoning_tokens: 1,
            context_window: 1000 + prompt,
            per_turn_token: prompt + completion,
            response_id: id.to_owned(),
            ..TokenUsage::default()
        }
    }

    /// What `record.py` does with the reference.
    fn story() -> Value {
        let mut first = Metrics::new("m1");
        let empty = json!(first);
        first.add_cost(0.25, 1.0).unwrap();
        first.add_response_latency(1.5, "r1");
        first.add_token_usage(usage(100, 10, "r1"));
        let baseline = first.clone();
        first.add_cost(0.5, 2.0).unwrap();
        first.add_response_latency(-2.0, "r2");
        first.add_token_usage(usage(40, 20, "r2"));
        let mut second = Metrics::new("m2");
        second.set_budget(Some(3.0));
        second.add_cost(1.0, 3.0).unwrap();
        second.add_token_usage(usage(7, 8, "r3"));
        let mut merged = first.clone();
        merged.merge(&second);
        let mut combined = Metrics::new("default");
        combined.merge(&first);
        combined.merge(&second);
        let refused = [-0.1].map(|cost| combined.add_cost(cost, 4.0).is_err());
        json!({
            "empty": empty, "first": first, "snapshot": first.snapshot(), "diff": first.diff(&baseline),
            "diff_of_nothing": first.diff(&first), "diff_since_the_start": first.diff(&Metrics::new("m1")),
            "merged": merged, "combined": combined, "refused": refused,
            "rates": [first.snapshot().cache_hit_rate(), Metrics::new("m").snapshot().cache_hit_rate()],
        })
    }

    #[test]
    fn sums_and_records_are_the_references() {
        let reference: Value = serde_json::from_str(include_str!("reference.json")).unwrap();
        let ours = story();
        let story = ours.as_object().unwrap();
        assert_eq!(story.len(), reference.as_object().unwrap().len());
        for (step, ours) in story {
            assert_eq!(*ours, reference[step], "{step}");
        }
        for step in ["first", "merged", "diff"] {
            let read: Metrics = serde_json::from_value(reference[step].clone()).unwrap();
            assert_eq!(json!(read), reference[step], "{step} survives a round trip");
        }
    }

    #[test]
    fn what_is_no_money_is_refused_and_changes_nothing() {
        let mut metrics = Metrics::new("m");
        for cost in [-0.01, f64::NAN, f64::INFINITY] {
            assert!(metrics.add_call(usage(1, 1, "r"), cost, 1.0, 1.0).is_err(), "{cost}");
        }
        assert_eq!(metrics, Metrics::new("m"));
        assert_eq!(
            metrics.add_cost(-1.0, 0.0).unwrap_err().to_string(),
            "a cost of -1 cannot be added, it must be a number and not negative"
        );
    }

    #[test]
    fn calls_of_a_fallback_stay_under_its_name() {
        let mut metrics = Metrics::new("primary");
        let answered = TokenUsage { model: "fallback".to_owned(), ..usage(10, 2, "r") };
        metrics.add_call(answered.clone(), 0.5, 2.0, 9.0).unwrap();
        assert_eq!(metrics.snapshot().model_name, "primary");
        assert_eq!(metrics.token_usages(), [answered]);
        assert_eq!(metrics.costs(), [Cost { model: "fallback".to_owned(), cost: 0.5, timestamp: 9.0 }]);
        assert_eq!(metrics.response_latencies()[0].model, "fallback");
    }

    #[test]
    fn records_are_bounded_and_sums_are_not() {
        let mut metrics = Metrics::new("m");
        let mut baseline = metrics.clone();
        for call in 0..KEPT + 5 {
            if call == KEPT + 2 {
                baseline = metrics.clone();
            }
            metrics.add_call(usage(1, 1, &call.to_string()), 1.0, 1.0, 1.0).unwrap();
        }
        assert_eq!((metrics.costs().len(), metrics.token_usages().len()), (KEPT, KEPT));
        assert_eq!(metrics.token_usages()[0].response_id, "5");
        assert!((metrics.snapshot().accumulated_cost - 10_005.0).abs() < 1e-9);
        let ids: Vec<_> =
            metrics.diff(&baseline).token_usages().iter().map(|usage| usage.response_id.clone()).collect();
        assert_eq!(ids, ["10002", "10003", "10004"]);
    }

    #[test]
    fn anything_missing_is_nothing() {
        let read: Metrics = serde_json::from_value(json!({"accumulated_cost": 1.5})).unwrap();
        assert_eq!(read, Metrics::of(MetricsSnapshot { accumulated_cost: 1.5, ..MetricsSnapshot::default() }));
        assert!(read.log().contains("accumulated_cost: 1.5\n"), "{}", read.log());
    }
}
