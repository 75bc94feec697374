//! The two parameters that the agent adds to every tool it offers, and how they are taken out of a call again.
//!
//! `security_risk` is asked for unless the tool is annotated as read-only; `summary` unless the tool has a parameter of that
//! name. Both are optional and come first in the schema, so that a model writes them before the arguments proper
//! (protocol section 3).

use openhands_protocol::{policy::SecurityRisk, tool::ToolSpec};
use serde_json::{Map, Value, json};

/// The parameter in which a model judges its own call.
pub const SECURITY_RISK: &str = "security_risk";
/// The parameter in which a model says in a few words what the call is for.
pub const SUMMARY: &str = "summary";

/// The schema of a tool's arguments as offered to the model.
#[must_use]
pub fn offered_parameters(spec: &ToolSpec) -> Value {
    let mut properties = Map::new();
    if !spec.is_read_only() && !has_parameter(spec, SECURITY_RISK) {
        properties.insert(
            SECURITY_RISK.to_owned(),
            json!({
                "type": "string",
                "enum": ["UNKNOWN", "LOW", "MEDIUM", "HIGH"],
                "description": "Your own judgement of what this call could damage or leak, by the risk levels of the \
                                security policy. UNKNOWN when you cannot tell.",
            }),
        );
    }
    if !has_parameter(spec, SUMMARY) {
        properties.insert(
            SUMMARY.to_owned(),
            json!({
                "type": "string",
                "description": "What this call is for, in at most ten words, for the person who watches.",
            }),
        );
    }
    let mut parameters = match &spec.parameters {
        Value::Object(members) => members.clone(),
        _ => Map::new(),
    };
    if let Some(Value::Object(own)) = parameters.get(PROPERTIES) {
        properties.extend(own.clone());
    }
    parameters.entry("type").or_insert_with(|| "object".into());
    parameters.insert(PROPERTIES.to_owned(), Value::Object(properties));
    Value::Object(parameters)
}

const PROPERTIES: &str = "properties";

fn has_parameter(spec: &ToolSpec, name: &str) -> bool {
    spec.parameters.get(PROPERTIES).is_some_and(|own| own.get(name).is_some())
}

/// Takes the agent's own parameters out of a call's arguments.
pub(crate) fn take_own(spec: &ToolSpec, arguments: &mut Map<String, Value>) -> (SecurityRisk, Option<String>) {
    let risk = if has_parameter(spec, SECURITY_RISK) { None } else { arguments.shift_remove(SECURITY_RISK) };
    let summary =
        if has_parameter(spec, SUMMARY) { arguments.get(SUMMARY).cloned() } else { arguments.shift_remove(SUMMARY) };
    let summary = summary.as_ref().and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let risk = match risk.as_ref().and_then(Value::as_str).map(str::to_ascii_uppercase).as_deref() {
        _ if spec.is_read_only() => SecurityRisk::Unknown,
        Some("LOW") => SecurityRisk::Low,
        Some("MEDIUM") => SecurityRisk::Medium,
        Some("HIGH") => SecurityRisk::High,
        // A word that is no risk must not fail the call; an unknown risk is the cautious reading.
        _ => SecurityRisk::Unknown,
    };
    (risk, summary.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use openhands_protocol::tool::ToolAnnotations;

    use super::*;

    fn spec(read_only: bool, parameters: Value) -> ToolSpec {
        ToolSpec {
            name: "t".to_owned(),
            kind: "T".to_owned(),
            action_kind: "TAction".to_owned(),
            observation_kind: "TObservation".to_owned(),
            description: String::new(),
            parameters,
            annotations: Some(ToolAnnotations { read_only_hint: read_only, ..ToolAnnotations::default() }),
        }
    }

    fn names(schema: &Value) -> Vec<&str> {
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn own_parameters_come_first_and_are_optional() {
        let own = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
        let offered = offered_parameters(&spec(false, own.clone()));
        assert_eq!(names(&offered), ["security_risk", "summary", "command"]);
        assert_eq!(offered["required"], json!(["command"]));
        assert_eq!(names(&offered_parameters(&spec(true, own))), ["summary", "command"]);
        let titled = json!({"type": "object", "properties": {"summary": {"type": "string"}}});
        assert_eq!(names(&offered_parameters(&spec(false, titled))), ["security_risk", "summary"]);
        assert_eq!(names(&offered_parameters(&spec(false, Value::Null))), ["security_risk", "summary"]);
    }

    #[test]
    fn own_parameters_are_taken_out_again() {
        let plain = spec(false, json!({"type": "object", "properties": {}}));
        let check = |spec: &ToolSpec, arguments: Value| {
            let Value::Object(mut arguments) = arguments else { panic!("an object") };
            let own = take_own(spec, &mut arguments);
            (own, Value::Object(arguments))
        };
        assert_eq!(
            check(&plain, json!({"security_risk": "high", "summary": " why ", "a": 1})),
            ((SecurityRisk::High, Some("why".to_owned())), json!({"a": 1}))
        );
        assert_eq!(
            check(&plain, json!({"security_risk": 7, "summary": ""})),
            ((SecurityRisk::Unknown, None), json!({}))
        );
        let read_only = spec(true, json!({"type": "object", "properties": {"summary": {}}}));
        assert_eq!(
            check(&read_only, json!({"security_risk": "HIGH", "summary": "mine"})),
            ((SecurityRisk::Unknown, Some("mine".to_owned())), json!({"summary": "mine"}))
        );
    }
}
