//! A neutral request becomes a provider's call, its stream a neutral turn.
//!
//! Knows nothing of conversations, tools' code or, completion logs apart, disks. One trait, [`LlmClient`], stands in front of every provider;
//! [`client_for`] makes a client from a model's configuration. An adapter is a folder of small files (request, response, stream,
//! error); differences between providers and models are rows of the tables in `providers` and `models`.

mod adapter;
mod answer;
mod anthropic;
mod aws_frames;
mod bedrock;
mod caller;
pub mod catalog;
pub mod client;
mod clouds;
pub mod completion_log;
#[cfg(test)]
mod conformance;
pub mod count;
mod endpoint;
pub mod error;
mod factory;
mod failure;
pub mod fallback;
mod frames;
mod gemini;
mod history;
mod http;
mod images;
pub mod info;
#[cfg(any(test, feature = "inside"))]
pub mod inside;
mod models;
pub mod observer;
mod openai;
mod plan;
mod pricing;
mod prompted;
mod providers;
pub mod registry;
pub mod request;
pub mod response;
mod responses;
mod retry;
pub mod router;
pub mod session;
mod sides;
mod table;
pub mod token;

pub use client::{DeltaSink, LlmClient};
pub use count::Counter;
pub use error::LlmError;
pub use factory::{Environment, client_for, client_with};
pub use fallback::ProfileLookup;
pub use http::{HttpSetupError, chain, http_client};
pub use info::ModelInfo;
pub use observer::{CallObserver, CallTrace, ClientOptions, RetryNotice};
pub use plan::{PLAN_MODELS, is_paid_by_plan};
pub use registry::{LlmRegistry, RegistryError, Slot};
pub use request::{LlmRequest, OfferedTool};
pub use response::{Delta, LlmResponse};
pub use router::{MultimodalRouter, RandomRouter, Routed, RoutedModel, RoutedModels, Router};
pub use session::Session;
pub use token::{Credentials, TokenSource};
