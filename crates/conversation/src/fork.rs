//! Copies a conversation: same history, model, secrets and workspace, an id and a life of its own (F2-FORK rows).
//!
//! The copy is made beside the source's task from what readers see, so a source that runs goes on. It is a stored conversation
//! like any other and is loaded as one.

use std::{collections::BTreeMap, fs, io, path::Path, sync::Arc};

use openhands_protocol::{
    ConversationId, Event, EventId, ExecutionStatus, Source, event::ConversationStateUpdateEvent,
    metrics::ConversationStats, time,
};
use openhands_store::{EventLog, StoreError};
use serde_json::json;

use crate::{
    calls::Calls, core::draft, create, environment::Environment, error::ForkError, handle::Conversation, load,
    saver::Saver, snapshot::Snapshot, support,
};

/// What an agent's tools keep for themselves and a copy goes on with.
const TOOL_FILES: [&str; 1] = ["TASKS.json"];

/// How a copy differs from its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Fork {
    /// Its id, not in use yet.
    pub id: ConversationId,
    /// Its title; `None` gives it one after its first message.
    pub title: Option<String>,
    /// Its tags; `None` for none.
    pub tags: Option<BTreeMap<String, String>>,
    /// Counts tokens and cost from zero.
    pub reset_metrics: bool,
    /// Copies only what led to this event; `None` copies everything.
    pub from_event_id: Option<EventId>,
}

impl Fork {
    /// A copy of everything under a new id.
    #[must_use]
    pub fn new(id: ConversationId) -> Self {
        Self { id, title: None, tags: None, reset_metrics: true, from_event_id: None }
    }
}

impl Conversation {
    /// Writes a copy into a directory that does not exist yet; [`Conversation::load`] wakes it. Its status is `idle`; actions
    /// that have no result yet are not executed by it.
    ///
    /// # Errors
    /// [`ForkError`]; nothing of the copy remains then.
    pub async fn fork(&self, env: &Environment, dir: &Path, fork: Fork) -> Result<(), ForkError> {
        if let Some(tags) = &fork.tags {
            support::check_tags(tags).map_err(|(member, reason)| ForkError::Invalid { member, reason })?;
        }
        let events = load::read_events(&self.events()).await?;
        // Said before the first file goes; what was read until now is whole.
        if self.status() == ExecutionStatus::Deleting {
            return Err(ForkError::Closed);
        }
        let events = match &fork.from_event_id {
            Some(id) => path_to(&events, id).ok_or_else(|| ForkError::UnknownEvent(id.clone()))?,
            None => events,
        };
        // After the events: what it says of them is at least as new.
        let state = copied_state((*self.snapshot()).clone(), self.id(), dir, &fork, &events);
        let (claimed, lease_settings) = (dir.to_owned(), env.lease.clone());
        let lease = tokio::task::spawn_blocking(move || create::claim_dir(&claimed, lease_settings.as_ref()))
            .await
            .map_err(|_| StoreError::Stopped)??;
        lease.keep();
        let written = async {
            write_events(dir, &events).await?;
            copy_tool_files(Path::new(&*self.snapshot().persistence_dir), dir);
            Saver::new(dir, env.cipher.clone()).save(&state).await
        };
        let written = written.await;
        if written.is_ok() {
            create::finish(dir);
        } else if !lease.is_lost() {
            // Before the release: afterwards the directory may be another server's.
            let _ = fs::remove_dir_all(dir);
        }
        let _ = lease.release();
        Ok(written?)
    }
}

fn copied_state(
    source: Snapshot,
    source_id: ConversationId,
    dir: &Path,
    fork: &Fork,
    events: &[Arc<Event>],
) -> Snapshot {
    let now = time::utc_now();
    let mut request = (*source.request).clone();
    request.insert("forked_from_conversation_id".to_owned(), json!(source_id));
    request.insert("forked_from_event_id".to_owned(), json!(fork.from_event_id));
    let (stats, calls) = if fork.reset_metrics {
        (ConversationStats::default(), Calls::default())
    } else {
        (source.stats, source.calls)
    };
    Snapshot {
        id: fork.id,
        persistence_dir: dir.to_string_lossy().into(),
        status: ExecutionStatus::Idle,
        leaf: load::active_branch(events).last().map(|event| event.id().clone()),
        stats,
        calls,
        tags: fork.tags.clone().unwrap_or_default(),
        title: fork.title.as_deref().map(Into::into),
        created_at: now.clone().into(),
        updated_at: now,
        request: Arc::new(request),
        ..source
    }
}

/// The tree events from the root to one of them.
fn path_to(events: &[Arc<Event>], id: &EventId) -> Option<Vec<Arc<Event>>> {
    let end = events.iter().position(|event| event.moves_head() && event.id() == id)?;
    Some(load::active_branch(events.get(..=end)?))
}

async fn write_events(dir: &Path, events: &[Arc<Event>]) -> Result<(), StoreError> {
    let log = EventLog::open(dir)?;
    for event in events {
        log.append(event)?;
    }
    if load::logged_status(events).is_some_and(|status| status != ExecutionStatus::Idle) {
        let mut base = draft(Source::Environment);
        base.id = EventId::random();
        base.timestamp = time::event_now();
        base.parent_id = load::active_branch(events).last().map(|event| event.id().clone());
        let value = json!(ExecutionStatus::Idle);
        log.append(&Event::StateUpdate(ConversationStateUpdateEvent {
            base,
            key: "execution_status".to_owned(),
            value,
        }))?;
    }
    log.commit().await
}

fn copy_tool_files(from: &Path, to: &Path) {
    for name in TOOL_FILES {
        match fs::copy(from.join(name), to.join(name)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, name, "a file of the agent's tools could not be copied"),
        }
    }
}
