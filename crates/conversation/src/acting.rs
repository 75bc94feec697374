//! The actions of a batch at work: side by side up to the agent's limit, results in call order.
//!
//! Calls of the same tool run one after the other, in call order, unless the tool only reads: their effects may build on each
//! other. A tool starts only when its action is durable in the log.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use openhands_protocol::{
    Event, Source,
    error::Classification,
    event::{ActionEvent, AgentErrorEvent, ObservationEvent},
};
use openhands_secrets::SecretRegistry;
use openhands_store::{EventLog, StoreError};
use openhands_tools::{ModelSwitch, Observation, Tool, ToolContext, ToolError};
use serde_json::Value;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    core::draft,
    environment::{SecretFetcher, Toolbox},
    observer::{Observer, ToolWatch},
    switch::Switchboard,
    toolset::{ToolSecrets, Tools},
};

/// How long cancelled tools may take to end before they are dropped.
const GRACE: Duration = Duration::from_secs(5);
/// How long all look-ups of secrets before an action may take.
const LOOKUP_LIMIT: Duration = Duration::from_secs(30);

const INTERRUPTED: &str =
    "This call was interrupted by the user before it was done; it may have had part of its effect.";

/// What all actions of a conversation have in common.
pub(crate) struct Workplace {
    pub(crate) log: EventLog,
    pub(crate) tools: Tools,
    pub(crate) toolbox: Arc<dyn Toolbox>,
    pub(crate) observer: Observer,
    pub(crate) secrets: Arc<SecretRegistry>,
    pub(crate) lookups: Option<SecretFetcher>,
    pub(crate) working_dir: PathBuf,
    pub(crate) observations_dir: PathBuf,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) models: Arc<Switchboard>,
}

/// How the task of an action ended, and which one.
pub(crate) type ActionEnd = Result<(Id, Outcome), JoinError>;

/// How one action ended; a failure of the store means that it was not executed.
type Outcome = Result<Result<Observation, ToolError>, StoreError>;

/// A batch at work.
pub(crate) struct Acting {
    workplace: Arc<Workplace>,
    context: Arc<ToolContext>,
    limit: usize,
    actions: Vec<Arc<Event>>,
    results: Vec<Option<Event>>,
    /// Results handed out so far.
    told: usize,
    waiting: VecDeque<usize>,
    running: HashMap<Id, usize>,
    tasks: JoinSet<Outcome>,
    cancel: CancellationToken,
}

impl Acting {
    /// Starts a batch of pending actions.
    pub(crate) fn start(
        workplace: Arc<Workplace>,
        actions: Vec<Arc<Event>>,
        limit: u32,
        cancel: CancellationToken,
    ) -> Self {
        let context = Arc::new(ToolContext {
            working_dir: workplace.working_dir.clone(),
            observations_dir: Some(workplace.observations_dir.clone()),
            environment: workplace.variables.clone(),
            cancel: cancel.clone(),
            secrets: Arc::new(ToolSecrets(Arc::clone(&workplace.secrets))),
            models: Some(Arc::clone(&workplace.models) as Arc<dyn ModelSwitch>),
        });
        let mut acting = Self {
            context,
            limit: usize::try_from(limit.max(1)).unwrap_or(1),
            results: actions.iter().map(|_| None).collect(),
            told: 0,
            waiting: (0..actions.len()).collect(),
            running: HashMap::new(),
            tasks: JoinSet::new(),
            cancel,
            workplace,
            actions,
        };
        acting.start_more();
        acting
    }

    /// Starts what may run now.
    fn start_more(&mut self) {
        let mut skipped = VecDeque::new();
        while self.running.len() < self.limit
            && let Some(index) = self.waiting.pop_front()
        {
            let Some(Event::Action(action)) = self.actions.get(index).map(|event| &**event) else { continue };
            let Some(tool) = self.workplace.tools.find(&action.tool_name).cloned() else {
                let error = ToolError("the conversation no longer has this tool".to_owned());
                self.settle(index, Err(error));
                continue;
            };
            let is_same = |other: &usize| self.is_of_tool(*other, &action.tool_name);
            let must_wait =
                !tool.spec().is_read_only() && (self.running.values().any(is_same) || skipped.iter().any(is_same));
            if must_wait {
                skipped.push_back(index);
                continue;
            }
            let body = action.action.clone().unwrap_or(Value::Null);
            let watch = ToolWatch::new(&self.workplace.observer, action);
            let work = act(Arc::clone(&self.workplace), Arc::clone(&self.context), tool, body, watch);
            let handle = self.tasks.spawn(work);
            self.running.insert(handle.id(), index);
        }
        skipped.append(&mut self.waiting);
        self.waiting = skipped;
    }

    fn is_of_tool(&self, index: usize, name: &str) -> bool {
        matches!(self.actions.get(index).map(|event| &**event), Some(Event::Action(action)) if action.tool_name == name)
    }

    fn settle(&mut self, index: usize, outcome: Result<Observation, ToolError>) {
        let Some(Event::Action(action)) = self.actions.get(index).map(|event| &**event) else { return };
        let result = match outcome {
            Ok(observation) => self.observed(action, observation),
            Err(error) => failed(action, format!("Error executing tool '{}': {error}", action.tool_name)),
        };
        if let Some(slot) = self.results.get_mut(index) {
            *slot = Some(result);
        }
    }

    fn observed(&self, action: &ActionEvent, observation: Observation) -> Event {
        let Observation { mut body, finishes: _ } = observation;
        // Tools hide secrets themselves; a tool that forgets must not leak them, or keys of the server, into the log.
        self.workplace.secrets.mask_json(&mut body);
        Event::Observation(ObservationEvent {
            base: draft(Source::Environment),
            tool_name: action.tool_name.clone(),
            tool_call_id: action.tool_call_id.clone(),
            observation: body,
            action_id: action.base.id.clone(),
            extended_content: Vec::new(),
        })
    }

    /// Waits until an action has ended. May be dropped and called again. `None`: nothing runs any more.
    pub(crate) async fn ended(&mut self) -> Option<ActionEnd> {
        self.tasks.join_next_with_id().await
    }

    /// Takes down how an action ended, and starts what waited for it.
    ///
    /// # Errors
    /// The action was not durable, so it was not executed: the log cannot be written.
    pub(crate) fn take(&mut self, ended: ActionEnd) -> Result<(), StoreError> {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, outcome?),
            Err(error) => (error.id(), Err(ToolError(format!("the tool broke down ({error})")))),
        };
        if let Some(index) = self.running.remove(&id) {
            self.settle(index, outcome);
        }
        self.start_more();
        Ok(())
    }

    /// The results that may be told now, in call order: those with no open action before them.
    pub(crate) fn tellable(&mut self) -> Vec<Event> {
        let ready: Vec<Event> = self.results.iter_mut().skip(self.told).map_while(Option::take).collect();
        self.told += ready.len();
        ready
    }

    /// Whether every action has its result told.
    pub(crate) fn is_done(&self) -> bool {
        self.told == self.actions.len()
    }

    /// Cancels what runs, waits until it has ended (at most [`GRACE`]), and gives a result to every action that has none.
    pub(crate) async fn cancel(mut self) -> Vec<Event> {
        self.cancel.cancel();
        self.waiting.clear();
        let all_ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all_ended).await.is_err() {
            tracing::warn!("tools did not end after an interrupt and were dropped");
            self.tasks.shutdown().await;
        }
        let told = self.told;
        self.actions
            .iter()
            .zip(std::mem::take(&mut self.results))
            .skip(told)
            .filter_map(|(event, result)| match (&**event, result) {
                (_, Some(result)) => Some(result),
                (Event::Action(action), None) => Some(failed(action, INTERRUPTED.to_owned())),
                _ => None,
            })
            .collect()
    }
}

/// A draft of the error that answers an action.
pub(crate) fn failed(action: &ActionEvent, error: String) -> Event {
    Event::AgentError(AgentErrorEvent {
        base: draft(Source::Agent),
        tool_name: action.tool_name.clone(),
        tool_call_id: action.tool_call_id.clone(),
        error,
        classification: Some(Classification::new("agent_action", true, "retry")),
    })
}

async fn act(
    workplace: Arc<Workplace>,
    context: Arc<ToolContext>,
    tool: Arc<dyn Tool>,
    body: Value,
    watch: Option<ToolWatch>,
) -> Outcome {
    // After a crash the log must know of everything that may have had an effect.
    workplace.log.commit().await?;
    look_up_secrets(&workplace, &body).await;
    workplace.secrets.hide(workplace.toolbox.fresh_keys().await);
    if context.cancel.is_cancelled() {
        return Ok(Err(ToolError("cancelled before it started".to_owned())));
    }
    let watch = watch.map(ToolWatch::begun);
    let result = tool.run(&body, &context).await;
    if let Some(watch) = watch {
        watch.ended(&result);
    }
    Ok(result)
}

/// Fetches the values of secrets that the action mentions and that must be asked for.
async fn look_up_secrets(workplace: &Workplace, body: &Value) {
    let Some(fetch) = &workplace.lookups else { return };
    if workplace.secrets.is_empty() {
        return;
    }
    let wanted = workplace.secrets.lookups_for(&body.to_string(), Instant::now());
    let fetches = wanted.into_iter().map(|lookup| {
        let name = lookup.name.clone();
        let value = fetch(lookup);
        async move {
            let value = tokio::time::timeout(LOOKUP_LIMIT, value).await.ok().flatten();
            if value.is_none() {
                tracing::warn!(secret = name, "the value of a secret could not be looked up");
            }
            workplace.secrets.looked_up(&name, value, Instant::now());
        }
    });
    futures::future::join_all(fetches).await;
}
