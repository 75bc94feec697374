//! One conversation's place in the index: asleep on disk, awake in memory, or gone.

use std::{
    ops::Deref,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use openhands_conversation::Conversation;
use openhands_protocol::ExecutionStatus;
use openhands_store::CatalogEntry;
use serde_json::Value;

/// A conversation that is awake; while a clone lives it does not fall asleep.
#[derive(Clone)]
pub struct Live {
    conversation: Conversation,
    in_use: Arc<Mutex<Instant>>,
}

impl Live {
    pub(super) fn new(conversation: Conversation) -> Self {
        Self { conversation, in_use: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Notes the use.
    pub(super) fn used(self) -> Self {
        *self.in_use.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self
    }

    /// Whether nobody but the index holds it, and that since `idle`.
    fn is_idle(&self, idle: Duration) -> bool {
        // One is the index itself, the other the caller's.
        Arc::strong_count(&self.in_use) <= 2
            && self.conversation.status() != ExecutionStatus::Running
            && self.in_use.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= idle
    }
}

impl Deref for Live {
    type Target = Conversation;

    fn deref(&self) -> &Conversation {
        &self.conversation
    }
}

/// Where a conversation is.
#[derive(Clone)]
pub(super) enum State {
    /// Only on disk; what was last known of it.
    Asleep(CatalogEntry),
    /// In memory.
    Awake(Live),
    /// Deleted, or not created yet.
    Gone,
}

/// A place in the index.
pub(super) struct Entry {
    gate: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

impl Entry {
    pub(super) fn asleep(found: CatalogEntry) -> Self {
        Self { gate: tokio::sync::Mutex::new(()), state: Mutex::new(State::Asleep(found)) }
    }

    pub(super) fn gone() -> Self {
        Self { gate: tokio::sync::Mutex::new(()), state: Mutex::new(State::Gone) }
    }

    /// Serialises transitions; everything but [`Entry::set`] works without it.
    pub(super) async fn gate(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.gate.lock().await
    }

    pub(super) fn state(&self) -> State {
        self.lock().clone()
    }

    /// To be called with the gate held.
    pub(super) fn set(&self, state: State) {
        *self.lock() = state;
    }

    pub(super) fn live(&self) -> Option<Live> {
        match &*self.lock() {
            State::Awake(live) => Some(live.clone().used()),
            State::Asleep(_) | State::Gone => None,
        }
    }

    pub(super) fn is_idle(&self, idle: Duration) -> bool {
        let awake = match &*self.lock() {
            State::Awake(live) => Some(live.clone()),
            State::Asleep(_) | State::Gone => None,
        };
        awake.is_some_and(|live| live.is_idle(idle))
    }

    /// Closes the conversation and keeps what the index needs. To be called with the gate held.
    pub(super) async fn fall_asleep(&self, root: &Path) {
        let State::Awake(live) = self.state() else { return };
        live.close().await;
        let summary = CatalogEntry {
            id: live.id(),
            dir: root.join(live.id().hex()),
            meta: Value::Null,
            status: live.status(),
            created_at: live.created_at(),
            updated_at: live.updated_at(),
        };
        tracing::debug!(conversation = %summary.id, "idle conversation left memory");
        self.set(State::Asleep(summary));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
