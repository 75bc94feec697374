//! REST and WebSocket in front of conversations: the agent-server.
//!
//! Speaks the OpenHands agent-server protocol 1.58.2. Knows HTTP, configuration, initialisation, keys and processes; what a
//! conversation is and does belongs to `openhands-conversation`. Every route answers clearly: what this version does not do is
//! a 501 that names it.

pub mod app;
pub mod auth;
pub mod commands;
pub mod config;
pub mod cors;
pub mod error;
pub mod extract;
pub mod init;
pub mod install;
mod leftover;
pub mod llm_defaults;
pub mod login;
pub mod lookup;
pub mod openapi;
pub mod query;
pub mod report;
pub mod router;
pub mod routes;
pub mod run;
pub mod server;
pub mod service;
pub mod sign_in;
pub mod slash;
pub mod sockets;
pub mod state;
pub mod stored;
pub mod supervise;
pub mod telemetry;
pub mod toolbox;
pub mod validation;
