//! A lock between the processes that share a directory: whoever renews tokens holds it, as an issuer voids the old refresh token.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::SubscriptionError;

/// Longer than a renewal may take.
const PATIENCE: Duration = Duration::from_secs(45);
const PAUSE: Duration = Duration::from_millis(25);

/// Held until dropped; the system lets go of it when the process dies.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock, blocking, at most [`PATIENCE`].
    #[expect(clippy::disallowed_methods, reason = "the system has no wait for a file's lock that ends")]
    pub(crate) fn take(path: PathBuf) -> Result<Self, SubscriptionError> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(lock) = Self::try_take(&path)? {
                return Ok(lock);
            }
            if Instant::now() >= end {
                let late = io::Error::new(io::ErrorKind::TimedOut, "another process holds it");
                return Err(SubscriptionError::storage("lock", path)(late));
            }
            std::thread::sleep(PAUSE);
        }
    }

    pub(crate) fn try_take(path: &Path) -> Result<Option<Self>, SubscriptionError> {
        let open = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file = open.map_err(SubscriptionError::storage("lock", path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(SubscriptionError::storage("lock", path)(error)),
        }
    }
}
