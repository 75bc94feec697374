//! What a log finds when it is opened: the longest sound beginning; everything else is put away.
//!
//! The marker's number is how many events were fsynced before it was set, so only events behind it have to be looked into, and
//! the last one, which costs one read. A log without a usable marker (the older reference writes none) has its latest events
//! checked.

use std::{
    fs,
    path::{Path, PathBuf},
};

use openhands_protocol::EventId;

use super::EVENT_LIMIT;
use crate::{
    atomic,
    error::StoreError,
    event::RawHead,
    event_name::{DAMAGED_DIR, EventName, event_file, marker_file},
};

/// How many of the latest events are checked when no marker vouches for them; more than ever wait for one fsync.
const UNVOUCHED: usize = 64;

#[derive(Debug)]
pub(super) struct Recovered {
    /// The ids of the sound beginning, by position.
    pub(super) ids: Vec<EventId>,
    /// How many of them are known to be on the device.
    pub(super) durable: u64,
    /// The marker that is there.
    pub(super) marker: Option<u64>,
}

#[derive(Default)]
struct Listing {
    events: Vec<(u64, EventId)>,
    markers: Vec<u64>,
}

pub(super) fn recover(events_dir: &Path) -> Result<Recovered, StoreError> {
    let mut listing = list(events_dir)?;
    listing.events.sort();
    let (mut sound, mut outside) = (Vec::with_capacity(listing.events.len()), Vec::new());
    for (seq, id) in listing.events {
        if seq == sound.len() as u64 {
            sound.push((seq, id));
            continue;
        }
        match sound.last_mut() {
            Some((last, kept)) if *last == seq => outside.push((seq, later(events_dir, seq, kept, id))),
            _ => outside.push((seq, id)),
        }
    }
    let vouched = listing.markers.iter().copied().filter(|count| *count <= sound.len() as u64).max();
    let from = vouched.map_or_else(
        || sound.len().saturating_sub(UNVOUCHED),
        |count| usize::try_from(count).unwrap_or(usize::MAX).min(sound.len().saturating_sub(1)),
    );
    let intact = sound.iter().skip(from).take_while(|(seq, id)| is_whole(events_dir, *seq, id)).count();
    let ids_len = (from + intact).min(sound.len());
    outside.extend(sound.drain(ids_len..));
    put_away(events_dir, &outside);

    let len = sound.len() as u64;
    let marker = vouched.filter(|count| *count <= len);
    for stale in listing.markers.iter().filter(|count| Some(**count) != marker) {
        remove(&events_dir.join(marker_file(*stale)));
    }
    let durable = marker.unwrap_or(from as u64).min(len);
    Ok(Recovered { ids: sound.into_iter().map(|(_, id)| id).collect(), durable, marker })
}

fn list(events_dir: &Path) -> Result<Listing, StoreError> {
    let mut listing = Listing::default();
    for item in fs::read_dir(events_dir).map_err(StoreError::io("list", events_dir))? {
        let item = item.map_err(StoreError::io("list", events_dir))?;
        let name = item.file_name();
        match name.to_str().map_or(EventName::Foreign, EventName::parse) {
            EventName::Event(seq, id) => listing.events.push((seq, id)),
            EventName::Marker(count) => listing.markers.push(count),
            EventName::Temporary => remove(&item.path()),
            EventName::Hidden => {}
            EventName::Foreign => {
                tracing::warn!(path = %item.path().display(), "foreign file among events, left alone")
            }
        }
    }
    Ok(listing)
}

/// Two files claim one position, which takes two servers at once. The one written first stays in `kept`; the other is returned.
fn later(events_dir: &Path, seq: u64, kept: &mut EventId, other: EventId) -> EventId {
    let written =
        |id: &EventId| fs::metadata(events_dir.join(event_file(seq, id))).and_then(|meta| meta.modified()).ok();
    let other_is_older = match (written(kept), written(&other)) {
        (Some(first), Some(second)) => second < first,
        (None, second) => second.is_some(),
        (Some(_), None) => false,
    };
    if other_is_older { std::mem::replace(kept, other) } else { other }
}

fn is_whole(events_dir: &Path, seq: u64, id: &EventId) -> bool {
    let path = events_dir.join(event_file(seq, id));
    let whole = atomic::read_bounded(&path, EVENT_LIMIT as u64)
        .ok()
        .flatten()
        .is_some_and(|bytes| RawHead::parse(&bytes).is_ok_and(|head| head.id == id.as_str()));
    if !whole {
        tracing::warn!(path = %path.display(), "event file is torn, the log is cut before it");
    }
    whole
}

/// Nobody was told that these events are stored; they are kept for a person to look at.
fn put_away(events_dir: &Path, outside: &[(u64, EventId)]) {
    let Some((first, _)) = outside.first() else { return };
    tracing::warn!(dir = %events_dir.display(), count = outside.len(), first, "events outside the log are moved aside");
    let aside = events_dir.join(DAMAGED_DIR);
    for (seq, id) in outside {
        let name = event_file(*seq, id);
        let moved = atomic::create_private_dir(&aside).and_then(|()| {
            fs::rename(events_dir.join(&name), free_name(&aside, &name)).map_err(StoreError::io("move", &aside))
        });
        if let Err(error) = moved {
            // Its position will be written again under another name; the earlier file wins at the next start, so remove it.
            tracing::warn!(%error, name, "cannot move an event aside");
            remove(&events_dir.join(&name));
        }
    }
}

fn free_name(aside: &Path, name: &str) -> PathBuf {
    let mut path = aside.join(name);
    let mut number = 0;
    while path.exists() && number < 1000 {
        number += 1;
        path = aside.join(format!("{name}.{number}"));
    }
    path
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove");
    }
}
