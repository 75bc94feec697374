//! A neutral request becomes a provider's call, its stream a neutral turn.
//!
//! Knows nothing of conversations, tools' code or disks. One trait, [`LlmClient`], stands in front of every provider.

pub mod client;
pub mod error;
pub mod request;
pub mod response;

pub use client::{DeltaSink, LlmClient};
pub use error::LlmError;
pub use request::{LlmRequest, OfferedTool};
pub use response::{Delta, LlmResponse};
