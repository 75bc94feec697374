//! Creates a conversation. It exists from the moment its `meta.json` is there, which is written last; a crash before that
//! leaves a directory that is marked as unfinished, and the next attempt begins anew.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use openhands_agent::{Limits, Machine};
use openhands_llm::LlmRequest;
use openhands_protocol::{
    AgentSpec, ConversationId, EventId, ExecutionStatus, agent::Expose, metrics::ConversationStats, time,
};
use openhands_secrets::{Binding, Cipher, SecretRegistry, is_token, open_llms};
use openhands_store::{EventLog, Lease, LeaseError, SideFile, StoreError, create_private_dir};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    acting::Workplace,
    calls::Calls,
    condensing,
    core::Core,
    echo::Echo,
    environment::Environment,
    error::CreateError,
    handle::{Conversation, Shared},
    mailbox::MAILBOX_SIZE,
    observer::Observer,
    prompt,
    request::NewConversation,
    saver::Saver,
    side,
    slots::{Maker, Slots},
    snapshot::Snapshot,
    support,
    switch::Switchboard,
    task::Task,
    toolset::{Tools, Wrong},
};

/// Marks a directory whose conversation is not there yet.
const UNFINISHED: &str = ".creating";
/// The name of the list of single model calls.
pub(crate) const CALLS_FILE: &str = ".calls.jsonl";
/// What the initial message's event id is derived from, so that a repeated request stores the message once.
const INITIAL_MESSAGE: &str = "initial-message";
/// The variable in the environment of everything that tools start, with the conversation's id (32 hexadecimal digits).
pub const MARK: &str = "OPENHANDS_CONVERSATION_ID";
/// How long `git init` may take.
const GIT_LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn create(
    env: Arc<Environment>,
    dir: &Path,
    new: NewConversation,
) -> Result<Conversation, CreateError> {
    let kept = support::check(&new).map_err(invalid)?;
    if !kept.is_empty() {
        tracing::warn!(conversation = %new.id, members = kept.join(", "), "members are kept but have no effect yet");
    }
    let agent = opened(&new.agent, env.cipher.as_deref()).map_err(invalid)?;
    let (agent, context_secrets) = take_context_secrets(&agent).map_err(invalid)?;
    let working_dir = working_dir(&new.workspace).map_err(invalid)?;
    let tools = Tools::make(&env, &agent, &new.client_tools, &working_dir, dir).map_err(invalid)?;
    let secrets = SecretRegistry::default();
    for given in [&context_secrets, &new.secrets] {
        secrets
            .update(given, env.cipher.as_deref())
            .map_err(|error| CreateError::invalid(format!("secrets.{}", error.name), error.problem))?;
    }
    secrets.hide(agent.secret_values().into_iter().chain(env.own_keys.iter().cloned()));
    let permit = match new.initial_message {
        Some(_) => Some(Arc::clone(&env.run_permits).try_acquire_owned().map_err(|_| CreateError::CapacityFull)?),
        None => None,
    };

    let (claimed, prompt_agent, to_claim) = (dir.to_owned(), agent.clone(), env.lease.clone());
    let work = working_dir.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let static_prompt = prompt::static_prompt(&prompt_agent).map_err(invalid)?;
        make_working_dir(&work)
            .map_err(|error| CreateError::invalid("workspace.working_dir", format!("cannot be made: {error}")))?;
        let lease = claim_dir(&claimed, to_claim.as_ref())?;
        let log = EventLog::open(&claimed)?;
        log.guard(lease.clone());
        Ok::<_, CreateError>((static_prompt, lease, log))
    });
    let (static_prompt, lease, log) = opened.await.map_err(|_| StoreError::Stopped)??;
    lease.keep();
    init_repository(&working_dir).await;

    let autotitle = new.autotitle;
    let initial_message = new.initial_message.clone();
    let id = new.id;
    let state = first_state(new, agent, dir, secrets);
    let machine = Machine::new(limits(&state));
    let parts = Parts { env, dir: dir.to_owned(), state, machine, log, lease, tools, static_prompt, working_dir };
    let (mut task, conversation) = parts.assemble();
    task.title_wanted = autotitle;

    let made = async {
        if let (Some(message), Some(permit)) = (initial_message, permit) {
            task.append_message(message, EventId::derived(id, INITIAL_MESSAGE))?;
            task.begin(permit)?;
        }
        task.core.log.commit().await?;
        task.saver.save(&task.core.state).await?;
        Ok::<(), StoreError>(())
    };
    if let Err(error) = made.await {
        task.closing.cancel();
        if !task.lease.is_lost() {
            // Before the release: afterwards the directory may be another server's.
            let _ = fs::remove_dir_all(dir);
        }
        let _ = task.lease.release();
        return Err(error.into());
    }
    finish(dir);
    task.core.publish();
    conversation.spawn(task);
    Ok(conversation)
}

fn invalid((member, reason): Wrong) -> CreateError {
    CreateError::Invalid { member, reason }
}

/// Keys that a client sends encrypted, as this server showed them, are opened when they come back with their address.
fn opened(agent: &AgentSpec, cipher: Option<&Cipher>) -> Result<AgentSpec, Wrong> {
    if !agent.secret_values().iter().any(|value| is_token(value.expose())) {
        return Ok(agent.clone());
    }
    let mut json = agent.json(&Expose::Plain);
    if open_llms(&mut json, cipher) == Binding::Dropped {
        let why = "the encrypted key belongs to another address: send the key itself";
        return Err(("agent.llm.api_key".to_owned(), why.to_owned()));
    }
    AgentSpec::from_json(json).map_err(|error| ("agent".to_owned(), error.to_string()))
}

/// Secrets of an `agent_context` belong into the registry, not into the agent, which is shown and stored in clear.
fn take_context_secrets(agent: &AgentSpec) -> Result<(AgentSpec, Map<String, Value>), Wrong> {
    let in_context = agent.members().agent_context.as_ref().and_then(|context| context.get("secrets"));
    let Some(Value::Object(secrets)) = in_context.filter(|secrets| secrets.as_object().is_some_and(|s| !s.is_empty()))
    else {
        return Ok((agent.clone(), Map::new()));
    };
    let mut json = agent.json(&Expose::Plain);
    if let Some(place) = json.pointer_mut("/agent_context/secrets") {
        *place = Value::Null;
    }
    let stripped = AgentSpec::from_json(json).map_err(|error| ("agent".to_owned(), error.to_string()))?;
    Ok((stripped, secrets.clone()))
}

/// The directory in which the agent works, absolute.
pub(crate) fn working_dir(workspace: &Value) -> Result<PathBuf, Wrong> {
    let wrong = |why: String| ("workspace.working_dir".to_owned(), why);
    let dir = workspace
        .get("working_dir")
        .and_then(Value::as_str)
        .filter(|dir| !dir.is_empty())
        .ok_or_else(|| wrong("must be the path of a directory".to_owned()))?;
    std::path::absolute(dir).map_err(|error| wrong(format!("{dir:?} is no path: {error}")))
}

pub(crate) fn make_working_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

/// An empty directory for the conversation, marked as unfinished until [`finish`], and owned.
pub(crate) fn claim_dir(
    dir: &Path,
    settings: Option<&crate::environment::LeaseSettings>,
) -> Result<Lease, CreateError> {
    let unfinished = dir.join(UNFINISHED);
    if dir.join("meta.json").exists() {
        return Err(CreateError::Exists);
    }
    let io_error = |doing: &'static str| {
        move |source: io::Error| StoreError::Io { doing, path: dir.to_owned(), source: Arc::new(source) }
    };
    let left = unfinished.exists();
    if !left {
        if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
            // Not ours to remove.
            return Err(CreateError::Exists);
        }
        create_private_dir(dir)?;
        fs::write(&unfinished, b"").map_err(io_error("create a file in"))?;
    }
    // The mark may be that of a living server on the same storage: only the lease tells it from a crash.
    let lease = acquire(dir, settings).map_err(CreateError::Lease)?;
    if dir.join("meta.json").exists() {
        let _ = lease.release();
        return Err(CreateError::Exists);
    }
    if left {
        remove_remains(dir).map_err(io_error("remove what an unfinished creation left in"))?;
    }
    Ok(lease)
}

/// Takes the mark away.
pub(crate) fn finish(dir: &Path) {
    let _ = fs::remove_file(dir.join(UNFINISHED));
}

/// Removes everything but the mark and the lease, which are in use.
fn remove_remains(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name() == UNFINISHED || Lease::FILES.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

pub(crate) fn acquire(dir: &Path, settings: Option<&crate::environment::LeaseSettings>) -> Result<Lease, LeaseError> {
    match settings {
        Some(settings) => Lease::acquire(dir, &settings.owner, settings.ttl),
        None => Lease::acquire(dir, &openhands_store::LeaseOwner::of_this_process(None), Duration::ZERO),
    }
}

/// The variables of what tools start, and one that tells to which conversation it belongs.
fn marked(variables: &BTreeMap<String, String>, id: ConversationId) -> BTreeMap<String, String> {
    let mut variables = variables.clone();
    variables.insert(MARK.to_owned(), id.hex());
    variables
}

/// Makes the working directory a git repository when it is in none, as clients expect for their views of changes.
async fn init_repository(dir: &Path) {
    if dir.ancestors().any(|ancestor| ancestor.join(".git").exists()) {
        return;
    }
    let git = tokio::process::Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(dir)
        .env_clear()
        .envs(["PATH", "HOME", "LANG"].iter().filter_map(|name| std::env::var_os(name).map(|value| (*name, value))))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status();
    match tokio::time::timeout(GIT_LIMIT, git).await {
        Ok(Ok(status)) if status.success() => {}
        Ok(Ok(status)) => tracing::warn!(dir = %dir.display(), %status, "git init failed, changes will not be shown"),
        Ok(Err(error)) => tracing::warn!(dir = %dir.display(), %error, "git init failed, changes will not be shown"),
        Err(_) => tracing::warn!(dir = %dir.display(), "git init took too long, changes will not be shown"),
    }
}

fn first_state(new: NewConversation, agent: AgentSpec, dir: &Path, secrets: SecretRegistry) -> Snapshot {
    let now = time::utc_now();
    let NewConversation {
        id,
        agent: _,
        workspace,
        max_iterations,
        stuck_detection,
        stuck_detection_thresholds,
        confirmation_policy,
        security_analyzer,
        secrets: _,
        tags,
        client_tools,
        tool_module_qualnames,
        hook_config,
        user_id,
        autotitle,
        max_budget,
        delivers_llm,
        extra,
        initial_message,
    } = new;
    let mut request = extra;
    for (name, value) in [
        ("stuck_detection_thresholds", json!(stuck_detection_thresholds)),
        ("client_tools", json!(client_tools)),
        ("tool_module_qualnames", Value::Object(tool_module_qualnames)),
        ("hook_config", hook_config.unwrap_or_default()),
        ("user_id", json!(user_id)),
        ("autotitle", json!(autotitle)),
        (
            "initial_message",
            initial_message.map_or(
                Value::Null,
                |message| json!({"role": message.role, "content": message.content, "run": message.run}),
            ),
        ),
    ] {
        request.insert(name.to_owned(), value);
    }
    Snapshot {
        id,
        persistence_dir: dir.to_string_lossy().into(),
        workspace: Arc::new(workspace),
        max_iterations,
        stuck_detection,
        thresholds: stuck_detection_thresholds,
        status: ExecutionStatus::Idle,
        policy: confirmation_policy,
        analyzer: security_analyzer,
        last_user_message: None,
        leaf: None,
        stats: ConversationStats::default(),
        budget: max_budget,
        delivered: delivers_llm.then(|| Arc::new(agent.members().llm.clone())),
        key_moved: false,
        lost_tokens: Arc::default(),
        agent: Arc::new(agent),
        calls: Calls::default(),
        secrets: Arc::new(secrets),
        tags,
        title: None,
        created_at: now.clone().into(),
        updated_at: now,
        kept: Arc::new(Map::new()),
        request: Arc::new(request),
        final_response: "".into(),
    }
}

/// The bounds of a conversation's runs.
pub(crate) fn limits(state: &Snapshot) -> Limits {
    Limits {
        max_iterations: state.max_iterations,
        stuck: state.stuck_detection.then_some(state.thresholds),
        max_message_chars: state.agent.members().llm.max_message_chars,
    }
}

/// What a task is made of, whether its conversation is new or was loaded.
pub(crate) struct Parts {
    pub(crate) env: Arc<Environment>,
    pub(crate) dir: PathBuf,
    pub(crate) state: Snapshot,
    pub(crate) machine: Machine,
    pub(crate) log: EventLog,
    pub(crate) lease: Lease,
    pub(crate) tools: Tools,
    pub(crate) static_prompt: String,
    pub(crate) working_dir: PathBuf,
}

impl Parts {
    /// The task and the handle on it; the task does not run yet.
    pub(crate) fn assemble(self) -> (Task, Conversation) {
        let Self { env, dir, state, mut machine, log, lease, tools, static_prompt, working_dir } = self;
        machine.set_condensers(condensing::condensers(&state.agent).into_iter().map(|(rules, _)| rules).collect());
        let (sender, mailbox) = mpsc::channel(MAILBOX_SIZE);
        let switchboard = Arc::new(Switchboard { profiles: env.profiles.clone(), mailbox: sender.downgrade() });
        let observer = Observer::new(env.telemetry.as_ref(), &state);
        let workplace = Arc::new(Workplace {
            log: log.clone(),
            secrets: Arc::clone(&state.secrets),
            lookups: env.lookups.clone(),
            working_dir,
            observations_dir: dir.join("observations"),
            variables: marked(&env.variables, state.id),
            observer: observer.clone(),
            models: Arc::clone(&switchboard),
            toolbox: Arc::clone(&env.tools),
            tools,
        });
        let maker = Maker::new(Arc::clone(&env), observer.clone(), &state);
        let request = LlmRequest { messages: Vec::new(), tools: workplace.tools.offered() };
        let saver = Saver::new(&dir, env.cipher.clone());
        let core = Core::new(log.clone(), state, machine, SideFile::new(&dir, CALLS_FILE));
        let shared = Shared {
            id: core.state.id,
            log,
            snapshot: core.snapshots.subscribe(),
            report: core.reports.subscribe(),
            hub: core.hub.clone(),
            mailbox: sender,
            switchboard,
            #[cfg(test)]
            task: std::sync::OnceLock::new(),
        };
        let task = Task {
            dir,
            core,
            workplace,
            saver,
            lease,
            mailbox,
            own_mailbox: shared.mailbox.downgrade(),
            static_prompt,
            opened: false,
            title_wanted: false,
            unable: None,
            asides: Arc::new(Semaphore::new(side::AT_ONCE)),
            slots: Slots::new(maker),
            request,
            run: None,
            echo: Echo::default(),
            condense_replies: Vec::new(),
            observer,
            closing: CancellationToken::new(),
            env,
        };
        (task, Conversation { shared: Arc::new(shared) })
    }
}
