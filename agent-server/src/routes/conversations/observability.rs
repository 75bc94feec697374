//! What a start request says for traces: its `observability_*` members, and the headers that stand in for them when the body
//! says nothing.

use axum::http::HeaderMap;
use serde_json::{Map, Value, json};

use crate::{error::ApiError, telemetry::is_parent, validation::Problem};

const SPAN_NAME: &str = "observability_span_name";
const TAGS: &str = "observability_tags";
const METADATA: &str = "observability_metadata";
const PARENT: &str = "observability_parent_span_context";
/// The name without a meaning.
const DEFAULT_NAME: &str = "conversation";
/// Longest span name and tag, characters.
const MAX_NAME: usize = 128;
/// Most tags and members of metadata.
const MAX_ITEMS: usize = 64;
/// Longest parent, bytes.
const MAX_PARENT: usize = 4096;

/// Puts the headers' values into the body where it has none, and checks all of them.
///
/// # Errors
/// 422 names the member.
pub(super) fn take(body: &mut Map<String, Value>, headers: &HeaderMap) -> Result<(), ApiError> {
    // Clients send null, the default name and an empty list for "not given".
    body.retain(|member, value| match member.as_str() {
        SPAN_NAME => !value.is_null() && value != DEFAULT_NAME,
        TAGS => !value.is_null() && value.as_array().is_none_or(|tags| !tags.is_empty()),
        _ => !value.is_null(),
    });
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty());
    if let Some(name) = header("x-openhands-observability-span-name") {
        body.entry(SPAN_NAME).or_insert_with(|| json!(name));
    }
    if let Some(tags) = header("x-openhands-observability-tags") {
        let tags: Value = tags.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect();
        body.entry(TAGS).or_insert(tags);
    }
    if let Some(text) = header("x-openhands-observability-metadata") {
        let Ok(Value::Object(mut metadata)) = serde_json::from_str(text) else {
            return Err(ApiError::Unprocessable("X-OpenHands-Observability-Metadata must be a JSON object".to_owned()));
        };
        // Of a name that both have the body's value counts.
        if let Some(Value::Object(own)) = body.get(METADATA) {
            metadata.extend(own.clone());
        }
        body.insert(METADATA.to_owned(), metadata.into());
    }
    let is_blank = |value: &Value| value.as_str().is_some_and(str::is_empty);
    if body.get(PARENT).is_none_or(is_blank) {
        // A caller's own tracing comes last: it may know nothing of conversations.
        let parent = header("x-openhands-observability-parent-span-context")
            .or_else(|| header("traceparent").filter(|text| is_parent(text)));
        if let Some(parent) = parent {
            body.insert(PARENT.to_owned(), json!(parent));
        }
    }
    check(body)
}

fn check(body: &Map<String, Value>) -> Result<(), ApiError> {
    if let Some(name) = body.get(SPAN_NAME) {
        let is_name = |name: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
            !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(allowed)
        };
        if !name.as_str().is_some_and(is_name) {
            return refuse(SPAN_NAME, "must be 1 to 128 letters, digits and . _ : / -");
        }
    }
    if let Some(tags) = body.get(TAGS) {
        let is_tag = |tag: &Value| tag.as_str().is_some_and(|tag| tag.chars().count() <= MAX_NAME);
        if !tags.as_array().is_some_and(|tags| tags.len() <= MAX_ITEMS && tags.iter().all(is_tag)) {
            return refuse(TAGS, "must be a list of at most 64 strings of at most 128 characters");
        }
    }
    if let Some(metadata) = body.get(METADATA) {
        let is_sound = |metadata: &Map<String, Value>| {
            metadata.len() <= MAX_ITEMS && metadata.iter().all(|(name, value)| !name.is_empty() && is_plain(value))
        };
        if !metadata.as_object().is_some_and(is_sound) {
            return refuse(METADATA, "must be an object of at most 64 scalars and lists of scalars of one kind");
        }
    }
    match body.get(PARENT) {
        Some(Value::String(parent)) if parent.len() <= MAX_PARENT => Ok(()),
        None => Ok(()),
        Some(_) => refuse(PARENT, "must be a string of at most 4096 bytes"),
    }
}

/// What a span can carry: a scalar, or a list of scalars of one kind.
fn is_plain(value: &Value) -> bool {
    let kind = |value: &Value| match value {
        Value::Bool(_) => Some(0),
        Value::Number(_) => Some(1),
        Value::String(_) => Some(2),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    match value {
        Value::Array(items) => {
            let first = items.first().and_then(kind);
            items.iter().all(|item| kind(item).is_some() && kind(item) == first)
        }
        other => kind(other).is_some(),
    }
}

fn refuse(member: &str, why: &str) -> Result<(), ApiError> {
    Err(ApiError::invalid(Problem::new("value_error", ["body", member], why.to_owned())))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    const W3C: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn taken(body: Value, headers: &[(&'static str, &'static str)]) -> Result<Value, ApiError> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let Value::Object(mut body) = body else { panic!("an object") };
        take(&mut body, &headers).map(|()| body.into())
    }

    #[test]
    fn headers_stand_in_for_the_body() {
        let headers = [
            ("x-openhands-observability-span-name", "nightly.fix"),
            ("x-openhands-observability-tags", "a, b,"),
            ("x-openhands-observability-metadata", r#"{"team": "blue", "try": 2}"#),
            ("x-openhands-observability-parent-span-context", "{\"trace_id\": \"x\"}"),
            ("traceparent", W3C),
        ];
        let expected = json!({
            "observability_span_name": "nightly.fix",
            "observability_tags": ["a", "b"],
            "observability_metadata": {"team": "blue", "try": 2},
            "observability_parent_span_context": "{\"trace_id\": \"x\"}",
        });
        assert_eq!(taken(json!({}), &headers).unwrap(), expected);
        let body = json!({
            "observability_span_name": "own",
            "observability_tags": ["c"],
            "observability_metadata": {"team": "red"},
            "observability_parent_span_context": "own",
        });
        let mut expected = body.clone();
        expected["observability_metadata"] = json!({"team": "red", "try": 2});
        assert_eq!(taken(body, &headers).unwrap(), expected);
        let blank = json!({"observability_span_name": "conversation", "observability_tags": [], "user_id": null});
        let labelled = json!({"observability_span_name": "nightly.fix", "observability_tags": ["a", "b"]});
        assert_eq!(taken(blank.clone(), &headers[..2]).unwrap(), labelled);
        assert_eq!(taken(blank, &[]).unwrap(), json!({}));
        let parent = |headers| taken(json!({}), headers).unwrap();
        assert_eq!(parent(&[("traceparent", W3C)]), json!({"observability_parent_span_context": W3C}));
        assert_eq!(parent(&[("traceparent", "nonsense")]), json!({}));
    }

    #[test]
    fn bad_members_are_named() {
        for (member, value) in [
            (SPAN_NAME, json!("a b")),
            (SPAN_NAME, json!("x".repeat(129))),
            (TAGS, json!("a")),
            (TAGS, json!([1])),
            (METADATA, json!({"a": {}})),
            (METADATA, json!({"a": [1, "b"]})),
            (METADATA, json!({"": 1})),
            (PARENT, json!(1)),
        ] {
            let mut body = Map::new();
            body.insert(member.to_owned(), value);
            let error = taken(body.into(), &[]).unwrap_err();
            assert!(format!("{error:?}").contains(member), "{member}: {error:?}");
        }
        let error = taken(json!({}), &[("x-openhands-observability-metadata", "[]")]).unwrap_err();
        assert!(format!("{error:?}").contains("JSON object"));
    }
}
