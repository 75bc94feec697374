//! OpenTelemetry spans of runs, model calls and tools, sent to a collector by OTLP over HTTP (F2-OBS rows).
//!
//! Off unless an `OTEL_*` variable names a collector: no thread, no client, no observer then. Conversations know nothing of
//! this; they tell a [`openhands_conversation::Telemetry`]. docs/observability.md says what is sent.

mod attributes;
mod content;
mod conversation;
mod export;
mod ids;
mod parent;
mod settings;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use openhands_conversation::{ConversationTelemetry, Traced};
use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, SpanLimits},
};

use self::{conversation::Spans, ids::Ids, settings::Settings};
pub use self::{parent::is_parent, settings::BadTelemetry};
use crate::app::POD_UID_VARIABLE;

/// How long the last spans may take to go out once the server ends.
const LAST_SPANS: Duration = Duration::from_secs(2);
/// Most members of a span; what a run of many retries would add beyond is counted as dropped.
const MAX_EVENTS: u32 = 64;

/// The way to a collector.
pub struct Telemetry {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    capture: bool,
}

impl Telemetry {
    /// What the variables ask for; `None` when they name no collector, or switch tracing off.
    ///
    /// # Errors
    /// [`BadTelemetry`] names the variable that cannot be used. A server should run on without traces then.
    pub fn of(variables: &BTreeMap<String, String>) -> Result<Option<Arc<Self>>, BadTelemetry> {
        let Some(settings) = Settings::of(variables)? else { return Ok(None) };
        let exporter = export::exporter(&settings)?;
        let batch = BatchConfigBuilder::default()
            .with_max_queue_size(settings.queue)
            .with_max_export_batch_size(settings.batch)
            .with_scheduled_delay(settings.delay)
            .build();
        let limits = SpanLimits { max_events_per_span: MAX_EVENTS, ..SpanLimits::default() };
        let provider = SdkTracerProvider::builder()
            .with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(batch).build())
            .with_sampler(settings.sampler)
            .with_id_generator(Ids::default())
            .with_span_limits(limits)
            .with_resource(resource(&settings.resource, variables.get(POD_UID_VARIABLE)))
            .build();
        let tracer = provider.tracer("openhands-agent-server");
        tracing::info!(collector = settings.shown_endpoint, content = settings.capture, "traces are on");
        Ok(Some(Arc::new(Self { provider, tracer, capture: settings.capture })))
    }

    /// Sends what waits and ends; bounded.
    pub async fn end(self: &Arc<Self>) {
        let telemetry = Arc::clone(self);
        let ending = tokio::task::spawn_blocking(move || telemetry.provider.shutdown_with_timeout(LAST_SPANS));
        match tokio::time::timeout(LAST_SPANS + Duration::from_millis(500), ending).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "the last spans were not delivered"),
            Ok(Err(_)) | Err(_) => tracing::warn!("the last spans were not delivered in time"),
        }
    }
}

impl openhands_conversation::Telemetry for Telemetry {
    fn conversation(&self, about: &Traced<'_>) -> Arc<dyn ConversationTelemetry> {
        Arc::new(Spans::new(self.tracer.clone(), self.capture, about))
    }
}

fn resource(given: &[(String, String)], pod_uid: Option<&String>) -> Resource {
    let mut attributes = vec![
        KeyValue::new("service.name", "openhands-agent-server"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    attributes.extend(pod_uid.map(|uid| KeyValue::new("k8s.pod.uid", uid.clone())));
    // The last one of a name wins.
    attributes.extend(given.iter().map(|(name, value)| KeyValue::new(name.clone(), value.clone())));
    Resource::builder_empty().with_attributes(attributes).build()
}

#[cfg(test)]
mod tests;
