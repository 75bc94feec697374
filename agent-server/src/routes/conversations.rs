//! `/api/conversations`: create, look, list, change, run, delete.

pub mod answer;
mod change;
pub mod create;
mod fork;
mod list;
mod model;
mod observability;
mod source;

use axum::{
    Router,
    routing::{get, post},
};

use crate::state::AppState;

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/api/conversations", post(create::start).get(list::batch))
        .route("/api/conversations/search", get(list::search))
        .route("/api/conversations/count", get(list::count))
        .route("/api/conversations/{conversation_id}", get(list::one).delete(change::delete).patch(change::update))
        .route("/api/conversations/{conversation_id}/agent_final_response", get(list::final_response))
        .route("/api/conversations/{conversation_id}/runtime", get(list::runtime))
        .route("/api/conversations/{conversation_id}/runtime/reprovision", post(list::runtime))
        .route("/api/conversations/{conversation_id}/run", post(change::run))
        .route("/api/conversations/{conversation_id}/pause", post(change::pause))
        .route("/api/conversations/{conversation_id}/interrupt", post(change::interrupt))
        .route("/api/conversations/{conversation_id}/secrets", post(change::secrets))
        .route("/api/conversations/{conversation_id}/confirmation_policy", post(change::confirmation_policy))
        .route("/api/conversations/{conversation_id}/security_analyzer", post(change::security_analyzer))
        .route("/api/conversations/{conversation_id}/switch_llm", post(model::switch_llm))
        .route("/api/conversations/{conversation_id}/switch_profile", post(model::switch_profile))
        .route("/api/conversations/{conversation_id}/fork", post(fork::fork))
        .route("/api/conversations/{conversation_id}/condense", post(model::condense))
        .route("/api/conversations/{conversation_id}/ask_agent", post(model::ask_agent))
}
