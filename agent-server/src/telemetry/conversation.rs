//! The spans of one conversation: `invoke_agent` for a run, below it `chat` for a model call and `execute_tool` for a tool.
//!
//! A run's span is open while it runs; the others are made when they have ended, with the time they began.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use openhands_conversation::{ConversationTelemetry, ToolTrace, Traced};
use openhands_llm::{CallObserver, LlmError, observer::CallTrace};
use openhands_protocol::ExecutionStatus;
use openhands_secrets::SecretRegistry;
use opentelemetry::{
    Context, KeyValue,
    trace::{Event, Span as _, SpanBuilder, SpanKind, Status, TraceContextExt as _, TraceId, Tracer as _},
};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use serde_json::Value;

use super::{attributes, content, ids, parent};

/// The name that start requests have by default; it says nothing.
const DEFAULT_NAME: &str = "conversation";
/// Longest text of an error, bytes; only sent along with content.
const ERROR_LIMIT: usize = 1024;

/// The spans of one conversation.
pub(super) struct Spans {
    tracer: SdkTracer,
    capture: bool,
    secrets: Arc<SecretRegistry>,
    /// What every span says.
    common: Vec<KeyValue>,
    /// What runs say besides.
    of_runs: Vec<KeyValue>,
    run_name: String,
    trace: TraceId,
    /// The caller's span, or nothing.
    parent: Context,
    /// The run that goes on, and when it began.
    run: Mutex<Option<(Context, SystemTime)>>,
}

impl Spans {
    pub(super) fn new(tracer: SdkTracer, capture: bool, about: &Traced<'_>) -> Self {
        let text = |name: &str| about.request.get(name).and_then(Value::as_str);
        let parent = text("observability_parent_span_context").and_then(parent::read);
        let parent = parent.map_or_else(Context::new, |span| Context::new().with_remote_span_context(span));
        let name = text("observability_span_name").filter(|name| !name.is_empty() && *name != DEFAULT_NAME);
        Self {
            tracer,
            capture,
            secrets: Arc::clone(&about.secrets),
            common: attributes::of_conversation(about),
            of_runs: attributes::asked(about),
            run_name: name.unwrap_or("invoke_agent").to_owned(),
            trace: TraceId::from(about.id.0.as_u128()),
            parent,
            run: Mutex::default(),
        }
    }

    fn begin(&self, mut span: SpanBuilder, parent: &Context) -> Span {
        span.attributes.get_or_insert_default().extend(self.common.iter().cloned());
        ids::with_trace(self.trace, || self.tracer.build_with_context(span, parent))
    }

    /// Makes the span of what began then: below the run, or beside it when it began before (a title is made).
    fn below_run(&self, span: SpanBuilder, began: SystemTime) -> Span {
        let run = self.lock().clone().filter(|(_, run_began)| *run_began <= began);
        self.begin(span.with_start_time(began), run.as_ref().map_or(&self.parent, |(run, _)| run))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Context, SystemTime)>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn description(&self, error: &LlmError) -> String {
        // What a provider says may repeat the prompt.
        if !self.capture {
            return error.code().to_owned();
        }
        let mut text = self.secrets.mask(&error.to_string());
        let end = (0..=ERROR_LIMIT.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
        text
    }
}

impl CallObserver for Spans {
    fn finished(&self, trace: &CallTrace<'_>) {
        let mut about = attributes::of_call(trace);
        if self.capture {
            about.extend(content::of_request(trace.request, &self.secrets));
            about.extend(trace.result.ok().and_then(|response| content::of_answer(response, &self.secrets)));
        }
        let failures = trace.attempts.iter().zip(1..).filter_map(|(attempt, number)| {
            let when = trace.began + attempt.began + attempt.latency;
            let members = vec![
                KeyValue::new("error.type", attempt.failure?),
                KeyValue::new("openhands.attempt", i64::from(number)),
            ];
            Some(Event::new("openhands.attempt_failed", when, members, 0))
        });
        let span = SpanBuilder::from_name(format!("chat {}", trace.destination.model))
            .with_kind(SpanKind::Client)
            .with_attributes(about)
            .with_events(failures.collect());
        let mut span = self.below_run(span, trace.began);
        if let Err(error) = trace.result {
            span.set_status(Status::error(self.description(error)));
        }
        span.end_with_timestamp(trace.began + trace.latency);
    }
}

impl ConversationTelemetry for Spans {
    fn run_began(&self) {
        let mut about = vec![KeyValue::new("gen_ai.operation.name", "invoke_agent")];
        about.extend(self.of_runs.iter().cloned());
        let now = SystemTime::now();
        let span = SpanBuilder::from_name(self.run_name.clone())
            .with_kind(SpanKind::Internal)
            .with_start_time(now)
            .with_attributes(about);
        let span = self.begin(span, &self.parent);
        // One that is still open ends here, when it is dropped.
        *self.lock() = Some((Context::new().with_span(span), now));
    }

    fn run_ended(&self, status: ExecutionStatus) {
        let Some((run, _)) = self.lock().take() else { return };
        let span = run.span();
        let word = serde_json::to_value(status).ok();
        let word = word.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        if matches!(status, ExecutionStatus::Error | ExecutionStatus::Stuck) {
            span.set_attribute(KeyValue::new("error.type", word.clone()));
            span.set_status(Status::error(word.clone()));
        }
        span.set_attribute(KeyValue::new("openhands.execution_status", word));
        span.end();
    }

    fn tool_ended(&self, tool: &ToolTrace<'_>) {
        let mut about = vec![
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", tool.name.to_owned()),
            KeyValue::new("gen_ai.tool.call.id", tool.call_id.to_owned()),
            KeyValue::new("gen_ai.tool.type", "function"),
        ];
        about.extend(tool.error.map(|error| KeyValue::new("error.type", error)));
        let span = SpanBuilder::from_name(format!("execute_tool {}", tool.name))
            .with_kind(SpanKind::Internal)
            .with_attributes(about);
        let mut span = self.below_run(span, tool.began);
        if let Some(error) = tool.error {
            span.set_status(Status::error(error));
        }
        span.end_with_timestamp(tool.began + tool.latency);
    }
}
