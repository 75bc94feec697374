//! A neutral request becomes a provider's call, its stream a neutral turn.
//!
//! Knows nothing of conversations, tools' code or disks. One trait, [`LlmClient`], stands in front of every provider;
//! [`client_for`] makes a client from a model's configuration. An adapter is a folder of small files (request, response, stream,
//! error); differences between providers and models are rows of the tables in `providers` and `models`.

mod adapter;
mod answer;
mod anthropic;
mod aws_frames;
mod bedrock;
mod caller;
pub mod client;
#[cfg(test)]
mod conformance;
mod endpoint;
pub mod error;
mod factory;
mod failure;
mod frames;
mod gemini;
mod history;
mod http;
mod images;
mod models;
pub mod observer;
mod openai;
mod pricing;
mod prompted;
mod providers;
pub mod request;
pub mod response;
mod responses;
mod retry;
mod sides;
mod table;
pub mod token;

pub use client::{DeltaSink, LlmClient};
pub use error::LlmError;
pub use factory::{Environment, client_for, client_with};
pub use http::{HttpSetupError, http_client};
pub use observer::{CallObserver, CallTrace, ClientOptions, RetryNotice};
pub use request::{LlmRequest, OfferedTool};
pub use response::{Delta, LlmResponse};
pub use token::{Credentials, TokenSource};
