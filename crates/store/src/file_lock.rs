//! Exclusive locks on files, the same that the reference takes (`flock`), with a bounded wait.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};

use crate::error::StoreError;

/// A lock file that is locked while this lives.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Takes the lock, blocking for at most `limit`. The file is made when there is none.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when somebody holds it all the time, [`StoreError::Io`] when the operating system refuses.
    pub fn take(path: &Path, limit: Duration) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(StoreError::io("open", path))?;
        let until = Instant::now() + limit;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if Instant::now() < until => {
                    // The other side holds it for the length of a few renames.
                    std::thread::park_timeout(Duration::from_millis(2));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(StoreError::Locked { path: path.to_owned(), seconds: limit.as_secs() });
                }
                Err(error) => return Err(StoreError::io("lock", path)(error.into())),
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing would do as well, were the descriptor not copied by a fork in between.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_exclusive_and_waited_for_within_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        let held = FileLock::take(&path, Duration::ZERO).unwrap();
        assert!(matches!(FileLock::take(&path, Duration::from_millis(10)), Err(StoreError::Locked { .. })));
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || FileLock::take(&path, Duration::from_secs(20)).is_ok()
        });
        drop(held);
        assert!(waiting.join().unwrap());
    }
}
