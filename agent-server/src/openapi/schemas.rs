//! The schemas of the document: parameters, bodies, answers. Events, agents and other large families are named as objects; the
//! reference's own document describes their members.

use serde_json::{Value, json};

use super::{kept, plans};

/// The schema of a parameter of this name; parameters of one name mean the same everywhere.
pub(super) fn parameter(name: &str) -> Value {
    match name {
        "conversation_id" => json!({"type": "string", "format": "uuid"}),
        "limit" => json!({"type": "integer", "maximum": 100, "exclusiveMinimum": 0, "default": 100}),
        "ids" => json!({"type": "array", "items": {"type": "string", "format": "uuid"}, "maxItems": 99}),
        "order__gt" => json!({"type": "integer"}),
        "include_skills" | "include_hidden" | "use_default_excludes" => json!({"type": "boolean"}),
        "timestamp__gte" | "timestamp__lt" => json!({"type": "string", "format": "date-time"}),
        "exclude" => json!({"type": "array", "items": {"type": "string"}}),
        "status" => json!({"$ref": "#/components/schemas/ConversationExecutionStatus"}),
        _ => json!({"type": "string"}),
    }
}

/// The body of the operation of this name.
pub(super) fn request(name: &str) -> Value {
    let schema = match name {
        "initialize_server" => reference("InitRequest"),
        "start_conversation" => reference("StartConversationRequest"),
        "update_conversation" => reference("UpdateConversationRequest"),
        "send_message" => reference("SendMessageRequest"),
        "respond_to_confirmation" => reference("ConfirmationResponseRequest"),
        "update_conversation_secrets" => reference("UpdateSecretsRequest"),
        "set_conversation_confirmation_policy" => reference("SetConfirmationPolicyRequest"),
        "set_conversation_security_analyzer" => reference("SetSecurityAnalyzerRequest"),
        "switch_conversation_llm" => object(&["llm"], json!({"llm": {"type": "object"}})),
        "switch_conversation_profile" => object(&["profile_name"], json!({"profile_name": {"type": "string"}})),
        "create_chat_completion" => object(
            &["model", "messages"],
            json!({
                "model": {"type": "string"}, "messages": {"type": "array", "items": {"type": "object"}},
                "stream": {"type": "boolean"}, "stream_options": {"type": "object"},
            }),
        ),
        "create_response" => object(
            &["model", "input"],
            json!({
                "model": {"type": "string"}, "instructions": {"type": "string"}, "metadata": {"type": "object"},
                "input": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
            }),
        ),
        "fork_conversation" => object(
            &[],
            json!({
                "id": {"type": "string", "format": "uuid"}, "title": {"type": "string", "maxLength": 200},
                "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                "reset_metrics": {"type": "boolean", "default": true}, "from_event_id": {"type": "string"},
            }),
        ),
        "ask_agent" => object(&["question"], json!({"question": {"type": "string"}})),
        "start_bash_command" | "execute_bash_command" => reference("ExecuteBashRequest"),
        "batch_get_conversation_events" | "batch_get_bash_events" => {
            json!({"type": "array", "items": {"type": "string"}})
        }
        "upload_file_query" => {
            let file = json!({"type": "object", "required": ["file"], "properties": {"file": {"type": "string", "format": "binary"}}});
            return json!({"required": true, "content": {"multipart/form-data": {"schema": file}}});
        }
        _ => kept::request(name).or_else(|| plans::request(name)).unwrap_or_else(|| json!({"type": "object"})),
    };
    json!({"required": true, "content": {"application/json": {"schema": schema}}})
}

/// The answers of the operation of this name.
pub(super) fn responses(name: &str, path: &str, guarded: bool) -> Value {
    let schema = match name {
        "start_conversation" | "get_conversation" | "fork_conversation" => reference("ConversationInfo"),
        "search_conversations" | "search_conversation_events" | "search_bash_events" | "search_subdirs" => {
            reference("Page")
        }
        "count_conversations" | "count_conversation_events" => json!({"type": "integer"}),
        "get_conversation_agent_final_response" => reference("AgentResponseResult"),
        "get_init_status" | "initialize_server" => reference("InitStatus"),
        "list_available_tools" => json!({"type": "array", "items": {"type": "string"}}),
        "delete_conversation"
        | "update_conversation"
        | "pause_conversation"
        | "interrupt_conversation"
        | "run_conversation"
        | "send_message"
        | "respond_to_confirmation"
        | "update_conversation_secrets"
        | "set_conversation_confirmation_policy"
        | "set_conversation_security_analyzer"
        | "condense_conversation"
        | "switch_conversation_llm"
        | "switch_conversation_profile" => reference("Success"),
        "ask_agent" => object(&["response"], json!({"response": {"type": "string"}})),
        _ => kept::answer(name).or_else(|| plans::answer(name)).unwrap_or_else(|| json!({})),
    };
    let done = if name == "fork_conversation" || kept::CREATES.contains(&name) { "201" } else { "200" };
    let mut answers = json!({
        done: {"description": "Done", "content": {"application/json": {"schema": schema}}},
    });
    let error = |description: &str| json!({"description": description, "content": {"application/json": {"schema": reference("Error")}}});
    if let Some(members) = answers.as_object_mut() {
        if name == "start_conversation" {
            let created = json!({"description": "Created", "content": {"application/json": {"schema": reference("ConversationInfo")}}});
            members.insert("201".to_owned(), created);
        }
        if guarded {
            members.insert("401".to_owned(), error("The session key is missing or wrong"));
            members.insert("503".to_owned(), error("The server waits for its initialisation"));
        }
        if path.contains('{') {
            members.insert("404".to_owned(), error("There is no such item"));
        }
        if name == "run_conversation" {
            members.insert("409".to_owned(), error("It is running already"));
        }
        if matches!(name, "run_conversation" | "start_conversation" | "send_message" | "respond_to_confirmation") {
            members.insert("429".to_owned(), error("As many conversations run as may"));
        }
        if guarded || name == "initialize_server" {
            let schema = reference("HTTPValidationError");
            let invalid =
                json!({"description": "The request is invalid", "content": {"application/json": {"schema": schema}}});
            members.insert("422".to_owned(), invalid);
        }
    }
    answers
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

pub(super) fn text() -> Value {
    json!({"type": "string"})
}

fn free() -> Value {
    json!({"type": "object"})
}

pub(super) fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

/// The named schemas.
pub(super) fn components() -> Value {
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let content = || json!({"type": "array", "items": {"type": "object"}});
    json!({
        "AgentResponseResult": object(&["response"], json!({"response": text()})),
        "ConfirmationResponseRequest": object(&["accept"], json!({"accept": {"type": "boolean"}, "reason": text()})),
        "ConversationExecutionStatus": {
            "type": "string",
            "enum": openhands_protocol::ExecutionStatus::ALL.map(openhands_protocol::ExecutionStatus::as_str),
        },
        "ConversationInfo": object(&["id", "workspace", "agent"], json!({
            "id": {"type": "string", "format": "uuid"},
            "agent": free(),
            "workspace": free(),
            "execution_status": reference("ConversationExecutionStatus"),
            "max_iterations": {"type": "integer"},
            "tags": free(),
            "title": {"type": ["string", "null"]},
            "created_at": {"type": "string", "format": "date-time"},
            "updated_at": {"type": "string", "format": "date-time"},
        })),
        "Error": object(&["detail"], json!({"detail": {}})),
        "ExecuteBashRequest": object(&["command"], json!({
            "command": text(), "cwd": {"type": ["string", "null"]}, "timeout": {"type": "integer", "default": 300},
        })),
        "HTTPValidationError": object(&[], json!({
            "detail": {"type": "array", "items": reference("ValidationError")},
        })),
        "InitRequest": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "session_api_keys": texts(), "secret_key": text(), "previous_secret_keys": texts(),
                "conversations_path": text(), "bash_events_dir": text(), "conversation_worktree_root": text(),
                "webhooks": content(), "web_url": text(), "allow_cors_origins": texts(),
                "max_concurrent_runs": {"type": "integer", "minimum": 1}, "env": free(), "telemetry": free(), "report": free(),
            },
        },
        "InitStatus": object(&["state"], json!({
            "state": {"type": "string", "enum": ["dormant", "initializing", "ready"]},
            "error": {"type": ["string", "null"]}, "pod_uid": text(), "proof": text(),
        })),
        "Page": object(&["items"], json!({"items": content(), "next_page_id": {"type": ["string", "null"]}})),
        "SendMessageRequest": object(&[], json!({
            "role": {"type": "string", "enum": ["user", "system", "assistant", "tool"], "default": "user"},
            "content": content(), "run": {"type": "boolean", "default": false}, "sender": {"type": ["string", "null"]},
        })),
        "SetConfirmationPolicyRequest": object(&["policy"], json!({"policy": free()})),
        "SetSecurityAnalyzerRequest": object(&["security_analyzer"], json!({"security_analyzer": {"type": ["object", "null"]}})),
        "StartConversationRequest": object(&["workspace"], json!({
            "agent": free(), "agent_settings": free(), "workspace": free(),
            "conversation_id": {"type": ["string", "null"], "format": "uuid"},
            "initial_message": {"anyOf": [reference("SendMessageRequest"), {"type": "null"}]},
            "max_iterations": {"type": "integer", "minimum": 1, "default": 500},
            "stuck_detection": {"type": "boolean", "default": true},
            "confirmation_policy": free(), "security_analyzer": {"type": ["object", "null"]}, "secrets": free(), "tags": free(),
            "client_tools": content(), "autotitle": {"type": "boolean", "default": true},
            "title_llm_profile": {"type": ["string", "null"]}, "max_budget_per_run": {"type": ["number", "null"], "exclusiveMinimum": 0},
        })),
        "Success": object(&[], json!({"success": {"type": "boolean", "default": true}})),
        "UpdateConversationRequest": object(&[], json!({
            "title": {"type": ["string", "null"], "minLength": 1, "maxLength": 200}, "tags": {"type": ["object", "null"]},
            "max_budget_per_run": {"type": ["number", "null"], "exclusiveMinimum": 0},
        })),
        "UpdateSecretsRequest": object(&["secrets"], json!({"secrets": free()})),
        "ValidationError": object(&["loc", "msg", "type"], json!({"loc": {"type": "array"}, "msg": text(), "type": text()})),
    })
}
