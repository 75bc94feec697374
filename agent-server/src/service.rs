//! The conversations of this server: an index of all, the few that are awake, and the transitions between. Each conversation
//! has one gate, so that loading, creating, deleting and falling asleep never overlap; reads do not wait for it.

mod entry;
mod search;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use openhands_conversation::{
    Conversation, CreateError, Environment, Fork, ForkError, LoadError, NewConversation, SwitchError,
};
use openhands_protocol::ConversationId;
use openhands_store::{Catalog, CatalogEntry};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use entry::Live;
use entry::{Entry, State, summary};
pub use search::{Page, SortOrder};

/// How often sleepy conversations are looked for, at most.
const EVICTION_PERIOD: Duration = Duration::from_secs(30);

/// A conversation that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// There is none of this id.
    #[error("no such conversation")]
    Unknown,
    /// The server is going down.
    #[error("the server is shutting down")]
    Closing,
    /// It could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// It could not be copied.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// It is there, but a model that was delivered for it cannot be used.
    #[error(transparent)]
    Deliver(#[from] SwitchError),
}

/// The conversations of a server; clones mean the same ones.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    environment: Arc<Environment>,
    root: PathBuf,
    entries: Mutex<HashMap<ConversationId, Arc<Entry>>>,
    changes: watch::Sender<u64>,
    closing: CancellationToken,
}

impl Service {
    /// Reads the index of `root`, not the histories. Conversations fall asleep after `idle` without use; never when `None`.
    pub async fn open(environment: Arc<Environment>, root: PathBuf, idle: Option<Duration>) -> Self {
        let found = tokio::task::spawn_blocking({
            let root = root.clone();
            move || Catalog::scan(&root)
        })
        .await
        .unwrap_or_default();
        let entries = found.into_iter().map(|entry| (entry.id, Arc::new(Entry::asleep(entry)))).collect();
        let inner = Inner {
            environment,
            root,
            entries: Mutex::new(entries),
            changes: watch::Sender::new(0),
            closing: CancellationToken::new(),
        };
        let service = Self { inner: Arc::new(inner) };
        if let Some(idle) = idle {
            tokio::spawn(service.clone().evict_idle(idle));
        }
        service
    }

    /// Where conversations are stored.
    #[must_use]
    pub fn root(&self) -> &std::path::Path {
        &self.inner.root
    }

    /// Rises whenever a conversation is created or deleted.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// A conversation, loaded from disk when it sleeps.
    ///
    /// # Errors
    /// [`ServiceError::Unknown`], [`ServiceError::Load`], [`ServiceError::Closing`].
    pub async fn get(&self, id: ConversationId) -> Result<Live, ServiceError> {
        loop {
            if self.inner.closing.is_cancelled() {
                return Err(ServiceError::Closing);
            }
            let entry = match self.entry(id) {
                Some(entry) => entry,
                None => self.adopt(id).await.ok_or(ServiceError::Unknown)?,
            };
            if let Some(live) = entry.live() {
                return Ok(live);
            }
            let _gate = entry.gate().await;
            match entry.state() {
                State::Awake(live) => return Ok(live.used()),
                // Deleted, or never created, while we waited at the gate.
                State::Gone => {}
                State::Asleep(summary) => return self.wake(&entry, summary).await,
            }
            self.forget(id, &entry);
        }
    }

    /// A conversation that is awake, without waking one.
    #[must_use]
    pub fn awake(&self, id: ConversationId) -> Option<Live> {
        self.entry(id)?.live()
    }

    /// Whether a conversation is known but not in memory.
    #[must_use]
    pub fn is_asleep(&self, id: ConversationId) -> bool {
        self.entry(id).is_some_and(|entry| matches!(entry.state(), State::Asleep(_)))
    }

    /// Creates a conversation; `false` when its id was in use, and then nothing is changed.
    ///
    /// # Errors
    /// [`ServiceError::Create`]; nothing of it remains. [`ServiceError::Load`] when the stored one cannot be had.
    pub async fn create(&self, new: NewConversation) -> Result<(Live, bool), ServiceError> {
        let id = new.id;
        loop {
            if self.inner.closing.is_cancelled() {
                return Err(ServiceError::Closing);
            }
            if self.entry(id).is_some() || self.adopt(id).await.is_some() {
                let live = match self.get(id).await {
                    Err(ServiceError::Unknown) => continue,
                    other => other?,
                };
                if new.delivers_llm {
                    live.deliver_llm(new.agent.members().llm.clone()).await?;
                }
                return Ok((live, false));
            }
            let entry = Arc::new(Entry::gone());
            let _gate = entry.gate().await;
            if !self.claim(id, &entry) {
                continue;
            }
            let dir = self.inner.root.join(id.hex());
            let created = Conversation::create(Arc::clone(&self.inner.environment), &dir, new).await;
            return match created {
                Ok(conversation) => {
                    let live = Live::new(conversation);
                    entry.set(State::Awake(live.clone()));
                    self.changed();
                    Ok((live, true))
                }
                Err(error) => {
                    self.forget(id, &entry);
                    Err(error.into())
                }
            };
        }
    }

    /// Copies a conversation under the id of `fork`.
    ///
    /// # Errors
    /// [`ServiceError::Unknown`] for the source; [`ServiceError::Fork`], with [`CreateError::Exists`] when the id is in use;
    /// [`ServiceError::Load`].
    pub async fn fork(&self, source: ConversationId, fork: Fork) -> Result<Live, ServiceError> {
        let id = fork.id;
        let source = self.get(source).await?;
        let in_use = || ServiceError::Fork(CreateError::Exists.into());
        if self.entry(id).is_some() || self.adopt(id).await.is_some() {
            return Err(in_use());
        }
        let entry = Arc::new(Entry::gone());
        let _gate = entry.gate().await;
        if !self.claim(id, &entry) {
            return Err(in_use());
        }
        let dir = self.inner.root.join(id.hex());
        let made = match source.fork(&self.inner.environment, &dir, fork).await {
            Ok(()) => Conversation::load(Arc::clone(&self.inner.environment), &dir).await.map_err(ServiceError::from),
            Err(error) => Err(error.into()),
        };
        match made {
            Ok(conversation) => {
                let live = Live::new(conversation);
                entry.set(State::Awake(live.clone()));
                self.changed();
                Ok(live)
            }
            Err(error) => {
                self.forget(id, &entry);
                Err(error)
            }
        }
    }

    /// Ends a conversation and removes its files, also those of one that cannot be read.
    ///
    /// # Errors
    /// [`ServiceError::Unknown`]; [`ServiceError::Load`] when another server owns it, or the disk refuses.
    pub async fn delete(&self, id: ConversationId) -> Result<(), ServiceError> {
        let entry = match self.entry(id) {
            Some(entry) => entry,
            None => match self.adopt(id).await {
                Some(entry) => entry,
                None => return self.remove_unlisted(id).await,
            },
        };
        let _gate = entry.gate().await;
        match entry.state() {
            State::Gone => return Err(ServiceError::Unknown),
            State::Awake(live) => {
                entry.set(State::Gone);
                live.delete().await;
            }
            State::Asleep(summary) => match self.wake(&entry, summary.clone()).await {
                Ok(live) => live.delete().await,
                Err(error @ ServiceError::Load(LoadError::Lease(_))) => return Err(error),
                // What cannot be read can still be removed.
                Err(error) => {
                    tracing::warn!(conversation = %id, %error, "a conversation that cannot be read is removed");
                    self.remove(id).await?;
                }
            },
        }
        entry.set(State::Gone);
        self.forget(id, &entry);
        self.changed();
        Ok(())
    }

    /// Removes a directory that no list shows because it is too damaged, or was never finished.
    async fn remove_unlisted(&self, id: ConversationId) -> Result<(), ServiceError> {
        let entry = Arc::new(Entry::gone());
        let _gate = entry.gate().await;
        if !self.claim(id, &entry) {
            // It is being created at this moment.
            return Err(ServiceError::Unknown);
        }
        let removed = self.remove(id).await;
        self.forget(id, &entry);
        removed
    }

    async fn remove(&self, id: ConversationId) -> Result<(), ServiceError> {
        let dir = self.inner.root.join(id.hex());
        match Conversation::remove(Arc::clone(&self.inner.environment), &dir).await {
            Err(LoadError::Missing) => Err(ServiceError::Unknown),
            other => Ok(other?),
        }
    }

    /// Ends all conversations that are awake; afterwards nothing can be had any more.
    pub async fn close_all(&self) {
        self.inner.closing.cancel();
        let entries: Vec<_> = self.entries().values().cloned().collect();
        let closing = entries.iter().filter_map(|entry| entry.live()).map(|live| async move { live.close().await });
        futures::future::join_all(closing).await;
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<Entry>>> {
        self.inner.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self, id: ConversationId) -> Option<Arc<Entry>> {
        self.entries().get(&id).cloned()
    }

    /// Enters a conversation that appeared on disk after the start (restored, or made by another server).
    async fn adopt(&self, id: ConversationId) -> Option<Arc<Entry>> {
        let dir = self.inner.root.join(id.hex());
        if !tokio::fs::try_exists(dir.join("meta.json")).await.unwrap_or(false) {
            return None;
        }
        let found = tokio::task::spawn_blocking(move || Catalog::look_at(&dir)).await.ok()??;
        let mut entries = self.entries();
        Some(Arc::clone(entries.entry(id).or_insert_with(|| Arc::new(Entry::asleep(found)))))
    }

    /// Puts a new entry under an id that has none.
    fn claim(&self, id: ConversationId, entry: &Arc<Entry>) -> bool {
        let mut entries = self.entries();
        if entries.contains_key(&id) {
            return false;
        }
        entries.insert(id, Arc::clone(entry));
        true
    }

    fn forget(&self, id: ConversationId, entry: &Arc<Entry>) {
        let mut entries = self.entries();
        if entries.get(&id).is_some_and(|present| Arc::ptr_eq(present, entry)) {
            entries.remove(&id);
        }
    }

    /// To be called with the gate held.
    async fn wake(&self, entry: &Entry, summary: CatalogEntry) -> Result<Live, ServiceError> {
        let conversation = Conversation::load(Arc::clone(&self.inner.environment), &summary.dir).await?;
        let live = Live::new(conversation);
        entry.set(State::Awake(live.clone()));
        Ok(live)
    }

    fn changed(&self) {
        self.inner.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    async fn evict_idle(self, idle: Duration) {
        let mut tick = tokio::time::interval(idle.min(EVICTION_PERIOD));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.inner.closing.cancelled() => return,
                _ = tick.tick() => {}
            }
            let entries: Vec<_> = self.entries().values().cloned().collect();
            for entry in entries {
                if !entry.is_idle(idle) {
                    continue;
                }
                let _gate = entry.gate().await;
                if let Some(live) = entry.take_idle(idle, &self.inner.root) {
                    live.close().await;
                    tracing::debug!(conversation = %live.id(), "idle conversation left memory");
                    entry.set(State::Asleep(summary(&live, &self.inner.root)));
                }
            }
        }
    }
}
