//! The OpenHands operator: makes pods, claims and status follow Conversations and WarmPools.
//!
//! Decisions are pure (`machine`, `pool::plan`, `conversation::status`); `conversation` and `pool` carry them out; `api`, `view`,
//! `serve` and `report` are the rim. It knows the agent-server by its wire protocol only.

pub mod api;
pub mod cli;
pub mod context;
pub mod conversation;
pub mod dispatch;
pub mod elector;
pub mod endpoint;
pub mod events;
pub mod keyring;
pub mod machine;
pub mod metrics;
pub mod names;
pub mod network;
pub mod pod;
pub mod pool;
pub mod queue;
pub mod report;
pub mod run;
pub mod serve;
pub mod view;
