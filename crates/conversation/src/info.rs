//! The shapes in which a conversation's state is shown and stored: `ConversationInfo` (nulls kept, secrets null), the
//! `full_state` frame (nulls left out, secrets masked), `base_state.json` (secrets encrypted) and `meta.json`.

use bytes::Bytes;
use openhands_protocol::{
    Event, EventBase, EventId, Source, agent::Expose, event::ConversationStateUpdateEvent, metrics::Metrics, time,
};
use openhands_secrets::{Cipher, Exposure};
use serde_json::{Map, Value, json};

use crate::{calls::CallLists, keys, snapshot::Snapshot};

/// The member of a start request, of `meta.json` and of updates that limits what a conversation may cost.
pub(crate) const BUDGET: &str = "max_budget_per_run";

/// The member of `meta.json` with the model as its owner delivered it last.
pub(crate) const DELIVERED: &str = "delivered_llm";

/// `ConversationInfo` as on the wire.
pub(crate) fn conversation_info(state: &Snapshot) -> Value {
    let kept = |name: &str, default: Value| state.kept.get(name).cloned().unwrap_or(default);
    let request = |name: &str, default: Value| state.request.get(name).cloned().unwrap_or(default);
    json!({
        "id": state.id.to_string(),
        "workspace": &*state.workspace,
        "persistence_dir": &*state.persistence_dir,
        "max_iterations": state.max_iterations,
        "stuck_detection": state.stuck_detection,
        "execution_status": state.status,
        "confirmation_policy": state.policy,
        "security_analyzer": state.analyzer,
        "activated_knowledge_skills": kept("activated_knowledge_skills", json!([])),
        "invoked_skills": kept("invoked_skills", json!([])),
        "blocked_actions": kept("blocked_actions", json!({})),
        "blocked_messages": kept("blocked_messages", json!({})),
        "last_user_message_id": state.last_user_message,
        "leaf_event_id": state.leaf,
        "stats": stats(state, true),
        "secret_registry": state.secrets.to_json(Exposure::Hidden),
        "agent_state": kept("agent_state", json!({})),
        "hook_config": kept("hook_config", Value::Null),
        "title": state.title.as_deref(),
        "metrics": null,
        "created_at": &*state.created_at,
        "updated_at": state.updated_at,
        "forked_from_conversation_id": request("forked_from_conversation_id", Value::Null),
        "forked_from_event_id": request("forked_from_event_id", Value::Null),
        "parent_conversation_id": request("parent_conversation_id", Value::Null),
        "sub_conversation_ids": [],
        "tags": state.tags,
        "current_model_id": null,
        "available_models": [],
        "supports_runtime_model_switch": false,
        "launched_agent_profile": request("launched_agent_profile", Value::Null),
        "agent": state.agent.json(&Expose::Null),
        "client_tools": request("client_tools", json!([])),
        "tool_module_qualnames": request("tool_module_qualnames", json!({})),
        "runtime_info": {"runtime_status": "available", "can_resume": true, "runtime_error": null},
    })
}

/// A `full_state` frame. It gets no parent and is not stored.
pub(crate) fn full_state_event(state: &Snapshot) -> Bytes {
    let event = Event::StateUpdate(ConversationStateUpdateEvent {
        base: EventBase {
            id: EventId::random(),
            timestamp: time::event_now(),
            source: Source::Environment,
            parent_id: None,
        },
        key: "full_state".to_owned(),
        value: without_nulls(full_state(state, Exposure::Masked, stats(state, true))),
    });
    serde_json::to_vec(&event).map(Bytes::from).unwrap_or_default()
}

/// `base_state.json`, with secrets encrypted, or masked (and lost on a restart) without a cipher.
pub(crate) fn base_state(state: &Snapshot, cipher: Option<&Cipher>) -> Value {
    let mut json = full_state(state, at_rest(cipher), stored_stats(state, true));
    if let Some(agent) = json.get_mut("agent") {
        keys::keep_lost(agent, &state.lost_tokens);
    }
    without_nulls(json)
}

fn at_rest(cipher: Option<&Cipher>) -> Exposure<'_> {
    cipher.map_or(Exposure::Masked, Exposure::Encrypted)
}

/// `meta.json`: the start request without the agent, and what the server adds.
pub(crate) fn meta(state: &Snapshot, cipher: Option<&Cipher>) -> Value {
    let mut secrets = state.secrets.to_json(at_rest(cipher));
    let secrets = secrets.get_mut("secret_sources").map(Value::take).unwrap_or_default();
    let mut meta = (*state.request).clone();
    meta.entry("metrics").or_insert(Value::Null);
    for (name, value) in [
        ("workspace", (*state.workspace).clone()),
        ("max_iterations", json!(state.max_iterations)),
        ("stuck_detection", json!(state.stuck_detection)),
        ("confirmation_policy", json!(state.policy)),
        ("security_analyzer", json!(state.analyzer)),
        ("secrets", secrets),
        ("tags", json!(state.tags)),
        ("id", json!(state.id.hex())),
        ("title", json!(state.title.as_deref())),
        (BUDGET, json!(state.budget)),
        (DELIVERED, delivered(state, cipher)),
        ("created_at", json!(&*state.created_at)),
        ("updated_at", json!(state.updated_at)),
    ] {
        meta.insert(name.to_owned(), value);
    }
    Value::Object(meta)
}

/// Null where it could not be encrypted: then every delivery counts as a new one.
fn delivered(state: &Snapshot, cipher: Option<&Cipher>) -> Value {
    let (Some(llm), Some(cipher)) = (&state.delivered, cipher) else { return Value::Null };
    let mut json = llm.plain_json();
    openhands_secrets::seal_llms(&mut json, cipher);
    json
}

fn full_state(state: &Snapshot, exposure: Exposure<'_>, stats: Value) -> Value {
    let agent = match exposure {
        Exposure::Hidden => state.agent.json(&Expose::Null),
        Exposure::Masked => state.agent.json(&Expose::Masked),
        Exposure::Encrypted(cipher) => {
            let mut agent = state.agent.json(&Expose::Plain);
            keys::seal(&mut agent, cipher, !state.key_moved);
            agent
        }
        Exposure::Plain => state.agent.json(&Expose::Plain),
    };
    let kept = |name: &str, default: Value| state.kept.get(name).cloned().unwrap_or(default);
    let mut json = json!({
        "id": state.id.to_string(),
        "agent": agent,
        "workspace": &*state.workspace,
        "persistence_dir": &*state.persistence_dir,
        "max_iterations": state.max_iterations,
        "stuck_detection": state.stuck_detection,
        "execution_status": state.status,
        "confirmation_policy": state.policy,
        "security_analyzer": state.analyzer,
        "activated_knowledge_skills": kept("activated_knowledge_skills", json!([])),
        "activated_path_rules": kept("activated_path_rules", json!([])),
        "invoked_skills": kept("invoked_skills", json!([])),
        "blocked_actions": kept("blocked_actions", json!({})),
        "blocked_messages": kept("blocked_messages", json!({})),
        "last_user_message_id": state.last_user_message,
        "leaf_event_id": state.leaf,
        "head_is_empty": kept("head_is_empty", json!(false)),
        "stats": stats,
        "secret_registry": state.secrets.to_json(exposure),
        "tags": state.tags,
        "agent_state": kept("agent_state", json!({})),
    });
    if let Some(members) = json.as_object_mut() {
        for (name, value) in state.kept.iter() {
            members.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    json
}

/// The sums by usage id as clients see them, with the conversation's budget; with `lists` also the single calls.
pub(crate) fn stats(state: &Snapshot, lists: bool) -> Value {
    let mut stats = stored_stats(state, lists);
    if let (Some(budget), Some(Value::Object(by_usage))) = (state.budget, stats.get_mut("usage_to_metrics")) {
        for entry in by_usage.values_mut().filter_map(Value::as_object_mut) {
            if entry.get("max_budget_per_task").is_none_or(Value::is_null) {
                entry.insert("max_budget_per_task".to_owned(), budget.into());
            }
        }
    }
    stats
}

/// The sums by usage id; the conversation's budget is stored in `meta.json`.
fn stored_stats(state: &Snapshot, lists: bool) -> Value {
    let mut by_usage = Map::new();
    for (usage_id, sums) in &state.stats.usage_to_metrics {
        let mut entry = serde_json::to_value(sums).unwrap_or_default();
        if let (true, Some(members)) = (lists, entry.as_object_mut()) {
            let CallLists { costs, response_latencies, token_usages } = state.calls.of(usage_id);
            members.insert("costs".to_owned(), costs.into());
            members.insert("response_latencies".to_owned(), response_latencies.into());
            members.insert("token_usages".to_owned(), token_usages.into());
        }
        by_usage.insert(usage_id.clone(), entry);
    }
    json!({"usage_to_metrics": by_usage})
}

/// Sums and single calls of one usage id.
pub(crate) fn metrics(state: &Snapshot, usage_id: &str) -> Option<Metrics> {
    let mut all = stats(state, true);
    let entry = all.get_mut("usage_to_metrics")?.get_mut(usage_id)?.take();
    serde_json::from_value(entry).ok()
}

/// Leaves null members out, at any depth.
pub(crate) fn without_nulls(json: Value) -> Value {
    match json {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}
