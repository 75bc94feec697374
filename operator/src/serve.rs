//! The two small HTTP servers: metrics and probes for the cluster, reports for sandbox pods.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::net::TcpListener;

use crate::metrics::Metrics;

/// What probes are told.
#[derive(Clone, Default)]
pub struct Health {
    ready: Arc<AtomicBool>,
}

impl Health {
    /// From now on the replica is ready: it can reach the API server, and a leader has filled its caches.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct Shown {
    metrics: Metrics,
    health: Health,
}

/// Serves `/metrics`, `/healthz` and `/readyz` until the process ends.
///
/// # Errors
/// When the listener fails.
pub async fn metrics(listener: TcpListener, metrics: Metrics, health: Health) -> std::io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(show))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .with_state(Shown { metrics, health });
    axum::serve(listener, router).await
}

async fn show(State(shown): State<Shown>) -> ([(&'static str, &'static str); 1], String) {
    ([("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")], shown.metrics.text())
}

async fn ready(State(shown): State<Shown>) -> (StatusCode, &'static str) {
    if shown.health.ready.load(Ordering::Relaxed) {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "caches are not filled yet")
    }
}
