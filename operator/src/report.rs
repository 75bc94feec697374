//! The endpoint that servers in sandbox pods report to. Only the leader believes reports, only with a token for that pod and
//! Conversation, and only from the pod that the status names. A transition is acknowledged when it is written.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    routing::post,
};
use openhands_protocol::report::{MAX_REPORT, Report};
use tokio::{net::TcpListener, sync::watch, time::timeout};

use crate::{
    context::Context,
    conversation::{Offer, is_transition},
    metrics::Outcome,
    names,
};

/// How long a transition may take to be written before the server is told to send it again.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the endpoint needs: nothing before this replica leads.
type Shared = watch::Receiver<Option<Arc<Context>>>;

/// Serves reports until the process ends. `context` is filled when this replica leads.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, context: Shared) -> std::io::Result<()> {
    let router = Router::new()
        .route(names::REPORT_PATH, post(take))
        .layer(DefaultBodyLimit::max(MAX_REPORT))
        .with_state(context);
    axum::serve(listener, router).await
}

async fn take(State(context): State<Shared>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let Some(cx) = context.borrow().clone() else { return StatusCode::SERVICE_UNAVAILABLE };
    let (status, outcome) = judge(&cx, &headers, &body).await;
    cx.metrics.reports.get_or_create(&Outcome { outcome }).inc();
    status
}

async fn judge(cx: &Context, headers: &HeaderMap, body: &[u8]) -> (StatusCode, &'static str) {
    let Ok(report) = serde_json::from_slice::<Report>(body) else {
        return (StatusCode::UNPROCESSABLE_ENTITY, "malformed");
    };
    let token = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    let Some(uid) = token.and_then(|token| cx.keyring.verify_report_token(token, &report.pod_uid)) else {
        return (StatusCode::UNAUTHORIZED, "unauthorized");
    };
    let Some(view) = cx.world.conversation_of_uid(&uid) else { return (StatusCode::GONE, "gone") };
    // The report may overtake the status write that names its pod: the server sends it again.
    let Some(bound) = &view.status.sandbox else { return (StatusCode::SERVICE_UNAVAILABLE, "early") };
    if bound.pod_uid != report.pod_uid || report.conversation_id.to_string() != *view.conversation_id {
        return (StatusCode::FORBIDDEN, "not_bound");
    }
    let (seq, transition) = (report.seq, is_transition(&view, &report));
    match cx.reports.offer(&view.uid, report) {
        Offer::Late => (StatusCode::NO_CONTENT, "late"),
        Offer::Taken(mut applied) => {
            cx.conversations.add(view.key.clone());
            if !transition {
                return (StatusCode::NO_CONTENT, "taken");
            }
            match timeout(PATIENCE, applied.wait_for(|applied| *applied >= seq)).await {
                Ok(Ok(_)) => (StatusCode::NO_CONTENT, "written"),
                _ => (StatusCode::SERVICE_UNAVAILABLE, "not_written"),
            }
        }
    }
}
