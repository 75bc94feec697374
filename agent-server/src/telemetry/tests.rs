//! Spans as a collector gets them, on a real socket, decoded by the conventions' own types.

use std::{
    sync::Mutex,
    time::{Instant, SystemTime},
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use openhands_conversation::{Telemetry as _, ToolTrace};
use openhands_llm::{
    LlmError, LlmRequest, LlmResponse, OfferedTool,
    observer::{AttemptTrace, CallTrace, Destination, Spoken},
};
use openhands_protocol::{
    Content, ConversationId, ExecutionStatus, LlmConfig, Message, Role, ToolCall, metrics::TokenUsage,
};
use openhands_secrets::SecretRegistry;
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::any_value::Value as Any,
    trace::v1::{Span, status::StatusCode},
};
use prost::Message as _;
use serde_json::{Map, Value, json};

use super::*;

/// What a collector got.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<(HeaderMap, ExportTraceServiceRequest)>>>);

impl Collector {
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let take = async |State(all): State<Self>, headers: HeaderMap, body: Bytes| {
            all.0.lock().unwrap().push((headers, ExportTraceServiceRequest::decode(body).unwrap()));
        };
        let router = Router::new().route("/v1/traces", post(take)).with_state(collector.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (collector, address)
    }

    fn spans(&self) -> Vec<Span> {
        let all = self.0.lock().unwrap();
        let scopes = all.iter().flat_map(|(_, batch)| &batch.resource_spans).flat_map(|one| &one.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }
}

fn members(span: &Span) -> Value {
    let member = |pair: &opentelemetry_proto::tonic::common::v1::KeyValue| {
        (pair.key.clone(), plain(pair.value.clone().unwrap().value))
    };
    span.attributes.iter().map(member).collect::<Map<String, Value>>().into()
}

fn plain(value: Option<Any>) -> Value {
    match value.unwrap() {
        Any::StringValue(text) => json!(text),
        Any::BoolValue(flag) => json!(flag),
        Any::IntValue(number) => json!(number),
        Any::DoubleValue(number) => json!(number),
        Any::ArrayValue(array) => array.values.into_iter().map(|item| plain(item.value)).collect(),
        other => panic!("{other:?}"),
    }
}

fn telemetry(address: &str, more: &[(&str, &str)]) -> Arc<Telemetry> {
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", address)];
    let variables = variables.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Telemetry::of(&variables.collect()).unwrap().unwrap()
}

fn request() -> LlmRequest {
    LlmRequest {
        messages: vec![
            Message::new(Role::System, vec![Content::text("be brief")]),
            Message::new(Role::User, vec![Content::text("say s3cret-value")]),
        ],
        tools: vec![OfferedTool { name: "terminal".to_owned(), description: "runs".to_owned(), parameters: json!({}) }],
    }
}

fn answer() -> LlmResponse {
    let call = ToolCall {
        id: "call_1".to_owned(),
        responses_item_id: None,
        name: "terminal".to_owned(),
        arguments: "{}".to_owned(),
        origin: Default::default(),
    };
    LlmResponse {
        id: "resp-1".to_owned(),
        message: Message {
            tool_calls: Some(vec![call]),
            ..Message::new(Role::Assistant, vec![Content::text("s3cret-value")])
        },
        usage: TokenUsage {
            model: "openai/m-2026".to_owned(),
            prompt_tokens: 100,
            completion_tokens: 20,
            cache_read_tokens: 40,
            reasoning_tokens: 5,
            ..TokenUsage::default()
        },
        cost: 0.25,
        finish_reason: Some("tool_calls".to_owned()),
        usage_id: None,
    }
}

/// A call that began before anything else.
fn tell(spans: &dyn ConversationTelemetry, result: Result<&LlmResponse, &LlmError>) {
    tell_at(spans, result, SystemTime::now() - Duration::from_secs(3));
}

/// A call that failed once, then gave this.
fn tell_at(spans: &dyn ConversationTelemetry, result: Result<&LlmResponse, &LlmError>, began: SystemTime) {
    let config = LlmConfig { temperature: Some(0.5), usage_id: "agent".to_owned(), ..LlmConfig::default() };
    let second = Duration::from_secs(1);
    let failed = AttemptTrace { began: Duration::ZERO, latency: second, failure: Some("LLMRateLimitError") };
    let last = AttemptTrace { began: 2 * second, latency: second, failure: result.err().map(LlmError::code) };
    spans.finished(&CallTrace {
        config: &config,
        destination: Destination {
            provider: "gemini",
            spoken: Spoken::Chat,
            host: "models.example",
            port: Some(443),
            model: "m",
        },
        request: &request(),
        sent: &[],
        streamed: true,
        result,
        attempts: &[failed, last],
        began,
        latency: 3 * second,
        first_piece: Some(second / 2),
        context_window: 0,
    });
}

fn secrets() -> Arc<SecretRegistry> {
    let secrets = SecretRegistry::default();
    secrets.update(json!({"TOKEN": "s3cret-value"}).as_object().unwrap(), None).unwrap();
    Arc::new(secrets)
}

fn observed(telemetry: &Telemetry, id: ConversationId, request: &Value) -> Arc<dyn ConversationTelemetry> {
    telemetry.conversation(&Traced {
        id,
        user_id: Some("ann"),
        request: request.as_object().unwrap(),
        secrets: secrets(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_a_span_with_its_calls_and_tools_below() {
    let (collector, address) = Collector::start().await;
    let telemetry = telemetry(&address, &[("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k%20v"), (POD_UID_VARIABLE, "pod-1")]);
    let id = ConversationId::random();
    let asked = json!({"observability_tags": ["nightly"], "observability_metadata": {"team": "blue", "tries": [1, 2]}});
    let spans = observed(&telemetry, id, &asked);
    spans.run_began();
    tell_at(&*spans, Ok(&answer()), SystemTime::now());
    spans.tool_ended(&ToolTrace {
        name: "terminal",
        call_id: "call_1",
        began: SystemTime::now(),
        latency: Duration::from_secs(1),
        error: Some("tool_failed"),
    });
    spans.run_ended(ExecutionStatus::Finished);
    telemetry.end().await;

    let all = collector.spans();
    let [chat, tool, run] = &all[..] else { panic!("{all:?}") };
    let names = [&run.name, &chat.name, &tool.name];
    assert_eq!(names, ["invoke_agent", "chat m", "execute_tool terminal"]);
    // The conversation is the trace; the run is its root.
    assert_eq!(run.trace_id, id.0.as_bytes());
    assert!(run.parent_span_id.is_empty());
    for below in [chat, tool] {
        assert_eq!((&below.trace_id, &below.parent_span_id), (&run.trace_id, &run.span_id));
    }
    let text = id.to_string();
    let common = json!({"gen_ai.conversation.id": text, "session.id": text, "user.id": "ann"});
    let with_common = |mut own: Value| {
        own.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
        own
    };
    assert_eq!(
        members(chat),
        with_common(json!({
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "m",
            "gen_ai.request.stream": true, "gen_ai.request.temperature": 0.5, "openai.api.type": "chat_completions",
            "server.address": "models.example", "server.port": 443, "openhands.usage_id": "agent",
            "gen_ai.response.time_to_first_chunk": 0.5, "openhands.attempts": 2,
            "gen_ai.response.id": "resp-1", "gen_ai.response.model": "openai/m-2026",
            "gen_ai.response.finish_reasons": ["tool_calls"],
            "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.cache_read.input_tokens": 40, "gen_ai.usage.reasoning.output_tokens": 5,
            "gen_ai.usage.cost": 0.25,
        }))
    );
    assert_eq!(chat.end_time_unix_nano - chat.start_time_unix_nano, 3_000_000_000);
    let [event] = &chat.events[..] else { panic!("{chat:?}") };
    assert_eq!(event.name, "openhands.attempt_failed");
    assert_eq!(event.time_unix_nano - chat.start_time_unix_nano, 1_000_000_000);
    assert_eq!(
        members(tool),
        with_common(json!({
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "terminal", "gen_ai.tool.call.id": "call_1",
            "gen_ai.tool.type": "function", "error.type": "tool_failed",
        }))
    );
    assert_eq!(tool.status.as_ref().unwrap().code(), StatusCode::Error);
    assert_eq!(
        members(run),
        with_common(json!({
            "gen_ai.operation.name": "invoke_agent", "openhands.execution_status": "finished",
            "openhands.tags": ["nightly"], "openhands.metadata.team": "blue", "openhands.metadata.tries": [1, 2],
        }))
    );
    let (headers, batch) = collector.0.lock().unwrap().remove(0);
    assert_eq!(headers.get("x-key").unwrap(), "k v");
    assert_eq!(headers.get("content-type").unwrap(), "application/x-protobuf");
    let resource = batch.resource_spans.first().unwrap().resource.clone().unwrap();
    let resource = members(&Span { attributes: resource.attributes, ..Span::default() });
    let expected = json!({
        "service.name": "openhands-agent-server", "service.version": env!("CARGO_PKG_VERSION"), "k8s.pod.uid": "pod-1",
    });
    assert_eq!(resource, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_trace_is_continued() {
    let (collector, address) = Collector::start().await;
    let telemetry = telemetry(&address, &[]);
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let asked = json!({"observability_parent_span_context": parent, "observability_span_name": "nightly.fix"});
    let spans = observed(&telemetry, ConversationId::random(), &asked);
    spans.run_began();
    spans.run_ended(ExecutionStatus::Error);
    // Without a run: a title, for instance.
    tell(&*spans, Ok(&answer()));
    // A trace that is not sampled at its root is not continued.
    let unsampled = parent.replace("-01", "-00");
    observed(&telemetry, ConversationId::random(), &json!({"observability_parent_span_context": unsampled}))
        .run_began();
    telemetry.end().await;
    let all = collector.spans();
    let [run, chat] = &all[..] else { panic!("{all:?}") };
    assert_eq!(run.name, "nightly.fix");
    assert_eq!(run.status.as_ref().unwrap().code(), StatusCode::Error);
    for span in [run, chat] {
        assert_eq!(hex::encode(&span.trace_id), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(hex::encode(&span.parent_span_id), "b7ad6b7169203331");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_stays_here_unless_it_is_asked_for() {
    const CAPTURE: (&str, &str) = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    let refused = LlmError::BadRequest("you said: say s3cret-value".to_owned());
    for capture in [false, true] {
        let (collector, address) = Collector::start().await;
        let telemetry = telemetry(&address, if capture { &[CAPTURE] } else { &[] });
        let spans = observed(&telemetry, ConversationId::random(), &json!({}));
        tell(&*spans, Ok(&answer()));
        tell(&*spans, Err(&refused));
        telemetry.end().await;
        let all = collector.spans();
        let [answered, failed] = &all[..] else { panic!("{all:?}") };
        assert!(!format!("{all:?}").contains("s3cret-value"), "{all:?}");
        let (answered, description) = (members(answered), failed.status.clone().unwrap().message);
        if !capture {
            assert!(!format!("{all:?}").contains("brief"), "{all:?}");
            assert_eq!(description, "LLMBadRequestError");
            continue;
        }
        assert_eq!(description, "you said: say <secret-hidden>");
        let said = |name: &str| serde_json::from_str::<Value>(answered[name].as_str().unwrap()).unwrap();
        assert_eq!(said("gen_ai.system_instructions"), json!([{"type": "text", "content": "be brief"}]));
        let asked = json!([{"role": "user", "parts": [{"type": "text", "content": "say <secret-hidden>"}]}]);
        assert_eq!(said("gen_ai.input.messages"), asked);
        let answered = json!([{"role": "assistant", "finish_reason": "tool_calls", "parts": [
            {"type": "text", "content": "<secret-hidden>"},
            {"type": "tool_call", "id": "call_1", "name": "terminal", "arguments": "{}"},
        ]}]);
        assert_eq!(said("gen_ai.output.messages"), answered);
        let tools = json!([{"type": "function", "name": "terminal", "description": "runs", "parameters": {}}]);
        assert_eq!(said("gen_ai.tool.definitions"), tools);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_slows_nobody() {
    // Accepts and says nothing.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let telemetry = telemetry(&address, &[("OTEL_BSP_MAX_QUEUE_SIZE", "64"), ("OTEL_BSP_SCHEDULE_DELAY", "10")]);
    let spans = observed(&telemetry, ConversationId::random(), &json!({}));
    let (response, begin) = (answer(), Instant::now());
    for _ in 0..5000 {
        tell(&*spans, Ok(&response));
    }
    let spent = begin.elapsed();
    assert!(spent < Duration::from_secs(5), "{spent:?} for 5,000 calls");
    let begin = Instant::now();
    telemetry.end().await;
    let spent = begin.elapsed();
    assert!(spent < LAST_SPANS + Duration::from_secs(2), "{spent:?} to end");
}

#[test]
fn without_a_collector_there_is_nothing() {
    assert!(Telemetry::of(&BTreeMap::new()).unwrap().is_none());
}
