//! `POST /api/conversations`: a start request becomes a conversation. Idempotent by id: 201 for a new one, 200 for one that
//! was there, and then nothing is changed.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use openhands_conversation::{NewConversation, SendMessage, StuckThresholds};
use openhands_protocol::{
    AgentSpec, ConversationId,
    agent::AgentMembers,
    conversation::{SendMessageRequest, StartConversationRequest},
};
use serde_json::{Value, json};

use super::{answer::info, observability, source};
use crate::{
    app::App,
    error::ApiError,
    extract::{RawBody, Ready, read_object},
    query::Query,
    service::Live,
    state::AppState,
    validation::{self, Problem},
};

/// The handler.
///
/// # Errors
/// 422 for a request that is malformed or asks for what this server does not do; 429 when an initial message should run and
/// all places are taken.
pub async fn start(
    State(state): State<AppState>,
    Ready(app): Ready,
    mut query: Query,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let include_skills = query.flag("include_skills");
    query.finish()?;
    let body = body.filter(|body| !body.is_null()).unwrap_or_else(|| json!({}));
    let (conversation, is_new) = begin(&app, &headers, body).await?;
    state.clock().touch();
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(info(&conversation, include_skills))).into_response())
}

/// Makes a conversation of a start request; `false` when its id was in use, and then nothing is changed.
///
/// # Errors
/// As [`start`].
pub async fn begin(app: &Arc<App>, headers: &HeaderMap, mut body: Value) -> Result<(Live, bool), ApiError> {
    if let Some(members) = body.as_object_mut() {
        observability::take(members, headers)?;
        app.llm_defaults.complete(members);
        source::settle(app, members).await?;
    }
    let new = accept(body, &app.config.workspace_path)?;
    Ok(app.conversations.create(new).await?)
}

/// Reads a start request.
fn accept(mut body: Value, workspace_path: &str) -> Result<NewConversation, ApiError> {
    if let Some(members) = body.as_object_mut() {
        // Clients send null for "not given".
        members.retain(|_, value| !value.is_null());
    }
    let mut extra = StartConversationRequest::others(&body);
    let max_budget = match extra.remove("max_budget_per_run") {
        None => None,
        Some(budget) => Some(validation::read("max_budget_per_run", budget).map_err(|mut problem| {
            problem.loc.insert(0, json!("body"));
            ApiError::invalid(problem)
        })?),
    };
    let StartConversationRequest {
        agent,
        agent_settings,
        agent_profile_id,
        workspace,
        conversation_id,
        initial_message,
        max_iterations,
        stuck_detection,
        stuck_detection_thresholds,
        confirmation_policy,
        security_analyzer,
        secrets,
        tags,
        client_tools,
        tool_module_qualnames,
        hook_config,
        user_id,
        autotitle,
        extra: _,
    } = read_object(Some(body))?;
    let agent = match (agent, agent_settings, agent_profile_id) {
        (Some(agent), _, None) => agent,
        (None, _, Some(_)) => {
            return Err(ApiError::NotSupported("agent_profile_id: send the agent itself as `agent`".to_owned()));
        }
        (None, _, None) => {
            let msg = "give exactly one of agent, agent_settings and agent_profile_id";
            return Err(ApiError::invalid(Problem::new("value_error", ["body"], msg)));
        }
        (_, _, Some(_)) => {
            let msg = "agent_profile_id excludes agent and agent_settings";
            return Err(ApiError::invalid(Problem::new("value_error", ["body"], msg)));
        }
    };
    if max_iterations == 0 {
        let msg = "Input should be greater than or equal to 1";
        let problem = Problem::new("greater_than_equal", ["body", "max_iterations"], msg);
        return Err(ApiError::invalid(problem.input(0).ctx(json!({"ge": 1}))));
    }
    let id = conversation_id.unwrap_or_else(ConversationId::random);
    let thresholds = stuck_detection_thresholds.unwrap_or_default();
    Ok(NewConversation {
        max_iterations,
        stuck_detection,
        stuck_detection_thresholds: StuckThresholds {
            action_observation: thresholds.action_observation as usize,
            action_error: thresholds.action_error as usize,
            monologue: thresholds.monologue as usize,
            alternating_pattern: thresholds.alternating_pattern as usize,
        },
        confirmation_policy,
        security_analyzer,
        secrets,
        tags,
        client_tools,
        tool_module_qualnames,
        hook_config,
        user_id,
        autotitle,
        max_budget,
        delivers_llm: extra.remove("delivers_llm") == Some(Value::Bool(true)),
        extra,
        initial_message: initial_message.map(|message| message_of(message, true)),
        ..NewConversation::new(id, read_agent(agent)?, workspace_of(workspace, workspace_path)?)
    })
}

/// A message of a body; `run` starts one whatever the body says.
pub fn message_of(request: SendMessageRequest, run: bool) -> SendMessage {
    let SendMessageRequest { role, content, run: asked, sender } = request;
    SendMessage { role, content, sender, run: run || asked }
}

fn read_agent(agent: Value) -> Result<AgentSpec, ApiError> {
    let kind = agent.get("kind").and_then(Value::as_str).unwrap_or("Agent");
    if kind != "Agent" {
        return Err(ApiError::NotSupported(format!("agent: kind {kind}; this server runs agents of kind Agent")));
    }
    // Checked here too, where a mistake still has its place in the body.
    if let Err(mut problem) = validation::read::<AgentMembers>("agent", agent.clone()) {
        problem.loc.insert(0, json!("body"));
        return Err(ApiError::invalid(problem));
    }
    AgentSpec::from_json(agent)
        .map_err(|error| ApiError::invalid(Problem::new("value_error", ["body", "agent"], error.to_string())))
}

/// The workspace as it is stored: always a local one with a directory.
fn workspace_of(workspace: Value, default: &str) -> Result<Value, ApiError> {
    let refuse = |member: &str, msg: &str| {
        Err(ApiError::invalid(Problem::new("value_error", ["body", "workspace", member], msg)))
    };
    let Value::Object(mut members) = workspace else {
        let msg = "Input should be a valid dictionary";
        return Err(ApiError::invalid(Problem::new("dict_type", ["body", "workspace"], msg)));
    };
    let kind = members.get("kind").and_then(Value::as_str).unwrap_or("LocalWorkspace");
    if kind != "LocalWorkspace" {
        return refuse("kind", "this server works in a LocalWorkspace only");
    }
    let directory = match members.get("working_dir") {
        None => default.to_owned(),
        Some(Value::String(directory)) => directory.clone(),
        Some(_) => return refuse("working_dir", "expected a path"),
    };
    if directory.is_empty() || directory.contains('\0') {
        return refuse("working_dir", "must not be empty or hold a null character");
    }
    members.insert("working_dir".to_owned(), directory.into());
    members.insert("kind".to_owned(), "LocalWorkspace".into());
    Ok(Value::Object(members))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: Value) -> Value {
        match accept(body, "w").unwrap_err() {
            ApiError::Invalid(problems) => serde_json::to_value(&problems[0].loc).unwrap(),
            other => json!(other.to_string()),
        }
    }

    fn llm() -> Value {
        json!({"model": "openai/m", "api_key": "k"})
    }

    #[test]
    fn an_agent_comes_from_exactly_one_source() {
        let workspace = json!({"working_dir": "/w"});
        let body = json!({"agent": {"llm": llm()}, "agent_settings": null, "workspace": workspace});
        assert_eq!(accept(body, "w").unwrap().agent.members().kind, "Agent");
        assert_eq!(problem(json!({"workspace": workspace})), json!(["body"]));
        let body = json!({"agent": {"kind": "Agent"}, "workspace": workspace});
        assert_eq!(problem(body), json!(["body", "agent", "llm"]));
        assert_eq!(problem(json!({"agent": {"llm": llm()}})), json!(["body", "workspace"]));
        for (body, word) in [
            (json!({"agent_profile_id": "p", "workspace": workspace}), "agent_profile_id"),
            (json!({"agent": {"kind": "ACPAgent"}, "workspace": workspace}), "ACPAgent"),
        ] {
            assert!(problem(body).as_str().unwrap().contains(word));
        }
    }

    #[test]
    fn bad_members_are_named() {
        let base = || json!({"agent": {"llm": llm()}, "workspace": {"working_dir": "/w"}});
        let table = [
            ("max_iterations", json!(0), json!(["body", "max_iterations"])),
            ("workspace", json!({"kind": "DockerWorkspace"}), json!(["body", "workspace", "kind"])),
            ("workspace", json!({"working_dir": ""}), json!(["body", "workspace", "working_dir"])),
            ("conversation_id", json!("x"), json!(["body", "conversation_id"])),
            ("tags", json!({"a": 1}), json!(["body", "tags", "a"])),
            ("initial_message", json!({"role": "king"}), json!(["body", "initial_message", "role"])),
        ];
        for (name, value, expected) in table {
            let mut body = base();
            body[name] = value;
            assert_eq!(problem(body), expected, "{name}");
        }
        let mut body = base();
        body["tags"] = Value::Null;
        body["worktree"] = json!(true);
        let new = accept(body, "w").unwrap();
        assert_eq!((new.tags.len(), new.extra.len()), (0, 1));
    }
}
