//! Reads the argument string of a tool call, as models really write it.

use std::io;

use serde::Serialize;
use serde_json::{Map, Value, ser::Formatter};

/// The object in an argument string. An empty string is an empty object; an object wrapped in a JSON string is unwrapped;
/// raw control characters inside strings, which some models emit, are accepted.
pub(crate) fn parse(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let value: Value = serde_json::from_str(text)
        .or_else(|error| match escaped(text) {
            Some(text) => serde_json::from_str(&text),
            None => Err(error),
        })
        .map_err(|error| format!("the arguments are no valid JSON ({error})"))?;
    match value {
        Value::Object(members) => Ok(members),
        Value::Null => Ok(Map::new()),
        Value::String(inner) => match serde_json::from_str(&inner) {
            Ok(Value::Object(members)) => Ok(members),
            _ => Err("the arguments are a string, not an object".to_owned()),
        },
        Value::Array(_) => Err("the arguments are a list, not an object".to_owned()),
        Value::Bool(_) | Value::Number(_) => Err("the arguments are a single value, not an object".to_owned()),
    }
}

/// The text with control characters inside strings escaped; `None` when there are none.
fn escaped(text: &str) -> Option<String> {
    let mut result = String::with_capacity(text.len() + 16);
    let (mut inside, mut after_backslash, mut changed) = (false, false, false);
    for character in text.chars() {
        if inside && character < ' ' {
            changed = true;
            result.push_str(match character {
                '\n' => "\\n",
                '\r' => "\\r",
                '\t' => "\\t",
                _ => "\\u0000",
            });
            if !matches!(character, '\n' | '\r' | '\t') {
                result.truncate(result.len() - 4);
                result.push_str(&format!("{:04x}", u32::from(character)));
            }
            after_backslash = false;
            continue;
        }
        match character {
            '"' if !after_backslash => inside = !inside,
            _ => {}
        }
        after_backslash = inside && character == '\\' && !after_backslash;
        result.push(character);
    }
    changed.then_some(result)
}

/// Puts right what models often get wrong: a list, object, number or boolean that was written as a string although the
/// schema wants the thing itself.
pub(crate) fn repair(schema: &Value, arguments: &mut Map<String, Value>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, value) in arguments.iter_mut() {
        let (Some(property), Value::String(text)) = (properties.get(name), &*value) else { continue };
        let wanted = wanted_types(property);
        if wanted.is_empty() || wanted.contains(&"string") {
            continue;
        }
        let Ok(decoded) = serde_json::from_str::<Value>(text.trim()) else { continue };
        let decoded_type = match &decoded {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if wanted.contains(&decoded_type) || (decoded_type == "integer" && wanted.contains(&"number")) {
            *value = decoded;
        }
    }
}

/// The types a property's schema allows, through `anyOf`; empty when it does not say.
fn wanted_types(property: &Value) -> Vec<&str> {
    match property.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => property
            .get("anyOf")
            .and_then(Value::as_array)
            .map(|options| options.iter().flat_map(wanted_types).collect())
            .unwrap_or_default(),
    }
}

/// JSON on one line with a space after commas and colons, the way summaries are written on the wire.
pub(crate) fn python_json(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    if value.serialize(&mut serializer).is_err() {
        return String::new();
    }
    String::from_utf8(bytes).unwrap_or_default()
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn argument_strings() {
        let check = |text: &str, expected: Value| assert_eq!(Value::Object(parse(text).unwrap()), expected, "{text}");
        check("", json!({}));
        check(" null ", json!({}));
        check(r#"{"a": 1}"#, json!({"a": 1}));
        check(r#""{\"a\": 1}""#, json!({"a": 1}));
        check("{\"a\": \"x\ny\tz\u{1}\"}", json!({"a": "x\ny\tz\u{1}"}));
        check("{\n\"a\": \"\\\"q\\\\\"\n}", json!({"a": "\"q\\"}));
        for bad in ["{broken", "[1]", "7", "\"x\"", "{\"a\": 1} tail"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_written_as_strings_are_put_right_by_the_schema() {
        let schema = json!({"properties": {
            "list": {"type": "array"}, "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "flag": {"type": ["boolean", "null"]}, "ratio": {"type": "number"}, "text": {"type": "string"},
        }});
        let mut arguments =
            json!({"list": "[1, 2]", "maybe": "7", "flag": "true", "ratio": "2", "text": "[1]", "other": "1"});
        repair(&schema, arguments.as_object_mut().unwrap());
        assert_eq!(
            arguments,
            json!({"list": [1, 2], "maybe": 7, "flag": true, "ratio": 2, "text": "[1]", "other": "1"})
        );
        let mut wrong = json!({"list": "nope", "maybe": "x"});
        repair(&schema, wrong.as_object_mut().unwrap());
        assert_eq!(wrong, json!({"list": "nope", "maybe": "x"}));
    }

    #[test]
    fn summaries_are_spaced() {
        assert_eq!(python_json(&json!({"a": [1, "b"], "c": {}})), r#"{"a": [1, "b"], "c": {}}"#);
    }
}
