//! The OpenHands operator: makes pods, claims and status follow Conversations and WarmPools.

pub mod api;
pub mod keyring;
pub mod machine;
pub mod metrics;
pub mod names;
pub mod pod;
pub mod queue;
pub mod view;
