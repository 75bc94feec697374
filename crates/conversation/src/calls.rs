//! The lists of single model calls (costs, latencies, token usages), shared between the task that appends and readers that
//! show them. They grow with every call, so they are kept apart from the state that is copied on every change.

use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;
use openhands_protocol::metrics::TokenUsage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// So many entries of each list are kept, as in `openhands_protocol::metrics`; older calls are in the sums only.
const KEPT: usize = 10_000;

/// One model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallRecord {
    /// Unique, so that a record that was folded in already is known again.
    pub(crate) id: String,
    pub(crate) usage_id: String,
    /// The model that answered, which may be a fallback's.
    pub(crate) model: String,
    /// The model that the usage id was configured with.
    #[serde(default)]
    pub(crate) configured: String,
    /// US dollars.
    pub(crate) cost: f64,
    /// Unix seconds.
    pub(crate) at: f64,
    /// Seconds.
    pub(crate) latency: f64,
    pub(crate) usage: TokenUsage,
}

/// The lists of one usage id, each entry as the reference writes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CallLists {
    pub(crate) costs: Vec<Value>,
    pub(crate) response_latencies: Vec<Value>,
    pub(crate) token_usages: Vec<Value>,
}

/// All lists by usage id. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Mutex<IndexMap<String, CallLists>>>);

impl Calls {
    /// Takes over lists that were stored.
    pub(crate) fn restore(&self, usage_id: &str, lists: CallLists) {
        self.lock().insert(usage_id.to_owned(), lists);
    }

    /// Appends a call.
    pub(crate) fn add(&self, call: &CallRecord) {
        let mut all = self.lock();
        let lists = all.entry(call.usage_id.clone()).or_default();
        if call.cost > 0.0 {
            lists.costs.push(json!({"model": call.model, "cost": call.cost, "timestamp": call.at}));
        }
        lists
            .response_latencies
            .push(json!({"model": call.model, "latency": call.latency, "response_id": call.usage.response_id}));
        lists.token_usages.push(serde_json::to_value(&call.usage).unwrap_or_default());
        for list in [&mut lists.costs, &mut lists.response_latencies, &mut lists.token_usages] {
            list.drain(..list.len().saturating_sub(KEPT));
        }
    }

    /// The lists of a usage id; empty ones when there are none.
    pub(crate) fn of(&self, usage_id: &str) -> CallLists {
        self.lock().get(usage_id).cloned().unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, IndexMap<String, CallLists>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_calls_are_kept() {
        let calls = Calls::default();
        let call = |number: usize| CallRecord {
            id: number.to_string(),
            usage_id: "agent".to_owned(),
            model: "m".to_owned(),
            configured: "m".to_owned(),
            cost: 1.0,
            at: 1.0,
            latency: 1.0,
            usage: TokenUsage { response_id: number.to_string(), ..TokenUsage::default() },
        };
        (0..KEPT + 2).for_each(|number| calls.add(&call(number)));
        let CallLists { costs, response_latencies, token_usages } = calls.of("agent");
        assert_eq!((costs.len(), response_latencies.len(), token_usages.len()), (KEPT, KEPT, KEPT));
        assert_eq!(
            (&response_latencies[0]["response_id"], &token_usages[0]["response_id"]),
            (&json!("2"), &json!("2"))
        );
    }
}
