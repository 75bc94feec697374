//! An appended list beside a document, for what would otherwise make the document grow with every call.
//!
//! The reference rewrites per-call lists (costs, latencies, token usages) with the whole state, which is quadratic over a long
//! conversation. Here each call is one line of JSON; the owner folds the lines into the document on pause and stop. A crash
//! between folding and clearing leaves lines that were folded already: entries carry an id and the owner folds each once.

use std::{
    fs::OpenOptions,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;

use crate::{atomic, error::StoreError};

/// Longer lists are not read.
const LIMIT: u64 = 256 * 1024 * 1024;

/// The list. Clones share it.
#[derive(Clone, Debug)]
pub struct SideFile {
    path: Arc<PathBuf>,
    /// Lines not yet handed to the disk, in order; the second lock keeps writers in that order.
    waiting: Arc<Mutex<Vec<u8>>>,
    disk: Arc<Mutex<()>>,
}

impl SideFile {
    /// The list `name` in a conversation's directory; nothing is touched yet.
    #[must_use]
    pub fn new(conversation_dir: &Path, name: &str) -> Self {
        Self { path: Arc::new(conversation_dir.join(name)), waiting: Arc::default(), disk: Arc::default() }
    }

    /// Adds an entry. The write happens on a blocking thread and is not waited for; statistics may lose their last entries
    /// with the machine, not with the process.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn append(&self, entry: &Value) -> Result<(), StoreError> {
        let mut line = serde_json::to_vec(entry)
            .map_err(|source| StoreError::Encode { what: self.path.display().to_string(), source: Arc::new(source) })?;
        line.push(b'\n');
        let first = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let first = waiting.is_empty();
            waiting.extend_from_slice(&line);
            first
        };
        if first {
            let this = self.clone();
            atomic::off_the_workers(move || {
                if let Err(error) = this.flush() {
                    tracing::warn!(%error, "entries of a side file were lost");
                }
            });
        }
        Ok(())
    }

    /// Writes what waits, blocking.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush(&self) -> Result<(), StoreError> {
        let _order = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        if lines.is_empty() {
            return Ok(());
        }
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&*self.path)
            .and_then(|mut file| file.write_all(&lines))
            .map_err(StoreError::io("append to", &self.path))
    }

    /// All entries, blocking; lines that a crash tore are left out.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&self) -> Result<Vec<Value>, StoreError> {
        self.flush()?;
        let bytes = atomic::read_bounded(&self.path, LIMIT)?.unwrap_or_default();
        Ok(bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    /// Forgets all entries, blocking; called after they were folded in and the document is durable.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn clear(&self) -> Result<(), StoreError> {
        let _order = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
        match std::fs::remove_file(&*self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", &self.path)(error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn entries_come_back_in_order_and_a_torn_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let list = SideFile::new(dir.path(), ".calls.jsonl");
        assert_eq!(list.read().unwrap(), Vec::<Value>::new());
        for n in 0..20 {
            list.append(&json!({"n": n})).unwrap();
        }
        assert_eq!(list.read().unwrap(), (0..20).map(|n| json!({"n": n})).collect::<Vec<_>>());
        let mut file = OpenOptions::new().append(true).open(dir.path().join(".calls.jsonl")).unwrap();
        file.write_all(b"{\"n\": 2").unwrap();
        assert_eq!(SideFile::new(dir.path(), ".calls.jsonl").read().unwrap().len(), 20);
        list.clear().unwrap();
        list.clear().unwrap();
        assert_eq!(list.read().unwrap(), Vec::<Value>::new());
    }
}
