//! The stored bash events: an index of names in memory, one file an event, the newest bodies kept in a bounded cache. It does
//! not run anything.
//!
//! An event is visible as soon as it is appended and reaches the disk right after; losing the last ones in a crash is
//! accepted. Unreadable files are left alone and skipped.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    fs, io,
    io::Write as _,
    ops::Bound,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use openhands_protocol::bash::{BashCommand, BashEventKind, BashId, BashOutput};

use super::{
    key::EventKey,
    search::BashSearch,
    subscribers::{Subscribers, Subscription, TooManySubscribers},
};

/// Bytes of event bodies kept in memory.
const CACHE_BYTES: usize = 4 * 1024 * 1024;
const TEMPORARY: &str = ".tmp";

/// How much is kept; the oldest events go first.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLimits {
    pub(super) events: usize,
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct EventLog {
    directory: PathBuf,
    limits: LogLimits,
    state: Mutex<State>,
    subscribers: Subscribers,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<EventKey, Entry>,
    by_command: HashMap<BashId, BTreeSet<EventKey>>,
    by_id: HashMap<BashId, EventKey>,
    cached: VecDeque<EventKey>,
    cached_bytes: usize,
    stored_bytes: u64,
    last_micros: i64,
}

#[derive(Debug)]
struct Entry {
    /// Known for the events of this process; others have to be read.
    order: Option<i64>,
    body: Option<Bytes>,
    size: u64,
    /// Whether the body may be dropped, because it is on disk or never will be.
    settled: bool,
}

/// An event that may have to be read from disk.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) key: EventKey,
    pub(super) order: Option<i64>,
    pub(super) body: Option<Bytes>,
}

impl EventLog {
    pub(super) fn new(directory: PathBuf, limits: LogLimits) -> Self {
        Self { directory, limits, state: Mutex::default(), subscribers: Subscribers::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in the events of earlier runs. Reads names and sizes only. Blocking.
    pub(super) fn scan(&self) -> io::Result<()> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some(key) = EventKey::parse(name) {
                found.push((key, entry.metadata().map_or(0, |metadata| metadata.len())));
            } else if name.starts_with('.') && name.ends_with(TEMPORARY) {
                // Left by a process that ended while it wrote; ours are gone before anybody scans.
                self.remove_stale(&entry.path());
            }
        }
        let mut state = self.state();
        for (key, size) in found {
            state.insert(key, Entry { order: None, body: None, size, settled: true });
        }
        let removed = state.trim(self.limits);
        drop(state);
        self.remove_files(&removed);
        Ok(())
    }

    fn remove_stale(&self, path: &Path) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let key = name.trim_start_matches('.').trim_end_matches(TEMPORARY);
        let is_ours = EventKey::parse(key).is_some_and(|key| self.state().entries.contains_key(&key));
        if !is_ours {
            let _ = fs::remove_file(path);
        }
    }

    /// Makes a command's event, visible and published when this returns.
    pub(super) fn append_command(&self, command: String, cwd: Option<String>, timeout: i64, id: BashId) -> Appended {
        let mut state = self.state();
        let key = EventKey { micros: state.next_micros(), kind: BashEventKind::BashCommand, command: None, id };
        let event = BashCommand { command, cwd, timeout, id, timestamp: key.timestamp(), kind: key.kind };
        let body = Bytes::from(serde_json::to_vec(&event).unwrap_or_default());
        self.append(&mut state, key, None, body)
    }

    /// Makes an output's event, visible and published when this returns.
    pub(super) fn append_output(&self, mut output: BashOutput) -> (Appended, BashOutput) {
        let mut state = self.state();
        let key = EventKey {
            micros: state.next_micros(),
            kind: BashEventKind::BashOutput,
            command: Some(output.command_id),
            id: output.id,
        };
        output.timestamp = key.timestamp();
        let body = Bytes::from(serde_json::to_vec(&output).unwrap_or_default());
        (self.append(&mut state, key, Some(output.order), body), output)
    }

    fn append(&self, state: &mut State, key: EventKey, order: Option<i64>, body: Bytes) -> Appended {
        state.insert(key, Entry { order, body: Some(body.clone()), size: body.len() as u64, settled: false });
        state.cached.push_back(key);
        state.cached_bytes += body.len();
        // Under the lock, so that listeners hear events in the order of the index.
        self.subscribers.publish(&body);
        Appended { key, body, removed: state.trim(self.limits) }
    }

    /// Writes an appended event and forgets bodies that are safe on disk. Blocking.
    pub(super) fn store(&self, appended: &Appended) -> io::Result<()> {
        self.remove_files(&appended.removed);
        let written = self.write(&appended.key, &appended.body);
        let mut state = self.state();
        let entry = state.entries.get_mut(&appended.key).map(|entry| entry.settled = true);
        // A deletion that came between must win.
        let deleted = entry.is_none();
        state.evict();
        drop(state);
        if deleted {
            self.remove_files(&[appended.key]);
        }
        written
    }

    fn write(&self, key: &EventKey, body: &[u8]) -> io::Result<()> {
        let name = key.to_string();
        let temporary = self.directory.join(format!(".{name}{TEMPORARY}"));
        let open = || fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
        let mut file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&self.directory)?;
                open()?
            }
            other => other?,
        };
        let written = file.write_all(body).and_then(|()| fs::rename(&temporary, self.directory.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Up to `most` events that pass the filters, as far as the index can tell.
    pub(super) fn candidates(&self, search: &BashSearch, from: From, most: usize) -> Vec<Found> {
        self.state().candidates(search, from, most)
    }

    /// The event of an id.
    pub(super) fn find(&self, id: BashId) -> Option<Found> {
        let state = self.state();
        let key = *state.by_id.get(&id)?;
        let entry = state.entries.get(&key)?;
        Some(Found { key, order: entry.order, body: entry.body.clone() })
    }

    /// Whether a key is in the index.
    pub(super) fn contains(&self, key: &EventKey) -> bool {
        self.state().entries.contains_key(key)
    }

    /// The body of an event, in compact form; `None` when its file is gone or damaged. Blocking.
    pub(super) fn read(&self, found: &Found) -> Option<Bytes> {
        if let Some(body) = &found.body {
            return Some(body.clone());
        }
        let path = self.directory.join(found.key.to_string());
        let read = fs::read(&path).map_err(|error| error.to_string()).and_then(|text| compact(&found.key, &text));
        match read {
            Ok(body) => Some(body),
            Err(error) => {
                tracing::warn!(path = %path.display(), error, "bash event cannot be read, skipped");
                None
            }
        }
    }

    /// Forgets everything; the files are removed by [`Self::remove_files`].
    pub(super) fn clear(&self) -> Vec<EventKey> {
        let mut state = self.state();
        let last_micros = state.last_micros;
        let entries = std::mem::replace(&mut *state, State { last_micros, ..State::default() }).entries;
        entries.into_keys().collect()
    }

    /// Forgets what is older than `micros`; the files are removed by [`Self::remove_files`].
    pub(super) fn forget_before(&self, micros: i64) -> Vec<EventKey> {
        let mut state = self.state();
        let mut removed = Vec::new();
        while let Some(key) = state.entries.first_key_value().map(|(key, _)| *key).filter(|key| key.micros < micros) {
            state.remove(&key);
            removed.push(key);
        }
        removed
    }

    /// Blocking.
    pub(super) fn remove_files(&self, keys: &[EventKey]) {
        for key in keys {
            let path = self.directory.join(key.to_string());
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), %error, "bash event cannot be deleted");
                }
                _ => {}
            }
        }
    }

    /// A listener, and the events that came before its first one when asked for.
    pub(super) fn subscribe(&self, history: bool) -> Result<(Vec<EventKey>, Subscription), TooManySubscribers> {
        let state = self.state();
        let subscription = self.subscribers.subscribe()?;
        let before = if history { state.entries.keys().copied().collect() } else { Vec::new() };
        Ok((before, subscription))
    }

    /// The entry of a key, to be read.
    pub(super) fn entry(&self, key: EventKey) -> Option<Found> {
        self.state().entries.get(&key).map(|entry| Found { key, order: entry.order, body: entry.body.clone() })
    }

    /// Ends all subscriptions.
    pub(super) fn close(&self) {
        self.subscribers.close();
    }
}

/// An event that is visible but not yet on disk.
#[derive(Debug)]
pub(super) struct Appended {
    key: EventKey,
    pub(super) body: Bytes,
    removed: Vec<EventKey>,
}

impl State {
    /// Now, but later than any event before, so that the order of names is the order of events.
    fn next_micros(&mut self) -> i64 {
        let now = jiff::Timestamp::now().as_microsecond();
        self.last_micros = now.max(self.last_micros.saturating_add(1));
        self.last_micros
    }

    fn insert(&mut self, key: EventKey, entry: Entry) {
        if self.entries.contains_key(&key) {
            return;
        }
        self.stored_bytes += entry.size;
        self.by_id.insert(key.id, key);
        if let Some(command) = key.command {
            self.by_command.entry(command).or_default().insert(key);
        }
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: &EventKey) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.stored_bytes -= entry.size;
        self.by_id.remove(&key.id);
        if let Some(command) = key.command
            && let Some(outputs) = self.by_command.get_mut(&command)
        {
            outputs.remove(key);
            if outputs.is_empty() {
                self.by_command.remove(&command);
            }
        }
        if let Some(body) = entry.body {
            self.cached_bytes -= body.len();
            self.cached.retain(|cached| cached != key);
        }
    }

    /// Removes the oldest events until the limits hold, but never the newest.
    fn trim(&mut self, limits: LogLimits) -> Vec<EventKey> {
        let mut removed = Vec::new();
        while self.entries.len() > 1 && (self.entries.len() > limits.events || self.stored_bytes > limits.bytes) {
            let Some(key) = self.entries.first_key_value().map(|(key, _)| *key) else { break };
            self.remove(&key);
            removed.push(key);
        }
        removed
    }

    /// Drops the oldest bodies that are settled, until the cache is within its bound.
    fn evict(&mut self) {
        let Self { entries, cached, cached_bytes, .. } = self;
        if *cached_bytes <= CACHE_BYTES {
            return;
        }
        cached.retain(|key| {
            let Some(entry) = entries.get_mut(key) else { return false };
            if *cached_bytes <= CACHE_BYTES || !entry.settled {
                return true;
            }
            *cached_bytes -= entry.body.take().map_or(0, |body| body.len());
            false
        });
    }

    fn candidates(&self, search: &BashSearch, from: From, most: usize) -> Vec<Found> {
        let found = |key: &EventKey| {
            let entry = self.entries.get(key)?;
            search.accepts(key, entry.order).then(|| Found { key: *key, order: entry.order, body: entry.body.clone() })
        };
        let range = from.range(search.descending);
        match search.command {
            Some(command) => match self.by_command.get(&command) {
                Some(outputs) if search.descending => outputs.range(range).rev().filter_map(found).take(most).collect(),
                Some(outputs) => outputs.range(range).filter_map(found).take(most).collect(),
                None => Vec::new(),
            },
            None => {
                let keys = self.entries.range(range).map(|(key, _)| key);
                if search.descending {
                    keys.rev().filter_map(found).take(most).collect()
                } else {
                    keys.filter_map(found).take(most).collect()
                }
            }
        }
    }
}

/// Where a walk through the index starts.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    Beginning,
    At(EventKey),
    After(EventKey),
}

impl From {
    fn range(self, descending: bool) -> (Bound<EventKey>, Bound<EventKey>) {
        let start = match self {
            Self::Beginning => Bound::Unbounded,
            Self::At(key) => Bound::Included(key),
            Self::After(key) => Bound::Excluded(key),
        };
        if descending { (Bound::Unbounded, start) } else { (start, Bound::Unbounded) }
    }
}

/// A stored event without the white space that other servers write.
fn compact(key: &EventKey, text: &[u8]) -> Result<Bytes, String> {
    let bytes = match key.kind {
        BashEventKind::BashCommand => {
            serde_json::from_slice::<BashCommand>(text).and_then(|event| serde_json::to_vec(&event))
        }
        BashEventKind::BashOutput | BashEventKind::BashError => {
            serde_json::from_slice::<BashOutput>(text).and_then(|event| serde_json::to_vec(&event))
        }
    };
    bytes.map(Bytes::from).map_err(|error| error.to_string())
}
