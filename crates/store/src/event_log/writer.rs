//! The disk side of a log: files in order, then one round of fsyncs for everybody who waits.
//!
//! At most one round runs at a time, on a blocking thread; whatever comes meanwhile is taken by the next one, which starts at once.
//! With a caller waiting, each file goes to the device before its name appears, then the marker moves, then the directory is
//! synced: an acknowledged event is whole after any crash. A failed round loses nothing: its events are written again by the next.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use openhands_protocol::EventId;
use tokio::sync::watch;

use super::recover::Recovered;
use crate::{
    atomic,
    error::StoreError,
    event::StoredEvent,
    event_name::{LOCK_FILE, event_file, marker_file},
    file_lock::FileLock,
    lease::Lease,
};

/// Events written in one go; bounds the open files of a round.
const BATCH: usize = 64;
/// Events that may wait for a commit nobody asks for.
const UNSYNCED: usize = 64;
/// F1-PER-04.
const LOCK_SECONDS: u64 = 30;

pub(super) struct Writer {
    events_dir: PathBuf,
    queue: Mutex<Queue>,
    /// Held by the running round only.
    disk: Mutex<Disk>,
    written: AtomicU64,
    progress: watch::Sender<Progress>,
    lease: OnceLock<Lease>,
    follower: OnceLock<Arc<dyn LogFollower>>,
}

/// Hears what becomes of appended events. Called on the thread that writes, so it must not block.
pub trait LogFollower: Send + Sync {
    /// Events below `count` are on disk (a kill of this process leaves them), though perhaps not on the device.
    fn written(&self, count: u64);
    /// A round failed; its events are written again by the next one.
    fn failed(&self, error: &StoreError);
}

#[derive(Default)]
struct Queue {
    pending: std::collections::VecDeque<Arc<StoredEvent>>,
    /// Somebody waits until this many events are durable.
    wanted: u64,
    running: bool,
}

struct Disk {
    /// Files with a name that were not synced.
    unsynced: Vec<(u64, EventId)>,
    marker: Option<u64>,
}

#[derive(Clone, Default)]
struct Progress {
    durable: u64,
    /// Rounds of fsyncs that ended well.
    rounds: u64,
    failures: u64,
    error: Option<StoreError>,
}

impl Writer {
    pub(super) fn new(events_dir: PathBuf, found: &Recovered) -> Self {
        let unsynced = (0..).zip(&found.ids).filter(|(seq, _)| *seq >= found.durable);
        Self {
            events_dir,
            queue: Mutex::default(),
            disk: Mutex::new(Disk {
                unsynced: unsynced.map(|(seq, id)| (seq, id.clone())).collect(),
                marker: found.marker,
            }),
            written: AtomicU64::new(found.ids.len() as u64),
            progress: watch::Sender::new(Progress { durable: found.durable, ..Progress::default() }),
            lease: OnceLock::new(),
            follower: OnceLock::new(),
        }
    }

    pub(super) fn guard(&self, lease: Lease) {
        let _ = self.lease.set(lease);
    }

    pub(super) fn follow(&self, follower: Arc<dyn LogFollower>) {
        let _ = self.follower.set(follower);
    }

    pub(super) fn check_owner(&self) -> Result<(), StoreError> {
        match self.lease.get() {
            Some(lease) if lease.is_lost() => Err(StoreError::OwnershipLost { dir: self.events_dir.clone() }),
            _ => Ok(()),
        }
    }

    /// Events below this are on disk, though perhaps not on the device.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(super) fn durable(&self) -> u64 {
        self.progress.borrow().durable
    }

    #[cfg(test)]
    pub(super) fn rounds_done(&self) -> u64 {
        self.progress.borrow().rounds
    }

    pub(super) fn queue(&self, stored: Arc<StoredEvent>) {
        self.lock_queue().pending.push_back(stored);
    }

    /// Starts a round unless one is running, which will see what is queued.
    pub(super) fn wake(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.lock_queue().running, true) {
            let job = Job { writer: Arc::clone(self), begun: false };
            atomic::off_the_workers(move || job.run());
        }
    }

    pub(super) async fn commit(self: &Arc<Self>, target: u64) -> Result<(), StoreError> {
        let mut progress = self.progress.subscribe();
        let failures = {
            let now = progress.borrow_and_update();
            if now.durable >= target {
                return Ok(());
            }
            now.failures
        };
        {
            let mut queue = self.lock_queue();
            queue.wanted = queue.wanted.max(target);
        }
        self.wake();
        loop {
            // The sender lives in `self`.
            let _ = progress.changed().await;
            let now = progress.borrow_and_update();
            if now.durable >= target {
                return Ok(());
            }
            if now.failures != failures {
                return Err(now.error.clone().unwrap_or(StoreError::Stopped));
            }
        }
    }

    /// Waits until this many events are on disk, or a round fails.
    pub(super) async fn settled(self: &Arc<Self>, target: u64) -> Result<(), StoreError> {
        let mut progress = self.progress.subscribe();
        let failures = progress.borrow_and_update().failures;
        while self.written() < target {
            self.wake();
            // The sender lives in `self`.
            let _ = progress.changed().await;
            let now = progress.borrow_and_update();
            if now.failures != failures {
                return Err(now.error.clone().unwrap_or(StoreError::Stopped));
            }
        }
        Ok(())
    }

    /// Rounds until there is nothing to do, or one fails.
    fn rounds(&self) {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (batch, sync) = {
                let mut queue = self.lock_queue();
                let asked = queue.wanted > self.durable();
                let sync = asked || disk.unsynced.len() + queue.pending.len() > UNSYNCED;
                if queue.pending.is_empty() && (!sync || disk.unsynced.is_empty()) {
                    queue.running = false;
                    return;
                }
                let count = queue.pending.len().min(BATCH);
                (queue.pending.drain(..count).collect::<Vec<_>>(), sync)
            };
            if let Err(error) = self.round(&mut disk, &batch, sync) {
                tracing::error!(dir = %self.events_dir.display(), %error, cause = cause(&error), "events could not be stored");
                self.give_up(batch, error);
                return;
            }
        }
    }

    /// Puts a batch back and tells everybody who waits.
    fn give_up(&self, batch: Vec<Arc<StoredEvent>>, error: StoreError) {
        {
            let mut queue = self.lock_queue();
            for stored in batch.into_iter().rev() {
                queue.pending.push_front(stored);
            }
            queue.wanted = 0;
            queue.running = false;
        }
        if let Some(follower) = self.follower.get() {
            follower.failed(&error);
        }
        self.progress.send_modify(|progress| {
            progress.failures += 1;
            progress.error = Some(error);
        });
    }

    fn round(&self, disk: &mut Disk, batch: &[Arc<StoredEvent>], sync: bool) -> Result<(), StoreError> {
        self.write(batch, sync)?;
        let written = batch.last().map_or_else(|| self.written(), |stored| stored.seq + 1);
        self.written.store(written, Ordering::Release);
        if let Some(follower) = self.follower.get() {
            follower.written(written);
        }
        // Wakes who waits for it; the sum below is told once the device has it.
        self.progress.send_modify(|_| {});
        if !sync {
            disk.unsynced.extend(batch.iter().map(|stored| (stored.seq, stored.id.clone())));
            return Ok(());
        }
        for (seq, id) in &disk.unsynced {
            let path = self.events_dir.join(event_file(*seq, id));
            File::open(&path).and_then(|file| file.sync_data()).map_err(StoreError::io("sync", &path))?;
        }
        self.move_marker(disk, written);
        atomic::sync_dir(&self.events_dir)?;
        disk.unsynced.clear();
        self.progress.send_modify(|progress| {
            progress.durable = written;
            progress.rounds += 1;
        });
        Ok(())
    }

    fn write(&self, batch: &[Arc<StoredEvent>], sync: bool) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut files = Vec::with_capacity(batch.len());
        let result = self.write_unnamed(&mut files, batch, sync).and_then(|()| self.name(&files, batch));
        if result.is_err() {
            // A full disk must not be filled further by each attempt; those that got their name are gone from here already.
            files.iter().for_each(|path| drop(fs::remove_file(path)));
        }
        result
    }

    fn write_unnamed(
        &self,
        files: &mut Vec<PathBuf>,
        batch: &[Arc<StoredEvent>],
        sync: bool,
    ) -> Result<(), StoreError> {
        let mut open = Vec::new();
        for stored in batch {
            let path = atomic::temporary_path(&self.events_dir);
            let file = atomic::write_new(&path, &stored.bytes)?;
            files.push(path);
            if sync {
                open.push(file);
            }
        }
        open.iter().try_for_each(File::sync_data).map_err(StoreError::io("sync events in", &self.events_dir))
    }

    /// Names appear only while the lock is held and the lease is ours, so that a server that lost its conversation in its sleep
    /// cannot write over its successor.
    fn name(&self, files: &[PathBuf], batch: &[Arc<StoredEvent>]) -> Result<(), StoreError> {
        let _lock = FileLock::take(&self.events_dir.join(LOCK_FILE), Duration::from_secs(LOCK_SECONDS))?;
        let _owned = self.lease.get().map(Lease::hold).transpose()?;
        for (path, stored) in files.iter().zip(batch) {
            let name = self.events_dir.join(event_file(stored.seq, &stored.id));
            fs::rename(path, &name).map_err(StoreError::io("write", &name))?;
        }
        Ok(())
    }

    /// The marker is a hint for the next start; failing to move it must not fail the round.
    fn move_marker(&self, disk: &mut Disk, count: u64) {
        let new = self.events_dir.join(marker_file(count));
        let moved = match disk.marker {
            Some(old) if old == count => return,
            Some(old) => fs::rename(self.events_dir.join(marker_file(old)), &new),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        let moved = match moved {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new).map(drop)
            }
            other => other,
        };
        match moved {
            Ok(()) => disk.marker = Some(count),
            Err(error) => tracing::warn!(path = %new.display(), %error, "cannot move the marker"),
        }
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rounds on their way to a thread. A runtime that shuts down drops them instead, and nobody may wait for ever then.
struct Job {
    writer: Arc<Writer>,
    begun: bool,
}

impl Job {
    fn run(mut self) {
        self.begun = true;
        self.writer.rounds();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.begun {
            self.writer.give_up(Vec::new(), StoreError::Stopped);
        }
    }
}

fn cause(error: &StoreError) -> Option<String> {
    std::error::Error::source(error).map(ToString::to_string)
}
