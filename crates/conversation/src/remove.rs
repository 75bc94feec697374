//! Removes what is left of a conversation that cannot be taken up.

use std::{path::Path, sync::Arc};

use openhands_store::StoreError;

use crate::{Conversation, create, environment::Environment, error::LoadError};

impl Conversation {
    /// Removes the directory of a conversation that cannot be loaded. One that can be is deleted with
    /// [`Conversation::delete`], which also ends what it does.
    ///
    /// # Errors
    /// [`LoadError::Missing`] when there is no such directory, [`LoadError::Lease`] when another server owns it, and
    /// [`LoadError::Store`] when the disk refuses.
    pub async fn remove(env: Arc<Environment>, dir: &Path) -> Result<(), LoadError> {
        let dir = dir.to_owned();
        let removed = tokio::task::spawn_blocking(move || {
            if !dir.is_dir() {
                return Err(LoadError::Missing);
            }
            let lease = create::acquire(&dir, env.lease.as_ref()).map_err(LoadError::Lease)?;
            let removed = std::fs::remove_dir_all(&dir);
            // The lease's file went with the directory, or stays with what could not be removed.
            let _ = lease.release();
            removed.map_err(|source| StoreError::Io { doing: "remove", path: dir, source: Arc::new(source) }.into())
        });
        removed.await.map_err(|_| StoreError::Stopped)?
    }
}
