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

    /// Whether only the index holds it, and nobody asked for it since `idle`. To be asked of the index's own clone.
    fn is_idle(&self, idle: Duration) -> bool {
        Arc::strong_count(&self.in_use) == 1
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

    /// Puts an idle conversation to sleep in the index and hands it out to be closed. To be called with the gate held: who
    /// wants the conversation from now on waits there until it is closed.
    pub(super) fn take_idle(&self, idle: Duration, root: &Path) -> Option<Live> {
        let mut state = self.lock();
        let live = match &*state {
            State::Awake(live) if live.is_idle(idle) => live.clone(),
            State::Awake(_) | State::Asleep(_) | State::Gone => return None,
        };
        *state = State::Asleep(summary(&live, root));
        Some(live)
    }

    /// Whether [`Entry::take_idle`] would hand it out now.
    pub(super) fn is_idle(&self, idle: Duration) -> bool {
        matches!(&*self.lock(), State::Awake(live) if live.is_idle(idle))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the index knows of a conversation that is not in memory.
pub(super) fn summary(live: &Live, root: &Path) -> CatalogEntry {
    CatalogEntry {
        id: live.id(),
        dir: root.join(live.id().hex()),
        meta: Value::Null,
        status: live.status(),
        created_at: live.created_at(),
        updated_at: live.updated_at(),
    }
}
