//! Calls out of what a model wrote. Forgiving: a call may lack its end, which the stop word cuts off.

use serde_json::{Map, Value};

use super::BEGIN;
use crate::OfferedTool;

/// More calls than this in one answer are a model gone wrong.
const CALLS_LIMIT: usize = 64;

/// The text before the first call, and the calls: name and arguments.
pub(super) fn answer(text: &str, tools: &[OfferedTool]) -> (String, Vec<(String, String)>) {
    let Some(at) = text.find(BEGIN) else { return (text.to_owned(), Vec::new()) };
    let (said, rest) = text.split_at(at);
    // Marks that some models put around their calls or thoughts.
    let said = said.trim_end().trim_end_matches("<tool_call>").trim_end().trim_end_matches("</think>");
    let calls = rest.split(BEGIN).skip(1).take(CALLS_LIMIT).filter_map(|call| one(call, tools)).collect();
    (said.to_owned(), calls)
}

fn one(text: &str, tools: &[OfferedTool]) -> Option<(String, String)> {
    let (name, body) = text.split_once('>')?;
    let name = name.trim().trim_matches('"');
    let tool = tools.iter().find(|tool| tool.name == name);
    let body = body.split("</function").next().unwrap_or_default();
    let mut arguments = Map::new();
    for parameter in body.split("<parameter=").skip(1) {
        let Some((key, value)) = parameter.split_once('>') else { continue };
        let value = value.rsplit_once("</parameter>").map_or(value, |(value, _)| value);
        let key = key.trim().trim_matches('"');
        let kind = tool.and_then(|tool| tool.parameters.pointer(&format!("/properties/{key}/type"))?.as_str());
        arguments.insert(key.to_owned(), typed(value, kind));
    }
    (!name.is_empty()).then(|| (name.to_owned(), Value::from(arguments).to_string()))
}

/// The value as its schema wants it; a text where it cannot be read so, for the tool to refuse with its own words.
fn typed(value: &str, kind: Option<&str>) -> Value {
    let text = value.strip_prefix('\n').unwrap_or(value);
    let text = if text.len() < value.len() { text.strip_suffix('\n').unwrap_or(text) } else { text };
    let read = match kind {
        Some("integer" | "number" | "boolean" | "array" | "object") => serde_json::from_str(text.trim()).ok(),
        _ => None,
    };
    let boolean = || match (kind, text.trim()) {
        (Some("boolean"), "True") => Some(Value::Bool(true)),
        (Some("boolean"), "False") => Some(Value::Bool(false)),
        _ => None,
    };
    read.or_else(boolean).unwrap_or_else(|| text.into())
}
