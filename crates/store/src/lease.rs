//! Which server owns a conversation on shared storage (protocol section 6, F1-PER-05).
//!
//! `owner_lease.json` names owner, generation and expiry; every change happens under `.owner_lease.lock`, as in the reference. A
//! lease is taken over when it has expired, or when its owner ran on this host and is dead. Wall clocks are compared, as
//! the file format demands.

mod owner;
mod record;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::watch, task::JoinHandle};

pub use self::owner::LeaseOwner;
use self::record::Record;
use crate::{error::StoreError, file_lock::FileLock};

const FILE: &str = "owner_lease.json";
const LOCK: &str = ".owner_lease.lock";
const LOCK_LIMIT: Duration = Duration::from_secs(10);

/// Why a lease was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// A live server owns the conversation.
    #[error("the conversation is owned by {owner} until {expires_at}")]
    Held {
        /// The owner's instance id.
        owner: String,
        /// Unix seconds.
        expires_at: f64,
    },
    /// The disk refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Ownership of a conversation. Clones share it; it ends by [`Lease::release`] or by expiry, not by dropping.
#[derive(Clone, Debug)]
pub struct Lease(Option<Arc<Held>>);

#[derive(Debug)]
struct Held {
    dir: PathBuf,
    owner: LeaseOwner,
    ttl: Duration,
    generation: u64,
    lost: watch::Sender<bool>,
    renewal: Mutex<Option<JoinHandle<()>>>,
}

impl Lease {
    /// The names of the files that a lease keeps in the conversation's directory.
    pub const FILES: [&str; 2] = [FILE, LOCK];

    /// Takes the lease of a conversation's directory, blocking. `ttl` zero turns leases off: the result holds nothing and is
    /// never lost. Taking one's own lease again renews it.
    ///
    /// # Errors
    /// [`LeaseError::Held`] by a live other owner; [`LeaseError::Store`] when the disk refuses.
    pub fn acquire(dir: &Path, owner: &LeaseOwner, ttl: Duration) -> Result<Self, LeaseError> {
        if ttl.is_zero() {
            return Ok(Self(None));
        }
        let _lock = lock(dir)?;
        let now = now();
        let generation = match Record::read(&dir.join(FILE)) {
            None => 1,
            Some(found) if found.owner_instance_id == owner.id() => found.generation,
            Some(found) if found.expires_at > now && !owner.knows_dead(&found) => {
                return Err(LeaseError::Held { owner: found.owner_instance_id, expires_at: found.expires_at });
            }
            Some(found) => {
                tracing::info!(dir = %dir.display(), owner = found.owner_instance_id, "lease taken over");
                found.generation.saturating_add(1)
            }
        };
        Record::of(owner, generation, now + ttl.as_secs_f64()).write(&dir.join(FILE))?;
        Ok(Self(Some(Arc::new(Held {
            dir: dir.to_owned(),
            owner: owner.clone(),
            ttl,
            generation,
            lost: watch::Sender::new(false),
            renewal: Mutex::default(),
        }))))
    }

    /// The count of owners so far; `None` when leases are off.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        self.0.as_ref().map(|held| held.generation)
    }

    /// Keeps the lease by renewing it every third of its time, until it is lost or released. Needs a runtime; calling it again
    /// changes nothing.
    pub fn keep(&self) {
        let Some(held) = &self.0 else { return };
        let mut renewal = held.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        if renewal.is_none() {
            *renewal = Some(tokio::spawn(renew_for_ever(Arc::downgrade(held), held.ttl / 3)));
        }
    }

    /// Whether another server has taken the conversation over, as far as this one has noticed.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.as_ref().is_some_and(|held| *held.lost.borrow())
    }

    /// Ends when the lease is lost; never when leases are off.
    pub async fn lost(&self) {
        let Some(held) = &self.0 else { return std::future::pending().await };
        let mut lost = held.lost.subscribe();
        // The sender lives in `held`.
        let _ = lost.wait_for(|lost| *lost).await;
    }

    /// Extends the lease, blocking.
    ///
    /// # Errors
    /// [`StoreError::OwnershipLost`] when another server has taken it; other errors leave it as it is.
    pub fn renew(&self) -> Result<(), StoreError> {
        self.0.as_ref().map_or(Ok(()), |held| held.renew())
    }

    /// Gives the lease back, blocking: the next server need not wait.
    ///
    /// # Errors
    /// When the disk refuses. A lease that was lost already is left alone.
    pub fn release(&self) -> Result<(), StoreError> {
        let Some(held) = &self.0 else { return Ok(()) };
        if let Some(renewal) = held.renewal.lock().unwrap_or_else(PoisonError::into_inner).take() {
            renewal.abort();
        }
        let _lock = lock(&held.dir)?;
        let path = held.dir.join(FILE);
        if Record::read(&path).is_some_and(|found| held.owns(&found)) {
            std::fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
        }
        Ok(())
    }

    /// Holds the lease's lock for a write, after making sure that the lease is still ours.
    pub(crate) fn hold(&self) -> Result<Option<FileLock>, StoreError> {
        let Some(held) = &self.0 else { return Ok(None) };
        let lock = lock(&held.dir)?;
        held.check()?;
        Ok(Some(lock))
    }
}

impl Held {
    fn owns(&self, found: &Record) -> bool {
        found.owner_instance_id == self.owner.id() && found.generation == self.generation
    }

    fn check(&self) -> Result<(), StoreError> {
        if Record::read(&self.dir.join(FILE)).is_some_and(|found| self.owns(&found)) {
            return Ok(());
        }
        self.lost.send_replace(true);
        Err(StoreError::OwnershipLost { dir: self.dir.clone() })
    }

    fn renew(&self) -> Result<(), StoreError> {
        let _lock = lock(&self.dir)?;
        self.check()?;
        Record::of(&self.owner, self.generation, now() + self.ttl.as_secs_f64()).write(&self.dir.join(FILE))
    }
}

/// Ends with the lease: it holds no handle of its own.
async fn renew_for_ever(lease: std::sync::Weak<Held>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(held) = lease.upgrade() else { return };
        if *held.lost.borrow() {
            return;
        }
        let renewed = tokio::task::spawn_blocking(move || (held.renew(), held)).await;
        match renewed {
            Ok((Ok(()), _)) => {}
            Ok((Err(StoreError::OwnershipLost { dir }), _)) => {
                tracing::error!(dir = %dir.display(), "another server owns the conversation now");
                return;
            }
            Ok((Err(error), held)) => {
                tracing::warn!(dir = %held.dir.display(), %error, "lease was not renewed, trying again");
            }
            Err(_) => return,
        }
    }
}

fn lock(dir: &Path) -> Result<FileLock, StoreError> {
    FileLock::take(&dir.join(LOCK), LOCK_LIMIT)
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
