//! What a log keeps in memory: ids and positions of all events, heads of those it has seen, bytes of the latest.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use openhands_protocol::{EventId, Source};

use crate::event::{EventHead, StoredEvent};

/// There are some twenty kinds; foreign logs may bring more, but not without end.
const INTERNED_KINDS: usize = 64;

pub(super) struct Index {
    entries: Vec<Entry>,
    positions: HashMap<EventId, u64>,
    /// Positions whose bytes are in memory, the first to go in front.
    kept: VecDeque<u64>,
    kept_bytes: usize,
    memory: usize,
    kinds: Vec<Arc<str>>,
}

struct Entry {
    id: EventId,
    body: Body,
}

enum Body {
    /// Only the name was seen.
    Unread,
    /// Read or written once, bytes dropped.
    Head(Arc<str>, Source, Box<str>),
    Kept(Arc<StoredEvent>),
}

impl Index {
    /// The index of a log found on disk; of two events with one id the first is found by it (F2-PERS-25r).
    pub(super) fn new(ids: Vec<EventId>, memory: usize) -> Self {
        let mut positions = HashMap::with_capacity(ids.len());
        for (seq, id) in (0..).zip(&ids) {
            if let Some(first) = positions.get(id) {
                tracing::warn!(%id, first, second = seq, "two events have the same id");
            } else {
                positions.insert(id.clone(), seq);
            }
        }
        let entries = ids.into_iter().map(|id| Entry { id, body: Body::Unread }).collect();
        Self { entries, positions, kept: VecDeque::new(), kept_bytes: 0, memory, kinds: Vec::new() }
    }

    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(super) fn position(&self, id: &EventId) -> Option<u64> {
        self.positions.get(id).copied()
    }

    pub(super) fn id(&self, seq: u64) -> Option<EventId> {
        self.entry(seq).map(|entry| entry.id.clone())
    }

    pub(super) fn cached(&self, seq: u64) -> Option<Arc<StoredEvent>> {
        match &self.entry(seq)?.body {
            Body::Kept(stored) => Some(Arc::clone(stored)),
            Body::Unread | Body::Head(..) => None,
        }
    }

    pub(super) fn head(&self, seq: u64) -> Option<EventHead> {
        let entry = self.entry(seq)?;
        match &entry.body {
            Body::Kept(stored) => Some(stored.head()),
            Body::Head(kind, source, timestamp) => Some(EventHead {
                id: entry.id.clone(),
                kind: Arc::clone(kind),
                source: *source,
                timestamp: timestamp.to_string(),
            }),
            Body::Unread => None,
        }
    }

    /// The one copy of a kind's name.
    pub(super) fn intern(&mut self, kind: &str) -> Arc<str> {
        if let Some(known) = self.kinds.iter().find(|known| &***known == kind) {
            return Arc::clone(known);
        }
        let new: Arc<str> = kind.into();
        if self.kinds.len() < INTERNED_KINDS {
            self.kinds.push(Arc::clone(&new));
        }
        new
    }

    /// Adds the event at the end. Events from `written` on are not on disk yet and stay in memory.
    pub(super) fn push(&mut self, stored: Arc<StoredEvent>, written: u64) {
        self.positions.insert(stored.id.clone(), stored.seq);
        self.entries.push(Entry { id: stored.id.clone(), body: Body::Unread });
        self.keep(stored, written);
    }

    /// Keeps an event's bytes and drops the oldest kept ones over the limit.
    pub(super) fn keep(&mut self, stored: Arc<StoredEvent>, written: u64) {
        let Some(entry) = entry_mut(&mut self.entries, stored.seq) else { return };
        if matches!(entry.body, Body::Kept(_)) {
            return;
        }
        self.kept.push_back(stored.seq);
        self.kept_bytes += stored.bytes.len();
        entry.body = Body::Kept(stored);
        while self.kept_bytes > self.memory {
            let Some(oldest) = self.kept.front().copied().filter(|seq| *seq < written) else { break };
            self.kept.pop_front();
            if let Some(entry) = entry_mut(&mut self.entries, oldest)
                && let Body::Kept(stored) = &entry.body
            {
                self.kept_bytes = self.kept_bytes.saturating_sub(stored.bytes.len());
                entry.body = Body::Head(Arc::clone(&stored.kind), stored.source, stored.timestamp.as_str().into());
            }
        }
    }

    fn entry(&self, seq: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(seq).ok()?)
    }
}

fn entry_mut(entries: &mut [Entry], seq: u64) -> Option<&mut Entry> {
    entries.get_mut(usize::try_from(seq).ok()?)
}
