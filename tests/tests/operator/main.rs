//! The operator's real binary on a real API server, with the rights and flags of the chart. Pods have no kubelet: a fake node
//! gives them addresses with fake agent-servers on them, which check keys and remember what they were told.

#![expect(clippy::indexing_slicing, reason = "a JSON value answers null for what it lacks, and a check may panic")]

mod claim;
mod loss;
mod pool;
mod stage;
mod trust;
