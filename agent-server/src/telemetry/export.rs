//! Sends batches of spans with this server's own HTTP client, so that TLS and limits are the same as everywhere.
//!
//! The exporter's thread has no runtime: it hands a request to the server's and waits. A collector that does not answer costs
//! that thread its time, and the queue in front of it its newest spans; no call waits for either.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use http::{Request, Response};
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use tokio::runtime::Handle;

use super::settings::{BadTelemetry, Settings};

/// Of an answer this much is read, bytes.
const ANSWER_LIMIT: usize = 64 * 1024;

pub(super) fn exporter(settings: &Settings) -> Result<SpanExporter, BadTelemetry> {
    let failed = |error: &dyn std::fmt::Display| BadTelemetry::new("OTEL_EXPORTER_OTLP_ENDPOINT", error.to_string());
    let client = openhands_llm::http_client().map_err(|error| failed(&error))?;
    let runtime = Handle::try_current().map_err(|error| failed(&error))?;
    let sender = Sender { client, runtime, timeout: settings.timeout, is_failing: AtomicBool::new(false) };
    SpanExporter::builder()
        .with_http()
        .with_http_client(sender)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(settings.endpoint.as_str())
        .with_timeout(settings.timeout)
        .with_headers(settings.headers.iter().cloned().collect())
        .build()
        .map_err(|error| failed(&error))
}

#[derive(Debug)]
struct Sender {
    client: reqwest::Client,
    runtime: Handle,
    timeout: Duration,
    /// Failures are told once until a request succeeds again.
    is_failing: AtomicBool,
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (sending, limit) = (send(self.client.clone(), request), self.timeout);
        // Made there too: a timer needs its runtime from the beginning.
        let result = self.runtime.spawn(async move { tokio::time::timeout(limit, sending).await }).await;
        let result = match result {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(format!("no answer within {:?}", self.timeout).into()),
            Err(error) => Err(error.into()),
        };
        match &result {
            Ok(answer) if answer.status().is_success() => {
                if self.is_failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("the collector takes spans again");
                }
            }
            Ok(answer) => self.failing(&answer.status()),
            Err(error) => self.failing(error),
        }
        result
    }
}

impl Sender {
    fn failing(&self, error: &dyn std::fmt::Display) {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the collector does not take spans; they are lost until it does");
        }
    }
}

async fn send(client: reqwest::Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    // The address may carry a token in its query.
    let mut answer = client.execute(request.try_into()?).await.map_err(reqwest::Error::without_url)?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
        if body.len() + chunk.len() > ANSWER_LIMIT {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = answer.status();
    response.headers_mut().clone_from(answer.headers());
    Ok(response)
}
