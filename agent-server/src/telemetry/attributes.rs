//! Members of spans by the semantic conventions for generative AI (`gen_ai.*`).

use openhands_conversation::Traced;
use openhands_llm::{
    LlmResponse,
    observer::{CallTrace, Spoken},
};
use openhands_protocol::LlmConfig;
use opentelemetry::{Array, KeyValue, StringValue, Value};

/// Most members that a start request's metadata may add.
const MAX_METADATA: usize = 64;

/// What all spans of a conversation say.
pub(super) fn of_conversation(about: &Traced<'_>) -> Vec<KeyValue> {
    let id = about.id.to_string();
    let mut attributes = vec![KeyValue::new("gen_ai.conversation.id", id.clone()), KeyValue::new("session.id", id)];
    attributes.extend(about.user_id.map(|user| KeyValue::new("user.id", user.to_owned())));
    attributes
}

/// What a start request asks to be said of its runs: `observability_tags` and `observability_metadata`.
pub(super) fn asked(about: &Traced<'_>) -> Vec<KeyValue> {
    let tags = about.request.get("observability_tags").and_then(serde_json::Value::as_array);
    let tags = tags.filter(|tags| !tags.is_empty()).and_then(|tags| array(tags));
    let tags = tags.map(|tags| KeyValue::new("openhands.tags", tags));
    let metadata = about.request.get("observability_metadata").and_then(serde_json::Value::as_object);
    let metadata = metadata
        .into_iter()
        .flatten()
        .take(MAX_METADATA)
        .filter_map(|(name, value)| Some(KeyValue::new(format!("openhands.metadata.{name}"), value_of(value)?)));
    tags.into_iter().chain(metadata).collect()
}

/// A model call.
pub(super) fn of_call(trace: &CallTrace<'_>) -> Vec<KeyValue> {
    let (config, destination) = (trace.config, trace.destination);
    let mut attributes = vec![
        KeyValue::new("gen_ai.operation.name", "chat"),
        KeyValue::new("gen_ai.provider.name", provider(destination.provider).to_owned()),
        KeyValue::new("gen_ai.request.model", destination.model.to_owned()),
        KeyValue::new("gen_ai.request.stream", trace.streamed),
        KeyValue::new("server.address", destination.host.to_owned()),
        KeyValue::new("openhands.usage_id", config.usage_id.clone()),
    ];
    attributes.extend(destination.port.map(|port| KeyValue::new("server.port", i64::from(port))));
    attributes.extend(sampling(config));
    let api = match destination.spoken {
        Spoken::Chat => Some("chat_completions"),
        Spoken::Responses => Some("responses"),
        Spoken::Messages | Spoken::GenerateContent | Spoken::Converse => None,
    };
    attributes.extend(api.map(|api| KeyValue::new("openai.api.type", api)));
    if let Some(first) = trace.first_piece {
        attributes.push(KeyValue::new("gen_ai.response.time_to_first_chunk", first.as_secs_f64()));
    }
    if trace.attempts.len() > 1 {
        attributes.push(KeyValue::new("openhands.attempts", count(trace.attempts.len() as u64)));
    }
    match trace.result {
        Ok(response) => attributes.extend(of_answer(response)),
        Err(error) => attributes.push(KeyValue::new("error.type", error.code())),
    }
    attributes
}

fn sampling(config: &LlmConfig) -> impl Iterator<Item = KeyValue> {
    let floats = [
        ("gen_ai.request.temperature", config.temperature),
        ("gen_ai.request.top_p", config.top_p),
        ("gen_ai.request.top_k", config.top_k),
    ];
    let limit = config.max_output_tokens.map(|limit| KeyValue::new("gen_ai.request.max_tokens", count(limit)));
    let seed = config.seed.map(|seed| KeyValue::new("gen_ai.request.seed", seed));
    floats.into_iter().filter_map(|(name, value)| Some(KeyValue::new(name, value?))).chain(limit).chain(seed)
}

fn of_answer(response: &LlmResponse) -> Vec<KeyValue> {
    let usage = &response.usage;
    let mut attributes = vec![
        KeyValue::new("gen_ai.response.id", response.id.clone()),
        KeyValue::new("gen_ai.response.model", usage.model.clone()),
        KeyValue::new("gen_ai.usage.input_tokens", count(usage.prompt_tokens)),
        KeyValue::new("gen_ai.usage.output_tokens", count(usage.completion_tokens)),
    ];
    if let Some(reason) = &response.finish_reason {
        let reasons = Array::String(vec![StringValue::from(reason.clone())]);
        attributes.push(KeyValue::new("gen_ai.response.finish_reasons", Value::Array(reasons)));
    }
    for (name, tokens) in [
        ("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
        ("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens),
    ] {
        if tokens > 0 {
            attributes.push(KeyValue::new(name, count(tokens)));
        }
    }
    if response.cost > 0.0 {
        // No convention has a name for it; this one is the Python server's.
        attributes.push(KeyValue::new("gen_ai.usage.cost", response.cost));
    }
    attributes
}

/// The convention's name of a provider; ours where it has none.
fn provider(prefix: &str) -> &str {
    match prefix {
        "azure" => "azure.ai.openai",
        "bedrock" => "aws.bedrock",
        "gemini" => "gcp.gemini",
        "vertex_ai" => "gcp.vertex_ai",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        other => other,
    }
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A scalar, or a list of scalars of one kind; others have no place in a span.
fn value_of(json: &serde_json::Value) -> Option<Value> {
    match json {
        serde_json::Value::Bool(flag) => Some((*flag).into()),
        serde_json::Value::Number(number) => {
            number.as_i64().map(Value::from).or_else(|| number.as_f64().map(Value::from))
        }
        serde_json::Value::String(text) => Some(text.clone().into()),
        serde_json::Value::Array(items) => array(items),
        serde_json::Value::Null | serde_json::Value::Object(_) => None,
    }
}

fn array(items: &[serde_json::Value]) -> Option<Value> {
    let array = match items.first()? {
        serde_json::Value::Bool(_) => Array::Bool(items.iter().map(serde_json::Value::as_bool).collect::<Option<_>>()?),
        serde_json::Value::Number(_) => match items.iter().map(serde_json::Value::as_i64).collect() {
            Some(whole) => Array::I64(whole),
            None => Array::F64(items.iter().map(serde_json::Value::as_f64).collect::<Option<_>>()?),
        },
        serde_json::Value::String(_) => {
            let text = |item: &serde_json::Value| item.as_str().map(|text| StringValue::from(text.to_owned()));
            Array::String(items.iter().map(text).collect::<Option<_>>()?)
        }
        serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => return None,
    };
    Some(Value::Array(array))
}
