//! Commands beside conversations: run, stopped, their events stored, searched and published. It does not know HTTP.
//!
//! A command runs as `/bin/sh -c` in a session of its own with the environment of [`ToolEnvironment`]. It is over when all who
//! hold its output have closed it and the shell has ended; processes that it left in the background live on.

mod key;
mod log;
mod output;
mod run;
mod search;
mod subscribers;

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use openhands_protocol::bash::{BashId, BashOutput, ExecuteBashRequest};
use tokio::{sync::OnceCell, task::JoinHandle};
use tokio_util::sync::CancellationToken;

pub use self::{
    key::EventKey,
    search::{BashPage, BashSearch, MAX_PAGE, events_to_json},
    subscribers::{MAX_SUBSCRIBERS, Subscription, TooManySubscribers},
};
use self::{
    log::{Appended, EventLog, Found, From, LogLimits},
    run::{Job, Sink},
    search::MAX_PAGE_BYTES,
};
use crate::environment::ToolEnvironment;

/// Most bytes of each stream in the one answer of [`BashService::execute`], which is held in memory several times over.
const ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// How long [`BashService::stop`] waits for the command to be over.
const STOP_WAIT: Duration = Duration::from_secs(4);

/// How a [`BashService`] behaves.
#[derive(Clone, Debug)]
pub struct BashOptions {
    /// Where events are stored. Made when the first event is written.
    pub events_dir: PathBuf,
    /// Where a command runs that names no directory; this process's directory when `None`.
    pub default_cwd: Option<PathBuf>,
    /// What commands see.
    pub environment: ToolEnvironment,
    /// Events older than this are deleted; `None` keeps them until the other limits are reached.
    pub retention: Option<Duration>,
    /// Most commands at once.
    pub max_running: usize,
    /// Most bytes kept of one command's output (both streams together).
    pub max_output_bytes: u64,
    /// Most events kept; the oldest are deleted.
    pub max_events: usize,
    /// Most bytes of events kept; the oldest are deleted.
    pub max_stored_bytes: u64,
}

impl BashOptions {
    /// The defaults: no retention time, 128 commands at once, 64 MiB of output a command, 20,000 events, 1 GiB in all.
    #[must_use]
    pub fn new(events_dir: PathBuf) -> Self {
        Self {
            events_dir,
            default_cwd: None,
            environment: ToolEnvironment::default(),
            retention: None,
            max_running: 128,
            max_output_bytes: 64 * 1024 * 1024,
            max_events: 20_000,
            max_stored_bytes: 1024 * 1024 * 1024,
        }
    }
}

/// Why a request to the service failed.
#[derive(Debug, thiserror::Error)]
pub enum BashError {
    /// The service is closing.
    #[error("no new commands: the server is shutting down")]
    Closed,
    /// Too many commands run.
    #[error("{limit} commands are running already; stop one or wait")]
    TooManyRunning {
        /// The limit.
        limit: usize,
    },
    /// The directory of events cannot be read.
    #[error("bash events cannot be read")]
    Storage(#[source] io::Error),
}

/// Runs commands and keeps their events. A cheap clone; needs a tokio runtime.
#[derive(Clone, Debug)]
pub struct BashService {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: BashOptions,
    log: EventLog,
    scanned: OnceCell<()>,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    closed: bool,
    commands: HashMap<BashId, Handle>,
}

#[derive(Clone, Debug, Default)]
struct Handle {
    stop: CancellationToken,
    done: CancellationToken,
}

/// A command that was accepted.
#[derive(Debug)]
pub struct Started {
    /// Its id.
    pub id: BashId,
    /// Its event as it goes on the wire.
    pub event: Bytes,
    finished: JoinHandle<Option<BashOutput>>,
}

impl BashService {
    /// A service on `options.events_dir`. Nothing is read or made yet; with a retention time old events are deleted now and
    /// then from now on.
    #[must_use]
    pub fn new(options: BashOptions) -> Self {
        let limits = LogLimits { events: options.max_events, bytes: options.max_stored_bytes };
        let inner = Arc::new(Inner {
            log: EventLog::new(options.events_dir.clone(), limits),
            scanned: OnceCell::new(),
            running: Mutex::default(),
            options,
        });
        if let Some(retention) = inner.options.retention {
            tokio::spawn(keep_only(retention, Arc::downgrade(&inner)));
        }
        Self { inner }
    }

    /// Starts a command. Its event is stored and published first.
    ///
    /// # Errors
    /// When the service is closed or too many commands run. A command that cannot be started is no error here: its output
    /// says so.
    pub async fn start(&self, request: ExecuteBashRequest) -> Result<Started, BashError> {
        self.launch(request, false).await
    }

    /// Runs a command to its end and joins its output into one event, up to 8 MiB of each stream.
    ///
    /// # Errors
    /// As [`Self::start`]. When the caller goes away the command goes on.
    pub async fn execute(&self, request: ExecuteBashRequest) -> Result<BashOutput, BashError> {
        let started = self.launch(request, true).await?;
        started.finished.await.ok().flatten().ok_or(BashError::Closed)
    }

    async fn launch(&self, request: ExecuteBashRequest, collect: bool) -> Result<Started, BashError> {
        let inner = &self.inner;
        let id = BashId::random();
        // Held from here on, so that a caller who goes away leaves nothing behind.
        let registration = Registration::new(inner, id)?;
        let stop = registration.handle.stop.clone();
        let cwd = request.cwd.filter(|cwd| !cwd.is_empty());
        let cwd = cwd.or_else(|| inner.options.default_cwd.as_ref().map(|path| path.to_string_lossy().into_owned()));
        let appended = inner.log.append_command(request.command.clone(), cwd.clone(), request.timeout, id);
        let event = appended.body.clone();
        inner.store(appended).await;
        let job = Job {
            id,
            command: request.command,
            directory: cwd.map(PathBuf::from),
            timeout: request.timeout,
            environment: inner.options.environment.clone(),
            output_limit: inner.options.max_output_bytes,
            stop,
        };
        let mut sink = Recorder { inner: Arc::clone(inner), joined: None, collect };
        let finished = tokio::spawn(async move {
            let _registration = registration;
            run::run(job, &mut sink).await;
            sink.joined
        });
        Ok(Started { id, event, finished })
    }

    /// Ends a running command with its whole group and waits until it is over, at most some seconds. `false` when the id is
    /// neither a running command nor a stored event.
    ///
    /// # Errors
    /// When the stored events cannot be read.
    pub async fn stop(&self, id: BashId) -> Result<bool, BashError> {
        let handle = self.inner.running().commands.get(&id).cloned();
        if let Some(handle) = handle {
            handle.stop.cancel();
            let _ = tokio::time::timeout(STOP_WAIT, handle.done.cancelled()).await;
            return Ok(true);
        }
        self.scanned().await?;
        Ok(self.inner.log.find(id).is_some())
    }

    /// One page of events.
    ///
    /// # Errors
    /// When the stored events cannot be read.
    pub async fn search(&self, search: BashSearch) -> Result<BashPage, BashError> {
        self.scanned().await?;
        let log = &self.inner.log;
        let mut from = match search.page_id.as_deref().and_then(EventKey::parse).filter(|key| log.contains(key)) {
            Some(key) => From::At(key),
            None => From::Beginning,
        };
        let size = search.page_size();
        let (mut page, mut bytes) = (BashPage::default(), 0);
        // Damaged files and orders that only the file tells thin a batch out, hence the loop. One event more than the page
        // takes tells where the next page starts.
        loop {
            let batch = log.candidates(&search, from, size + 1 - page.items.len());
            let Some(last) = batch.last() else { return Ok(page) };
            from = From::After(last.key);
            for (key, body) in self.inner.bodies(batch, &search).await {
                if page.items.len() >= size || (bytes > 0 && bytes + body.len() > MAX_PAGE_BYTES) {
                    page.next_page_id = Some(key.to_string());
                    return Ok(page);
                }
                bytes += body.len();
                page.items.push(body);
            }
        }
    }

    /// An event by its id.
    ///
    /// # Errors
    /// When the stored events cannot be read.
    pub async fn get(&self, id: BashId) -> Result<Option<Bytes>, BashError> {
        self.scanned().await?;
        match self.inner.log.find(id) {
            Some(found) => Ok(self.inner.bodies(vec![found], &BashSearch::default()).await.pop().map(|(_, body)| body)),
            None => Ok(None),
        }
    }

    /// Deletes all events and says how many. Running commands go on.
    ///
    /// # Errors
    /// When the stored events cannot be read.
    pub async fn clear(&self) -> Result<usize, BashError> {
        self.scanned().await?;
        let removed = self.inner.log.clear();
        let count = removed.len();
        self.inner.remove_files(removed).await;
        Ok(count)
    }

    /// A listener for new events, and with `history` the names of all events before them.
    ///
    /// # Errors
    /// When there are too many listeners.
    pub async fn subscribe(&self, history: bool) -> Result<(Vec<EventKey>, Subscription), TooManySubscribers> {
        if history && let Err(error) = self.scanned().await {
            tracing::warn!(%error, "history of bash events is not sent");
        }
        self.inner.log.subscribe(history)
    }

    /// The body of an event of [`Self::subscribe`]; `None` when it was deleted meanwhile or is damaged.
    pub async fn read(&self, key: EventKey) -> Option<Bytes> {
        let found = self.inner.log.entry(key)?;
        self.inner.bodies(vec![found], &BashSearch::default()).await.pop().map(|(_, body)| body)
    }

    /// How many commands run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.inner.running().commands.len()
    }

    /// Ends all commands, then all subscriptions. New commands are refused from now on.
    pub async fn close(&self) {
        let handles: Vec<Handle> = {
            let mut running = self.inner.running();
            running.closed = true;
            running.commands.values().cloned().collect()
        };
        for handle in &handles {
            handle.stop.cancel();
        }
        let all = futures::future::join_all(handles.iter().map(|handle| handle.done.cancelled()));
        let _ = tokio::time::timeout(STOP_WAIT, all).await;
        self.inner.log.close();
    }

    async fn scanned(&self) -> Result<(), BashError> {
        let inner = Arc::clone(&self.inner);
        let scan = async move {
            let scan = tokio::task::spawn_blocking(move || inner.log.scan()).await;
            scan.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(BashError::Storage)
        };
        self.inner.scanned.get_or_try_init(|| scan).await?;
        Ok(())
    }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn store(self: &Arc<Self>, appended: Appended) {
        let inner = Arc::clone(self);
        let stored = tokio::task::spawn_blocking(move || inner.log.store(&appended)).await;
        if let Ok(Err(error)) = stored {
            tracing::warn!(%error, directory = %self.options.events_dir.display(), "bash event is kept in memory only");
        }
    }

    async fn bodies(self: &Arc<Self>, found: Vec<Found>, search: &BashSearch) -> Vec<(EventKey, Bytes)> {
        if found.iter().all(|found| found.body.is_some()) {
            return found.into_iter().filter_map(|found| Some((found.key, found.body?))).collect();
        }
        let (inner, search) = (Arc::clone(self), search.clone());
        let read = tokio::task::spawn_blocking(move || {
            let body = |found: Found| {
                let body = inner.log.read(&found)?;
                let order = found.order.or_else(|| order_of(&body));
                search.accepts_order(order).then_some((found.key, body))
            };
            found.into_iter().filter_map(body).collect()
        });
        read.await.unwrap_or_default()
    }

    async fn remove_files(self: &Arc<Self>, keys: Vec<EventKey>) {
        let inner = Arc::clone(self);
        let _ = tokio::task::spawn_blocking(move || inner.log.remove_files(&keys)).await;
    }
}

fn order_of(body: &[u8]) -> Option<i64> {
    #[derive(serde::Deserialize)]
    struct Order {
        order: Option<i64>,
    }
    serde_json::from_slice::<Order>(body).ok()?.order
}

/// Takes the command out of the running ones when its task ends, however it ends.
struct Registration {
    inner: Arc<Inner>,
    id: BashId,
    handle: Handle,
}

impl Registration {
    fn new(inner: &Arc<Inner>, id: BashId) -> Result<Self, BashError> {
        let limit = inner.options.max_running;
        let handle = Handle::default();
        let mut running = inner.running();
        if running.closed {
            return Err(BashError::Closed);
        }
        if running.commands.len() >= limit {
            return Err(BashError::TooManyRunning { limit });
        }
        running.commands.insert(id, handle.clone());
        drop(running);
        Ok(Self { inner: Arc::clone(inner), id, handle })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.inner.running().commands.remove(&self.id);
        self.handle.done.cancel();
    }
}

/// Stores and publishes the pieces of a command's output.
struct Recorder {
    inner: Arc<Inner>,
    joined: Option<BashOutput>,
    collect: bool,
}

impl Sink for Recorder {
    async fn take(&mut self, output: BashOutput) {
        let (appended, output) = self.inner.log.append_output(output);
        self.inner.store(appended).await;
        if self.collect {
            self.joined = Some(match self.joined.take() {
                None => output,
                Some(before) => join(before, output),
            });
        }
    }
}

/// One output from two that follow each other, at most [`ANSWER_BYTES`] of each stream; the notes in the last one always stay.
fn join(before: BashOutput, next: BashOutput) -> BashOutput {
    let last = next.exit_code.is_some();
    let text = |before: Option<String>, next: Option<String>, limit: usize| match (before, next) {
        (Some(mut before), Some(next)) => {
            let room = limit.saturating_sub(before.len());
            before.push_str(next.get(..next.floor_char_boundary(room)).unwrap_or_default());
            Some(before)
        }
        (before, next) => before.or(next),
    };
    let stdout = text(before.stdout, next.stdout, ANSWER_BYTES);
    let mut stderr = text(before.stderr, next.stderr, if last { usize::MAX } else { ANSWER_BYTES });
    // A character that does not fit leaves up to three bytes of room.
    let full = |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() > ANSWER_BYTES - 4);
    if last && (full(&stdout) || full(&stderr)) {
        output::add_line(
            &mut stderr,
            "[answer cut: the command's events hold the rest; write long output to a file]\n",
        );
    }
    BashOutput { stdout, stderr, ..next }
}

async fn keep_only(retention: Duration, service: Weak<Inner>) {
    let interval = (retention / 2).max(Duration::from_secs(60));
    loop {
        let Some(inner) = service.upgrade() else { return };
        let service = BashService { inner };
        if let Err(error) = service.scanned().await {
            tracing::warn!(%error, "old bash events are not deleted");
        }
        let age = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
        let removed = service.inner.log.forget_before(jiff::Timestamp::now().as_microsecond().saturating_sub(age));
        if !removed.is_empty() {
            tracing::info!(count = removed.len(), "deleted old bash events");
            service.inner.remove_files(removed).await;
        }
        drop(service);
        tokio::time::sleep(interval).await;
    }
}

#[cfg(test)]
mod tests;
