//! What is counted and timed, and how it is shown. Registered once and shared.

use std::sync::Arc;

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// The operator's metrics.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    /// Own calls that change something in the API server.
    pub writes: Family<Write, Counter>,
    /// Reconciles that ended, by kind.
    pub reconciles: Family<Kind, Counter>,
    /// Reconciles that failed, by kind.
    pub failures: Family<Kind, Counter>,
    /// Seconds of the stages between a Conversation's creation and its agent's start.
    pub stages: Family<Stage, Histogram, fn() -> Histogram>,
    /// Claims, by how they ended.
    pub claims: Family<Outcome, Counter>,
    /// Reports, by what became of them.
    pub reports: Family<Outcome, Counter>,
    /// Objects in memory, by kind.
    pub objects: Family<Kind, Gauge>,
    /// 1 while this replica leads.
    pub leader: Gauge,
}

/// An own write.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Write {
    /// `create`, `patch`, `update` or `delete`.
    pub verb: &'static str,
    /// Plural name, with `/status` for the subresource.
    pub resource: String,
    /// Status code, 0 when there was no answer.
    pub code: u16,
}

/// A kind of object.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Kind {
    /// In lower case.
    pub kind: &'static str,
}

/// A stage of a claim.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Stage {
    /// `secret`, `claim`, `create`, `prove`, `init`, `bind`, `start`, or `total` (creation to bound).
    pub stage: &'static str,
    /// `warm` or `cold`.
    pub start: &'static str,
}

/// How something ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Outcome {
    /// One word.
    pub outcome: &'static str,
}

fn stage_histogram() -> Histogram {
    // 1 ms to 65 s.
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("openhands_operator");
        let metrics = (
            Family::<Write, Counter>::default(),
            Family::<Kind, Counter>::default(),
            Family::<Kind, Counter>::default(),
            Family::<Stage, Histogram, fn() -> Histogram>::new_with_constructor(stage_histogram),
            Family::<Outcome, Counter>::default(),
            Family::<Outcome, Counter>::default(),
            Family::<Kind, Gauge>::default(),
            Gauge::default(),
        );
        let (writes, reconciles, failures, stages, claims, reports, objects, leader) = metrics;
        registry.register("api_writes", "Own calls that change something in the API server", writes.clone());
        registry.register("reconciles", "Reconciles that ended", reconciles.clone());
        registry.register("reconcile_failures", "Reconciles that failed", failures.clone());
        registry.register("stage_seconds", "Stages from creation to the agent's start", stages.clone());
        registry.register("claims", "Claims by outcome", claims.clone());
        registry.register("reports", "Reports of servers by outcome", reports.clone());
        registry.register("cached_objects", "Objects in memory", objects.clone());
        registry.register("leader", "1 while this replica leads", leader.clone());
        Self { registry: Arc::new(registry), writes, reconciles, failures, stages, claims, reports, objects, leader }
    }
}

impl Metrics {
    /// All metrics in the OpenMetrics text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        if let Err(error) = text::encode(&mut out, &self.registry) {
            tracing::error!(%error, "metrics cannot be written");
        }
        out
    }

    /// Records how long a stage took.
    pub fn stage(&self, stage: &'static str, warm: bool, seconds: f64) {
        self.stages.get_or_create(&Stage { stage, start: if warm { "warm" } else { "cold" } }).observe(seconds);
    }
}
