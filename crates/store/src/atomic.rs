//! Files that are whole or absent: temporary file, rename, optional fsync.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::OFlags;

use crate::{error::StoreError, event_name::TEMPORARY_PREFIX};

/// A name for an unfinished file, unique on this machine while this process lives.
pub(crate) fn temporary_path(dir: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    dir.join(format!("{TEMPORARY_PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Writes a file of its own under `path`, mode 0600, replacing what a dead process left under that name.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<File, StoreError> {
    let open = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match open() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path).map_err(StoreError::io("remove", path))?;
            open()
        }
        other => other,
    }
    .map_err(StoreError::io("create", path))?;
    if let Err(error) = file.write_all(bytes) {
        drop(file);
        // The disk is probably full: do not also leave the half behind.
        let _ = fs::remove_file(path);
        return Err(StoreError::io("write", path)(error));
    }
    Ok(file)
}

/// Puts `bytes` at `path` (mode 0600) by temporary file and rename; with `durable` also through to the device.
///
/// # Errors
/// When the operating system refuses; what was at `path` is whole then.
pub fn replace(path: &Path, bytes: &[u8], durable: bool) -> Result<(), StoreError> {
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    let temporary = temporary_path(dir);
    let file = write_new(&temporary, bytes)?;
    let moved = if durable { file.sync_all() } else { Ok(()) }.and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = moved {
        let _ = fs::remove_file(&temporary);
        return Err(StoreError::io("write", path)(error));
    }
    if durable { sync_dir(dir) } else { Ok(()) }
}

/// Makes the names in a directory durable.
///
/// # Errors
/// When the directory cannot be opened or the device fails.
pub fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|handle| handle.sync_all()).map_err(StoreError::io("sync", dir))
}

/// Makes a directory and its parents, mode 0700. Nothing happens when it is there.
///
/// # Errors
/// When the operating system refuses.
pub fn create_private_dir(dir: &Path) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(StoreError::io("create", dir))
}

/// Reads a file of at most `limit` bytes; `None` when it does not exist. Blocks on nothing but the disk: a pipe or a device
/// that somebody put in the file's place is refused, because to open or read it could take for ever.
///
/// # Errors
/// When it is longer, no regular file, or the operating system refuses.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, StoreError> {
    // Without the flag the opening of a pipe waits for its other end.
    let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(without_waiting).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("open", path)(error)),
    };
    if !file.metadata().map_err(StoreError::io("look at", path))?.is_file() {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        return Err(StoreError::io("read", path)(error));
    }
    let mut bytes = Vec::new();
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(StoreError::io("read", path))?;
    if read as u64 > limit {
        let error = io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {limit} bytes"));
        return Err(StoreError::io("read", path)(error));
    }
    Ok(Some(bytes))
}

/// Runs blocking work away from the async workers: on the runtime's blocking threads, or without a runtime on a thread.
pub(crate) fn off_the_workers(work: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => drop(std::thread::spawn(work)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_in_the_place_of_a_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meta.json");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let (answer, answered) = std::sync::mpsc::channel();
        std::thread::spawn(move || answer.send(read_bounded(&path, 10).is_err()));
        assert_eq!(answered.recv_timeout(std::time::Duration::from_secs(20)), Ok(true));
    }
}
