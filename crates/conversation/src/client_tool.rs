//! Tools that the client executes (protocol section 4): a call becomes an event, and the answer is at once that it was handed
//! over. The client acts on the event; nothing comes back.

use std::sync::Arc;

use async_trait::async_trait;
use jsonschema::Validator;
use openhands_protocol::tool::{ToolAnnotations, ToolSpec};
use openhands_tools::{InvalidArguments, Observation, Tool, ToolContext, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};

/// What the model reads as the result.
const HANDED_OVER: &str = "The call was handed to the client.";

/// Longest schema and description, bytes of JSON.
const MAX_SPEC: usize = 256 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientToolSpec {
    name: String,
    description: String,
    #[serde(default = "no_parameters")]
    parameters: Value,
    #[serde(default)]
    annotations: Option<ToolAnnotations>,
}

fn no_parameters() -> Value {
    json!({"type": "object", "properties": {}})
}

/// One of a client's tools.
pub(crate) struct ClientTool {
    spec: ToolSpec,
    schema: Validator,
}

impl ClientTool {
    /// Reads a description as a client sends it; the error says what is wrong.
    pub(crate) fn read(json: &Value) -> Result<Arc<dyn Tool>, String> {
        if json.to_string().len() > MAX_SPEC {
            return Err(format!("is longer than {MAX_SPEC} bytes"));
        }
        let ClientToolSpec { name, description, parameters, annotations } =
            ClientToolSpec::deserialize(json).map_err(|error| error.to_string())?;
        let is_name = !name.is_empty()
            && name.len() <= 64
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if !is_name {
            return Err(format!("name {name:?} must be 1 to 64 letters, digits, dashes or underscores"));
        }
        if parameters.get("type").and_then(Value::as_str) != Some("object") {
            return Err(format!("parameters of {name:?} must be a JSON schema with \"type\": \"object\""));
        }
        let schema = jsonschema::validator_for(&parameters)
            .map_err(|error| format!("parameters of {name:?} are no JSON schema: {error}"))?;
        let spec = ToolSpec {
            kind: "ClientTool".to_owned(),
            action_kind: format!("ClientAction_{name}"),
            observation_kind: "ClientToolObservation".to_owned(),
            name,
            description,
            parameters,
            annotations,
        };
        Ok(Arc::new(Self { spec, schema }))
    }
}

#[async_trait]
impl Tool for ClientTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn action(&self, arguments: Value) -> Result<Value, InvalidArguments> {
        let problems: Vec<String> = self
            .schema
            .iter_errors(&arguments)
            .take(5)
            .map(|error| {
                let path = error.instance_path().to_string();
                if path.is_empty() { error.to_string() } else { format!("{path}: {error}") }
            })
            .collect();
        if !problems.is_empty() {
            return Err(InvalidArguments(problems.join("; ")));
        }
        let Value::Object(mut body) = arguments else {
            return Err(InvalidArguments("the arguments must be an object".to_owned()));
        };
        body.insert("kind".to_owned(), self.spec.action_kind.clone().into());
        Ok(body.into())
    }

    async fn run(&self, _action: &Value, _context: &ToolContext) -> Result<Observation, ToolError> {
        let body = json!({
            "content": [{"cache_prompt": false, "type": "text", "text": HANDED_OVER}],
            "is_error": false,
            "kind": self.spec.observation_kind,
        });
        Ok(Observation { body, finishes: false })
    }
}

/// The entry of a tool in a `SystemPromptEvent`; a client's tool also carries what the client needs to know it again.
pub(crate) fn definition(spec: &ToolSpec) -> Value {
    let mut definition = spec.definition();
    if let (true, Some(members)) = (spec.kind == "ClientTool", definition.as_object_mut()) {
        members.insert("client_tool_name".to_owned(), spec.name.clone().into());
        members.insert("input_schema".to_owned(), spec.parameters.clone());
    }
    definition
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(json: Value) -> String {
        ClientTool::read(&json).err().unwrap_or_default()
    }

    #[test]
    fn descriptions_are_checked() {
        assert!(why(json!({"name": "a b", "description": ""})).contains("name"));
        assert!(why(json!({"name": "a"})).contains("description"));
        assert!(why(json!({"name": "a", "description": "", "parameters": {"type": "string"}})).contains("object"));
        assert!(
            why(json!({"name": "a", "description": "", "parameters": {"type": "object", "required": 7}}))
                .contains("schema")
        );
        assert!(why(json!({"name": "a", "description": "", "x": 1})).contains('x'));
        assert_eq!(why(json!({"name": "a", "description": "d"})), "");
    }

    #[test]
    fn arguments_are_checked_by_the_clients_schema() {
        let tool = ClientTool::read(&json!({"name": "show", "description": "d", "parameters": {
            "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}))
        .unwrap();
        assert_eq!(tool.action(json!({"n": 1})), Ok(json!({"n": 1, "kind": "ClientAction_show"})));
        assert!(tool.action(json!({"n": "x"})).unwrap_err().0.contains("/n"));
        assert!(tool.action(json!({})).unwrap_err().0.contains("\"n\""));
        let definition = definition(tool.spec());
        assert_eq!(definition["kind"], "ClientTool");
        assert_eq!(definition["client_tool_name"], "show");
        assert_eq!(definition["action_type"], "ClientAction_show");
    }
}
