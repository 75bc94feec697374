//! The append-only log of a conversation: one file an event, visible at once, durable by group commit.
//!
//! `append` gives an event its place and its bytes; a blocking thread writes the file behind it; `commit` waits until
//! everything appended so far is on the device. Callers that wait at the same time share one round of fsyncs, and a round starts
//! as soon as the one before has ended. Opening reads names, not events. One `EventLog` writes a directory at a time; against
//! other servers it can be guarded by a [`crate::Lease`].

mod index;
mod recover;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use openhands_protocol::{Event, EventId};

pub use self::writer::LogFollower;
use self::{index::Index, writer::Writer};
use crate::{
    atomic,
    error::StoreError,
    event::{EventHead, RawHead, StoredEvent},
    event_name::{event_file, is_valid_id},
    lease::Lease,
};

/// The largest event a log takes, bytes of JSON.
pub const EVENT_LIMIT: usize = 64 * 1024 * 1024;
/// How many bytes of events a log keeps in memory by default; older ones are read back when they are asked for.
pub const DEFAULT_MEMORY: usize = 4 * 1024 * 1024;

/// A conversation's log. Clones are handles on the same log; any thread may use them.
#[derive(Clone)]
pub struct EventLog {
    shared: Arc<Shared>,
}

struct Shared {
    events_dir: PathBuf,
    index: Mutex<Index>,
    writer: Arc<Writer>,
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLog").field("dir", &self.shared.events_dir).field("len", &self.len()).finish()
    }
}

impl EventLog {
    /// Opens the log of a conversation, blocking, and makes its directory when there is none. Lists names; reads only events
    /// that the marker does not vouch for. Torn and foreign files, gaps and double positions never fail: the log is cut before
    /// the damage, and what lies behind it is moved into `events/.damaged`.
    ///
    /// # Errors
    /// When the directory cannot be made or listed.
    pub fn open(conversation_dir: &Path) -> Result<Self, StoreError> {
        Self::open_with_memory(conversation_dir, DEFAULT_MEMORY)
    }

    /// As [`EventLog::open`], keeping at most about `memory` bytes of events in memory.
    ///
    /// # Errors
    /// As [`EventLog::open`].
    pub fn open_with_memory(conversation_dir: &Path, memory: usize) -> Result<Self, StoreError> {
        let events_dir = conversation_dir.join("events");
        atomic::create_private_dir(&events_dir)?;
        let found = recover::recover(&events_dir)?;
        let writer = Writer::new(events_dir.clone(), &found);
        let index = Index::new(found.ids, memory);
        Ok(Self { shared: Arc::new(Shared { events_dir, index: Mutex::new(index), writer: Arc::new(writer) }) })
    }

    /// From now on each batch of writes happens only while `lease` is held; a lost lease fails appends and commits with
    /// [`StoreError::OwnershipLost`]. Has an effect once.
    pub fn guard(&self, lease: Lease) {
        self.shared.writer.guard(lease);
    }

    /// From now on `follower` hears how far the log is on disk. Has an effect once.
    pub fn follow(&self, follower: Arc<dyn LogFollower>) {
        self.shared.writer.follow(follower);
    }

    /// Number of events that are on disk. What is shown to anybody ends here: an event that was seen is there after a kill.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.shared.writer.written()
    }

    /// Waits until what was appended so far is on disk, without asking for more: to be called before the log is shown, so that
    /// a reader misses nothing that was told elsewhere.
    ///
    /// # Errors
    /// Whatever kept the events from the disk; [`EventLog::written`] still holds.
    pub async fn settled(&self) -> Result<(), StoreError> {
        self.shared.writer.settled(self.len()).await
    }

    /// Number of events, durable or not.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.index().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of events that are durable.
    #[must_use]
    pub fn durable_len(&self) -> u64 {
        self.shared.writer.durable()
    }

    /// Gives an event its place and its bytes. Readers see it at once; it is durable after the next [`EventLog::commit`]. Does
    /// not block: the file is written behind the caller's back.
    ///
    /// # Errors
    /// [`StoreError::DuplicateId`], [`StoreError::InvalidId`], [`StoreError::TooLarge`], or [`StoreError::OwnershipLost`] once
    /// another server has taken the conversation over.
    pub fn append(&self, event: &Event) -> Result<Arc<StoredEvent>, StoreError> {
        let id = event.id();
        if !is_valid_id(id.as_str()) {
            return Err(StoreError::InvalidId(id.clone()));
        }
        self.shared.writer.check_owner()?;
        let json = serde_json::to_vec(event)
            .map_err(|source| StoreError::Encode { what: format!("event {id}"), source: Arc::new(source) })?;
        if json.len() > EVENT_LIMIT {
            return Err(StoreError::TooLarge { id: id.clone(), size: json.len(), limit: EVENT_LIMIT });
        }
        let base = event.base();
        let stored = {
            let mut index = self.index();
            if let Some(position) = index.position(id) {
                return Err(StoreError::DuplicateId { id: id.clone(), position });
            }
            let stored = Arc::new(StoredEvent {
                seq: index.len(),
                id: id.clone(),
                kind: index.intern(event.kind()),
                source: base.source,
                timestamp: base.timestamp.clone(),
                bytes: Bytes::from(json),
            });
            index.push(Arc::clone(&stored), self.shared.writer.written());
            // Queued under the same lock, so that files are written in the order of the log.
            self.shared.writer.queue(Arc::clone(&stored));
            stored
        };
        self.shared.writer.wake();
        Ok(stored)
    }

    /// Waits until everything appended so far is on the device. Dropping the future does not stop the round.
    ///
    /// # Errors
    /// Whatever kept the round from ending well. The events stay in the log and the next commit tries again.
    pub async fn commit(&self) -> Result<(), StoreError> {
        self.shared.writer.commit(self.len()).await
    }

    /// The event at a position. Events that memory no longer holds are read from disk, which takes some ten microseconds of
    /// blocking; see [`EventLog::load`] for many of them. `None` beyond the end, and (with a warning) when the file is damaged.
    #[must_use]
    pub fn get(&self, seq: u64) -> Option<Arc<StoredEvent>> {
        let id = {
            let index = self.index();
            if let Some(stored) = index.cached(seq) {
                return Some(stored);
            }
            index.id(seq)?
        };
        self.read_back(seq, &id)
    }

    /// Where an event stands.
    #[must_use]
    pub fn position(&self, id: &EventId) -> Option<u64> {
        self.index().position(id)
    }

    /// The id at a position, from memory.
    #[must_use]
    pub fn id(&self, seq: u64) -> Option<EventId> {
        self.index().id(seq)
    }

    /// Id, kind, source and time of an event; from memory once it was seen, else as [`EventLog::get`].
    #[must_use]
    pub fn head(&self, seq: u64) -> Option<EventHead> {
        let known = self.index().head(seq);
        known.or_else(|| self.get(seq).map(|stored| stored.head()))
    }

    /// The events at `from..to` (clipped to the log), damaged ones left out. May read the disk; see [`EventLog::get`].
    #[must_use]
    pub fn range(&self, from: u64, to: u64) -> Vec<Arc<StoredEvent>> {
        (from..to.min(self.len())).filter_map(|seq| self.get(seq)).collect()
    }

    /// As [`EventLog::range`], reading on a blocking thread when memory does not hold all of them.
    ///
    /// # Errors
    /// [`StoreError::Stopped`] when the runtime shuts down meanwhile.
    pub async fn load(&self, from: u64, to: u64) -> Result<Vec<Arc<StoredEvent>>, StoreError> {
        let in_memory: Option<Vec<_>> = {
            let index = self.index();
            (from..to.min(index.len())).map(|seq| index.cached(seq)).collect()
        };
        match in_memory {
            Some(events) => Ok(events),
            None => {
                let log = self.clone();
                tokio::task::spawn_blocking(move || log.range(from, to)).await.map_err(|_| StoreError::Stopped)
            }
        }
    }

    fn read_back(&self, seq: u64, id: &EventId) -> Option<Arc<StoredEvent>> {
        let path = self.shared.events_dir.join(event_file(seq, id));
        let bytes = match atomic::read_bounded(&path, EVENT_LIMIT as u64) {
            Ok(Some(bytes)) => Bytes::from(bytes),
            Ok(None) => {
                tracing::warn!(path = %path.display(), "event file is missing, left out");
                return None;
            }
            Err(error) => {
                tracing::warn!(%error, "event cannot be read, left out");
                return None;
            }
        };
        let head = match RawHead::parse(&bytes) {
            Ok(head) if head.id == id.as_str() => head,
            Ok(_) => {
                tracing::warn!(path = %path.display(), "event file holds another event, left out");
                return None;
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "event file is damaged, left out");
                return None;
            }
        };
        let mut index = self.index();
        let stored = Arc::new(StoredEvent {
            seq,
            id: id.clone(),
            kind: index.intern(&head.kind),
            source: head.source,
            timestamp: head.timestamp.clone().into_owned(),
            bytes: bytes.clone(),
        });
        index.keep(Arc::clone(&stored), self.shared.writer.written());
        Some(stored)
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.shared.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
