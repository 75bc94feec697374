//! `base_state.json` and `meta.json`: JSON documents that are replaced as a whole.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;

use crate::{atomic, error::StoreError};

/// Larger documents are not read.
const LIMIT: u64 = 256 * 1024 * 1024;

/// Whether a write waits for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Survives the process.
    Process,
    /// Survives the machine: fsync of the file and of its directory.
    Device,
}

/// One document. Clones share the order of writes.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: Arc<PathBuf>,
    order: Arc<Mutex<Order>>,
}

#[derive(Debug, Default)]
struct Order {
    next: u64,
    /// Held while a write is on its way, so that an older document never lands on a newer one.
    written: Arc<Mutex<u64>>,
}

impl StateFile {
    /// The document at `path`; nothing is touched yet.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path: Arc::new(path), order: Arc::default() }
    }

    /// `base_state.json` of a conversation.
    #[must_use]
    pub fn base_state(conversation_dir: &Path) -> Self {
        Self::new(conversation_dir.join("base_state.json"))
    }

    /// `meta.json` of a conversation.
    #[must_use]
    pub fn meta(conversation_dir: &Path) -> Self {
        Self::new(conversation_dir.join("meta.json"))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it, blocking; `None` when there is none.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when it is no JSON, [`StoreError::Io`] when it cannot be read.
    pub fn read(&self) -> Result<Option<Value>, StoreError> {
        read_json(&self.path)
    }

    /// Replaces it. Calls may overlap: the one made last wins, whatever order the disk sees them in. Dropping the future does
    /// not stop the write.
    ///
    /// # Errors
    /// [`StoreError`] when the document could not be written; the old one is still whole then.
    pub async fn write(&self, value: &Value, durability: Durability) -> Result<(), StoreError> {
        let (bytes, ticket) = (encode(&self.path, value)?, self.ticket());
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.put(&bytes, &ticket, durability))
            .await
            .map_err(|_| StoreError::Stopped)?
    }

    /// Replaces it, blocking the thread.
    ///
    /// # Errors
    /// As [`StateFile::write`].
    pub fn write_blocking(&self, value: &Value, durability: Durability) -> Result<(), StoreError> {
        self.put(&encode(&self.path, value)?, &self.ticket(), durability)
    }

    fn ticket(&self) -> (u64, Arc<Mutex<u64>>) {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        order.next += 1;
        (order.next, Arc::clone(&order.written))
    }

    fn put(
        &self,
        bytes: &[u8],
        (ticket, written): &(u64, Arc<Mutex<u64>>),
        durability: Durability,
    ) -> Result<(), StoreError> {
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        let durable = durability == Durability::Device;
        if *written > *ticket {
            // A newer document is there; what the caller wants to know durable is at least as old.
            return if durable { sync_file(&self.path) } else { Ok(()) };
        }
        atomic::replace(&self.path, bytes, durable)?;
        *written = *ticket;
        Ok(())
    }
}

fn sync_file(path: &Path) -> Result<(), StoreError> {
    std::fs::File::open(path).and_then(|file| file.sync_all()).map_err(StoreError::io("sync", path))?;
    path.parent().map_or(Ok(()), atomic::sync_dir)
}

fn encode(path: &Path, value: &Value) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value)
        .map_err(|source| StoreError::Encode { what: path.display().to_string(), source: Arc::new(source) })
}

/// Reads any JSON document; `None` when it does not exist.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    let Some(bytes) = atomic::read_bounded(path, LIMIT)? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|source| StoreError::Damaged { path: path.to_owned(), source: Arc::new(source) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_document_is_replaced_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::base_state(dir.path());
        assert_eq!(file.read().unwrap(), None);
        file.write(&json!({"a": 1}), Durability::Process).await.unwrap();
        file.write(&json!({"a": 2, "é": [null]}), Durability::Device).await.unwrap();
        assert_eq!(file.read().unwrap(), Some(json!({"a": 2, "é": [null]})));
        assert_eq!(file.path().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[tokio::test]
    async fn an_older_document_never_lands_on_a_newer_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::meta(dir.path());
        let old = file.ticket();
        file.write(&json!("new"), Durability::Process).await.unwrap();
        file.put(b"\"old\"", &old, Durability::Device).unwrap();
        assert_eq!(file.read().unwrap(), Some(json!("new")));
    }

    #[test]
    fn a_torn_document_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::meta(dir.path());
        std::fs::write(file.path(), "{\"a\":").unwrap();
        let error = file.read().unwrap_err();
        assert!(matches!(&error, StoreError::Damaged { path, .. } if path == file.path()), "{error}");
    }
}
