//! Reads the arguments of a tool call: checked against the tool's parameters, forgiving where the meaning is clear.

use openhands_protocol::tool::ToolSpec;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::InvalidArguments;

/// Arguments as a typed action. Numbers, booleans, lists and objects that a model wrote as text are read as what they are;
/// null stands for a parameter that is not there; no arguments at all stand for an empty object.
///
/// # Errors
/// A text that names the parameter and what is possible, for the model to correct itself.
pub(crate) fn read<T: DeserializeOwned>(spec: &ToolSpec, arguments: Value) -> Result<T, InvalidArguments> {
    let members = match arguments {
        Value::Null => Map::new(),
        Value::String(text) if text.trim().is_empty() => Map::new(),
        Value::Object(members) => members,
        other => {
            return Err(InvalidArguments(format!(
                "{}: the arguments must be a JSON object, not {}",
                spec.name,
                type_name(&other)
            )));
        }
    };
    let members: Map<String, Value> = members
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| {
            let schema = spec.parameters.get("properties").and_then(|properties| properties.get(&name));
            let value = match schema {
                Some(schema) => meant(value, schema),
                None => value,
            };
            (name, value)
        })
        .collect();
    serde_json::from_value(Value::Object(members))
        .map_err(|error| InvalidArguments(format!("{}: {error}. Parameters: {}", spec.name, parameters(spec))))
}

/// An action body: the members with the class name.
pub(crate) fn tagged(kind: &str, action: &impl Serialize) -> Result<Value, InvalidArguments> {
    let mut body = serde_json::to_value(action).map_err(|error| InvalidArguments(error.to_string()))?;
    if let Some(members) = body.as_object_mut() {
        members.insert("kind".to_owned(), kind.into());
    }
    Ok(body)
}

/// A stored action body as its type.
pub(crate) fn stored<T: DeserializeOwned>(action: &Value) -> Result<T, crate::ToolError> {
    let mut action = action.clone();
    if let Some(members) = action.as_object_mut() {
        members.remove("kind");
    }
    serde_json::from_value(action)
        .map_err(|error| crate::ToolError(format!("the stored action cannot be read: {error}")))
}

fn meant(value: Value, schema: &Value) -> Value {
    let wanted = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    match (&value, wanted) {
        (Value::String(text), "boolean" | "number" | "integer" | "array" | "object") => {
            let text = text.trim();
            let text = if wanted == "boolean" { text.to_ascii_lowercase() } else { text.to_owned() };
            match serde_json::from_str::<Value>(&text) {
                Ok(parsed) if fits(&parsed, wanted) => parsed,
                _ => value,
            }
        }
        (Value::Number(number), "integer") => match number.as_f64() {
            // 3.0 is a whole number to a model.
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
            Some(float) if number.as_i64().is_none() && float.fract() == 0.0 && float.abs() < 9e15 => {
                (float as i64).into()
            }
            _ => value,
        },
        _ => value,
    }
}

fn fits(value: &Value, wanted: &str) -> bool {
    match wanted {
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}

fn parameters(spec: &ToolSpec) -> String {
    let required: Vec<&str> = spec
        .parameters
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let names = spec.parameters.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let all: Vec<String> = names
        .map(|name| if required.contains(&name.as_str()) { format!("{name} (required)") } else { name.clone() })
        .collect();
    all.join(", ")
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        text: String,
        number: Option<f64>,
        flag: Option<bool>,
        list: Option<Vec<i64>>,
    }

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "sample".to_owned(),
            kind: String::new(),
            action_kind: String::new(),
            observation_kind: String::new(),
            description: String::new(),
            parameters: json!({"type": "object", "required": ["text"], "properties": {
                "text": {"type": "string"}, "number": {"type": "number"}, "flag": {"type": "boolean"},
                "list": {"type": "array", "items": {"type": "integer"}}}}),
            annotations: None,
        }
    }

    #[test]
    fn reads_what_is_meant() {
        let given = json!({"text": "12", "number": "30", "flag": "True", "list": "[1, -1]"});
        let sample = Sample { text: "12".to_owned(), number: Some(30.0), flag: Some(true), list: Some(vec![1, -1]) };
        assert_eq!(read::<Sample>(&spec(), given), Ok(sample));
        let given = json!({"text": "x", "number": null});
        assert_eq!(
            read::<Sample>(&spec(), given),
            Ok(Sample { text: "x".to_owned(), number: None, flag: None, list: None })
        );
    }

    #[test]
    fn says_what_is_wrong_and_what_is_possible() {
        let wrong = |given| read::<Sample>(&spec(), given).unwrap_err().0;
        assert_eq!(wrong(json!({})), "sample: missing field `text`. Parameters: text (required), number, flag, list");
        assert!(wrong(json!({"text": "x", "txet": "y"})).contains("unknown field `txet`"));
        assert!(wrong(json!({"text": "x", "number": "many"})).contains("invalid type"));
        assert_eq!(wrong(json!([1])), "sample: the arguments must be a JSON object, not a list");
    }
}
