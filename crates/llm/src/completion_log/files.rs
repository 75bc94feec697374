//! Completion logs as files, for clients of this library that hand in no observer: one file a call in
//! `llm.log_completions_folder`, readable by its owner only.
//!
//! Writing happens beside the call and never fails it. What this process wrote last is kept, older files of its own are removed;
//! files of others are not touched.

use std::{
    collections::VecDeque,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Semaphore;

use super::CompletionLog;
use crate::observer::{CallObserver, CallTrace};
use openhands_protocol::LlmConfig;

/// Largest file, bytes.
const FILE_LIMIT: usize = 16 * 1024 * 1024;
/// Most files that one client keeps.
const FILES_KEPT: usize = 1000;
/// Most bytes that one client keeps.
const BYTES_KEPT: usize = 512 * 1024 * 1024;
/// Most files that are being written at once; further logs are left out.
const WRITERS: usize = 4;

/// Writes each call of a client into a folder.
pub(crate) struct Files {
    folder: PathBuf,
    written: Arc<Mutex<VecDeque<(PathBuf, usize)>>>,
    writers: Arc<Semaphore>,
    has_failed: Arc<AtomicBool>,
}

impl Files {
    pub(crate) fn new(folder: &str) -> Self {
        Self {
            folder: folder.into(),
            written: Arc::default(),
            writers: Arc::new(Semaphore::new(WRITERS)),
            has_failed: Arc::default(),
        }
    }
}

impl CallObserver for Files {
    fn wants_body(&self, _: &LlmConfig) -> bool {
        true
    }

    fn finished(&self, trace: &CallTrace<'_>) {
        let (Ok(permit), Ok(runtime)) =
            (Arc::clone(&self.writers).try_acquire_owned(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let log = CompletionLog::of(trace);
        let (folder, written, has_failed) =
            (self.folder.clone(), Arc::clone(&self.written), Arc::clone(&self.has_failed));
        runtime.spawn_blocking(move || {
            let _permit = permit;
            let Some(text) = log.text(FILE_LIMIT) else { return };
            let path = folder.join(&log.filename);
            match write(&folder, &path, &text) {
                Ok(()) => keep(&written, path, text.len()),
                // Once: a full disk would be told with every call otherwise.
                Err(error) if !has_failed.swap(true, Ordering::Relaxed) => {
                    tracing::warn!(folder = %folder.display(), %error, "a completion cannot be logged (llm.log_completions_folder)");
                }
                Err(_) => {}
            }
        });
    }
}

fn write(folder: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// Remembers a file, and removes the oldest ones past the bounds.
fn keep(written: &Mutex<VecDeque<(PathBuf, usize)>>, path: PathBuf, bytes: usize) {
    let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
    written.push_back((path, bytes));
    let mut total: usize = written.iter().map(|(_, bytes)| bytes).sum();
    while written.len() > FILES_KEPT || (total > BYTES_KEPT && written.len() > 1) {
        let Some((oldest, bytes)) = written.pop_front() else { return };
        total -= bytes;
        let _ = fs::remove_file(oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_files_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let written = Mutex::default();
        for number in 0..=FILES_KEPT {
            let path = folder.path().join(number.to_string());
            write(folder.path(), &path, "{}").unwrap();
            keep(&written, path, 2);
        }
        assert!(!folder.path().join("0").exists());
        assert!(folder.path().join("1").exists());
        let large = folder.path().join("large");
        write(folder.path(), &large, "{}").unwrap();
        keep(&written, large.clone(), BYTES_KEPT);
        assert_eq!(*written.lock().unwrap(), [(large, BYTES_KEPT)]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn files_are_their_owners() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/log.json");
        write(&folder.path().join("deep"), &path, "{}").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // Never over a file or through a link that is there already.
        assert!(write(&folder.path().join("deep"), &path, "{}").is_err());
    }
}
