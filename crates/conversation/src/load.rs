//! Takes up a stored conversation.
//!
//! What happened is what the log says; `base_state.json` may be some moments older after a crash. So status, HEAD and the
//! latest user message come from the log, configuration from the documents, which are durable whenever a caller was told of a
//! change. Nothing that was begun is done again: an action without a result gets an error, unless it still waits for the
//! user's yes and so was never begun.

use std::{collections::HashSet, path::Path, sync::Arc};

use openhands_agent::Machine;
use openhands_protocol::{
    AgentSpec, ConversationId, Event, EventId, ExecutionStatus, LlmConfig, Source,
    metrics::{ConversationStats, MetricsSnapshot},
};
use openhands_secrets::{Cipher, SecretRegistry};
use openhands_store::{EventLog, Lease, SideFile, StateFile, StoreError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::{
    acting,
    calls::{CallLists, CallRecord, Calls},
    create::{self, CALLS_FILE, Parts},
    environment::Environment,
    error::LoadError,
    handle::Conversation,
    info::{BUDGET, DELIVERED},
    keys, prompt,
    snapshot::Snapshot,
    toolset::Tools,
};

const LOST: &str = "This call has no result here: the server stopped, or the conversation was copied, while it ran. It may have had part of \
     its effect and was not repeated.";

/// Members of `base_state.json` that are read; all others are kept as they are.
const READ_FROM_STATE: [&str; 15] = [
    "id",
    "agent",
    "workspace",
    "persistence_dir",
    "max_iterations",
    "stuck_detection",
    "execution_status",
    "confirmation_policy",
    "security_analyzer",
    "last_user_message_id",
    "leaf_event_id",
    "head_is_empty",
    "stats",
    "secret_registry",
    "tags",
];

/// Members of `meta.json` that are written from the state; all others are kept as they are.
const WRITTEN_TO_META: [&str; 13] = [
    BUDGET,
    DELIVERED,
    "workspace",
    "max_iterations",
    "stuck_detection",
    "confirmation_policy",
    "security_analyzer",
    "secrets",
    "tags",
    "id",
    "title",
    "created_at",
    "updated_at",
];

struct Found {
    base: Value,
    meta: Value,
    calls: Vec<Value>,
    lease: Lease,
    log: EventLog,
}

pub(crate) async fn load(env: Arc<Environment>, dir: &Path) -> Result<Conversation, LoadError> {
    let (place, settings) = (dir.to_owned(), env.lease.clone());
    let read = tokio::task::spawn_blocking(move || read(&place, settings.as_ref()));
    let Found { base, meta, calls, lease, log } = read.await.map_err(|_| StoreError::Stopped)??;
    lease.keep();
    match take_up(&env, dir, base, meta, &calls, &lease, log).await {
        Ok(conversation) => Ok(conversation),
        Err(error) => {
            let _ = tokio::task::spawn_blocking(move || lease.release()).await;
            Err(error)
        }
    }
}

fn read(dir: &Path, settings: Option<&crate::environment::LeaseSettings>) -> Result<Found, LoadError> {
    // Looked at before the lease, so that a wrong path leaves no traces.
    if !dir.join("meta.json").exists() {
        return Err(LoadError::Missing);
    }
    let lease = create::acquire(dir, settings).map_err(LoadError::Lease)?;
    let document = |file: StateFile| match file.read() {
        Ok(Some(json)) => Ok(json),
        Ok(None) => Err(LoadError::Damaged(format!("{} is missing", file.path().display()))),
        Err(error @ StoreError::Damaged { .. }) => Err(LoadError::Damaged(error.to_string())),
        Err(error) => Err(error.into()),
    };
    let documents =
        || Ok((document(StateFile::meta(dir))?, document(StateFile::base_state(dir))?, EventLog::open(dir)?));
    match documents() {
        Ok((meta, base, log)) => {
            log.guard(lease.clone());
            let calls = SideFile::new(dir, CALLS_FILE).read().unwrap_or_else(|error| {
                tracing::warn!(%error, "records of model calls are left out");
                Vec::new()
            });
            Ok(Found { base, meta, calls, lease, log })
        }
        Err(error) => {
            let _ = lease.release();
            Err(error)
        }
    }
}

async fn take_up(
    env: &Arc<Environment>,
    dir: &Path,
    base: Value,
    meta: Value,
    calls: &[Value],
    lease: &Lease,
    log: EventLog,
) -> Result<Conversation, LoadError> {
    let events = read_events(&log).await?;
    let branch = active_branch(&events);
    let mut state = stored_state(&base, &meta, env.cipher.as_deref())?;
    state.persistence_dir = dir.to_string_lossy().into();
    restore_stats(&mut state, &base, calls);
    state.leaf = branch.last().map(|event| event.id().clone());
    let last_user = branch.iter().rev().find(|e| matches!(&***e, Event::Message(m) if m.base.source == Source::User));
    state.last_user_message = last_user.map(|event| event.id().clone());
    if let Some(status) = logged_status(&events) {
        state.status = status;
    }
    let machine = Machine::replay(create::limits(&state), &branch);
    state.final_response = Arc::clone(machine.final_response());

    let working_dir =
        create::working_dir(&state.workspace).map_err(|(member, why)| LoadError::Damaged(format!("{member} {why}")))?;
    if let Err(error) = create::make_working_dir(&working_dir) {
        tracing::warn!(conversation = %state.id, %error, dir = %working_dir.display(), "the working directory cannot be made");
    }
    state.secrets.hide(state.agent.secret_values().into_iter().chain(env.own_keys.iter().cloned()));
    // A conversation with a tool that this server lacks can still be read.
    let client_tools = match state.request.get("client_tools") {
        Some(Value::Array(tools)) => tools.clone(),
        _ => Vec::new(),
    };
    let (tools, unable) = match Tools::make(env, &state.agent, &client_tools, &working_dir, dir) {
        Ok(tools) => (tools, None),
        Err((member, why)) => (Tools::default(), Some(format!("{member}: {why}"))),
    };
    let static_prompt = prompt::static_prompt(&state.agent).unwrap_or_else(|(member, why)| {
        tracing::warn!(conversation = %state.id, member, why, "the stored system prompt cannot be made, the built-in one serves");
        openhands_prompts::StaticPrompt::default().render().unwrap_or_default()
    });
    let opened = branch.iter().any(|event| matches!(&**event, Event::SystemPrompt(_)));
    let autotitle = state.request.get("autotitle").and_then(Value::as_bool).unwrap_or(true);
    let title_wanted = autotitle && state.title.is_none();
    let (env, dir, lease) = (Arc::clone(env), dir.to_owned(), lease.clone());
    let (mut task, conversation) =
        Parts { env, dir, state, machine, log, lease, tools, static_prompt, working_dir }.assemble();
    task.opened = opened;
    task.title_wanted = title_wanted;
    if let Some(reason) = &unable {
        tracing::warn!(conversation = %task.core.state.id, reason, "the conversation can be read but not run");
    }
    task.unable = unable;
    if task.core.state.key_moved {
        tracing::warn!(conversation = %task.core.state.id, reason = keys::MOVED, "the model's key is not used");
    }
    settle(&mut task)?;
    task.core.log.commit().await?;
    task.core.publish();
    conversation.spawn(task);
    Ok(conversation)
}

/// Gives lost actions their results and a cut-off run its end.
fn settle(task: &mut crate::task::Task) -> Result<(), StoreError> {
    if task.core.state.status != ExecutionStatus::WaitingForConfirmation {
        for pending in task.core.machine.pending().events().to_vec() {
            if let Event::Action(action) = &*pending {
                task.core.append(acting::failed(action, LOST.to_owned()))?;
            }
        }
    } else if task.core.machine.pending().is_empty() {
        // Nobody could ever say yes or no.
        task.core.set_status(ExecutionStatus::Idle)?;
    }
    if task.core.state.status == ExecutionStatus::Running {
        task.core.set_status(ExecutionStatus::Error)?;
    }
    task.saver.touch(crate::saver::SOON);
    Ok(())
}

pub(crate) async fn read_events(log: &EventLog) -> Result<Vec<Arc<Event>>, StoreError> {
    /// Read and parsed at a time, so that bytes and events of a long log are not all in memory together.
    const CHUNK: u64 = 512;
    let mut events = Vec::new();
    let mut from = 0;
    while from < log.len() {
        let to = log.len().min(from + CHUNK);
        for stored in log.load(from, to).await? {
            match stored.parse() {
                Ok(event) => events.push(Arc::new(event)),
                Err(error) => tracing::warn!(seq = stored.seq, %error, "an event that cannot be read is left out"),
            }
        }
        from = to;
    }
    Ok(events)
}

/// The tree events on the way from the root to the last one. In a log without branches that is all of them.
pub(crate) fn active_branch(events: &[Arc<Event>]) -> Vec<Arc<Event>> {
    let mut branch = Vec::with_capacity(events.len());
    let mut wanted: Option<EventId> = None;
    for event in events.iter().rev().filter(|event| event.moves_head()) {
        if wanted.as_ref().is_some_and(|id| id != event.id()) {
            continue;
        }
        branch.push(Arc::clone(event));
        // Events of old logs have no parent and follow their neighbour.
        wanted = event.base().parent_id.clone();
        if wanted.as_ref().is_some_and(|id| id.as_str() == "__root__") {
            break;
        }
    }
    branch.reverse();
    branch
}

pub(crate) fn logged_status(events: &[Arc<Event>]) -> Option<ExecutionStatus> {
    events.iter().rev().find_map(|event| match &**event {
        Event::StateUpdate(update) if update.key == "execution_status" => update.value.as_str()?.parse().ok(),
        _ => None,
    })
}

fn stored_state(base: &Value, meta: &Value, cipher: Option<&Cipher>) -> Result<Snapshot, LoadError> {
    let mut agent = base.get("agent").cloned().ok_or_else(|| LoadError::Damaged("agent is missing".to_owned()))?;
    let lost_tokens = keys::lost(&mut agent, cipher);
    let usable = keys::open(&mut agent, cipher);
    let agent = AgentSpec::from_json(agent).map_err(|error| LoadError::Damaged(error.to_string()))?;
    let id: String = member(base, "id")?;
    let id: ConversationId = id.parse().map_err(|_| LoadError::Damaged(format!("id {id:?} is no UUID")))?;
    let secrets = SecretRegistry::from_json(base.get("secret_registry").unwrap_or(&Value::Null), cipher);
    let rest = |json: &Value, without: &[&str]| -> Map<String, Value> {
        let members = json.as_object().into_iter().flatten();
        members.filter(|(name, _)| !without.contains(&name.as_str())).map(|(n, v)| (n.clone(), v.clone())).collect()
    };
    let created_at = meta.get("created_at").and_then(Value::as_str).unwrap_or_default();
    Ok(Snapshot {
        id,
        persistence_dir: "".into(),
        agent: Arc::new(agent),
        workspace: Arc::new(base.get("workspace").cloned().unwrap_or_default()),
        max_iterations: or_default(base, "max_iterations", 500)?,
        stuck_detection: or_default(base, "stuck_detection", true)?,
        thresholds: or_default(meta, "stuck_detection_thresholds", openhands_agent::StuckThresholds::default())?,
        status: or_default(base, "execution_status", ExecutionStatus::Idle)?,
        policy: or_default(base, "confirmation_policy", openhands_protocol::policy::ConfirmationPolicy::default())?,
        analyzer: or_default(base, "security_analyzer", None)?,
        last_user_message: None,
        leaf: None,
        stats: ConversationStats::default(),
        budget: or_default(meta, BUDGET, None)?,
        delivered: delivered(meta, cipher),
        key_moved: !usable,
        lost_tokens: lost_tokens.into(),
        calls: Calls::default(),
        secrets: Arc::new(secrets),
        tags: or_default(base, "tags", std::collections::BTreeMap::new())?,
        title: meta.get("title").and_then(Value::as_str).map(Into::into),
        created_at: created_at.into(),
        updated_at: meta.get("updated_at").and_then(Value::as_str).unwrap_or(created_at).to_owned(),
        kept: Arc::new(rest(base, &READ_FROM_STATE)),
        request: Arc::new(rest(meta, &WRITTEN_TO_META)),
        final_response: "".into(),
    })
}

/// The model as its owner delivered it last; unknown when it cannot be read, which costs one more change of the model at worst.
fn delivered(meta: &Value, cipher: Option<&Cipher>) -> Option<Arc<LlmConfig>> {
    let mut json = meta.get(DELIVERED).filter(|json| !json.is_null())?.clone();
    openhands_secrets::open_llms(&mut json, cipher);
    serde_json::from_value(json).ok().map(Arc::new)
}

fn member<T: DeserializeOwned>(json: &Value, name: &str) -> Result<T, LoadError> {
    let value = json.get(name).cloned().unwrap_or_default();
    serde_json::from_value(value).map_err(|error| LoadError::Damaged(format!("{name}: {error}")))
}

fn or_default<T: DeserializeOwned>(json: &Value, name: &str, default: T) -> Result<T, LoadError> {
    match json.get(name) {
        None | Some(Value::Null) => Ok(default),
        Some(_) => member(json, name),
    }
}

/// Sums and lists as stored, and the calls that were made since.
fn restore_stats(state: &mut Snapshot, base: &Value, calls: &[Value]) {
    let mut folded: Vec<String> = Vec::new();
    let by_usage = base.pointer("/stats/usage_to_metrics").and_then(Value::as_object);
    for (usage_id, entry) in by_usage.into_iter().flatten() {
        let list = |name: &str| entry.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let lists = CallLists {
            costs: list("costs"),
            response_latencies: list("response_latencies"),
            token_usages: list("token_usages"),
        };
        let answers = lists.response_latencies.iter();
        folded.extend(answers.map(|answer| answer_of(usage_id, answer.get("response_id"), answer.get("latency"))));
        state.calls.restore(usage_id, lists);
        match serde_json::from_value::<MetricsSnapshot>(entry.clone()) {
            Ok(sums) => drop(state.stats.usage_to_metrics.insert(usage_id.clone(), sums)),
            Err(error) => tracing::warn!(conversation = %state.id, usage_id, %error, "stored sums are left out"),
        }
    }
    let (mut folded, mut known): (HashSet<_>, HashSet<_>) = (folded.into_iter().collect(), HashSet::new());
    for record in calls {
        let Ok(call) = serde_json::from_value::<CallRecord>(record.clone()) else { continue };
        let answer = answer_of(&call.usage_id, record.pointer("/usage/response_id"), record.get("latency"));
        if known.insert(call.id.clone()) && !folded.remove(&answer) {
            state.count(&call);
        }
    }
}

/// What tells one call from others in the reference's lists. Ids of answers alone do not: some servers give none, or always the same.
fn answer_of(usage_id: &str, response_id: Option<&Value>, latency: Option<&Value>) -> String {
    json!([usage_id, response_id, latency]).to_string()
}
