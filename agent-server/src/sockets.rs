//! The WebSockets: who may open one, and the loops of each.

mod connection;
mod events;
mod guard;
mod session;

pub mod bash;

use axum::{Router, routing::any};

pub use guard::{admit, close};

use crate::state::AppState;

/// All sockets.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/sockets/events/{conversation_id}", any(events::open))
        .route("/sockets/session/{conversation_id}", any(session::open))
        .merge(bash::router())
}
