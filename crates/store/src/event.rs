//! One event of a log, with the bytes that go to disk, sockets and lists alike.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use openhands_protocol::{Event, EventId, Source, event::NotAnEvent};
use serde::Deserialize;

/// An event that has its place in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Position in the log, from 0; the number in the file name.
    pub seq: u64,
    /// The event's id.
    pub id: EventId,
    /// The `kind` member.
    pub kind: Arc<str>,
    /// The `source` member.
    pub source: Source,
    /// The `timestamp` member, compared as text.
    pub timestamp: String,
    /// Compact JSON without null members.
    pub bytes: Bytes,
}

impl StoredEvent {
    /// The event itself.
    ///
    /// # Errors
    /// When the bytes are no event; never for events that were appended by this process.
    pub fn parse(&self) -> Result<Event, NotAnEvent> {
        Event::from_slice(&self.bytes)
    }

    /// What can be said without the bytes.
    #[must_use]
    pub fn head(&self) -> EventHead {
        EventHead {
            id: self.id.clone(),
            kind: Arc::clone(&self.kind),
            source: self.source,
            timestamp: self.timestamp.clone(),
        }
    }
}

/// What lists filter by, without the event's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventHead {
    /// The event's id.
    pub id: EventId,
    /// The `kind` member.
    pub kind: Arc<str>,
    /// The `source` member.
    pub source: Source,
    /// The `timestamp` member, compared as text.
    pub timestamp: String,
}

/// The members every event has, borrowed from its bytes.
#[derive(Deserialize)]
pub(crate) struct RawHead<'a> {
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) kind: Cow<'a, str>,
    pub(crate) source: Source,
    #[serde(borrow)]
    pub(crate) timestamp: Cow<'a, str>,
}

impl<'a> RawHead<'a> {
    /// Reads the members; the whole text must be valid JSON, so a torn file does not pass.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}
