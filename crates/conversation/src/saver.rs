//! Writes `base_state.json` and `meta.json`: behind the task's back and at most about once a second while things change, at
//! once and through to the device where a caller is told that it is done.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use openhands_secrets::Cipher;
use openhands_store::{Durability, StateFile, StoreError};
use tokio::task::JoinHandle;

use crate::{info, snapshot::Snapshot};

/// How long changes of a run are gathered. Long, because the documents grow with the number of calls, and short of their
/// time stamps everything in them can be made again from the log and the list of calls.
pub(crate) const WHILE_RUNNING: Duration = Duration::from_secs(30);
/// How long other changes are gathered.
pub(crate) const SOON: Duration = Duration::from_millis(200);

/// Both documents of a conversation.
pub(crate) struct Saver {
    base: StateFile,
    meta: StateFile,
    cipher: Option<Arc<Cipher>>,
    due: Option<Instant>,
    /// A save on its way; the next one waits for it, so that an older state never lands on a newer one.
    saving: Option<JoinHandle<()>>,
}

impl Saver {
    pub(crate) fn new(dir: &Path, cipher: Option<Arc<Cipher>>) -> Self {
        Self { base: StateFile::base_state(dir), meta: StateFile::meta(dir), cipher, due: None, saving: None }
    }

    /// Something changed; it is to be written within this time.
    pub(crate) fn touch(&mut self, within: Duration) {
        let due = Instant::now() + within;
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// Ends when a save is due; never when nothing changed.
    pub(crate) async fn due(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Starts a save, unless one is on its way; then it is tried again later.
    pub(crate) fn save_behind(&mut self, state: &Snapshot) {
        self.due = None;
        if self.saving.as_ref().is_some_and(|saving| !saving.is_finished()) {
            self.touch(SOON);
            return;
        }
        let (base, meta, cipher, state) = (self.base.clone(), self.meta.clone(), self.cipher.clone(), state.clone());
        self.saving = Some(tokio::spawn(async move {
            if let Err(error) = write(&base, &meta, cipher.as_deref(), &state, Durability::Process).await {
                tracing::warn!(conversation = %state.id, %error, "the state of a conversation could not be saved");
            }
        }));
    }

    /// Saves through to the device.
    pub(crate) async fn save(&mut self, state: &Snapshot) -> Result<(), StoreError> {
        self.due = None;
        if let Some(saving) = self.saving.take() {
            // It logs its own failure; what is saved now is newer.
            let _ = saving.await;
        }
        write(&self.base, &self.meta, self.cipher.as_deref(), state, Durability::Device).await
    }
}

/// `meta.json` comes last: a directory is a conversation from the moment it is there.
async fn write(
    base: &StateFile,
    meta: &StateFile,
    cipher: Option<&Cipher>,
    state: &Snapshot,
    durability: Durability,
) -> Result<(), StoreError> {
    base.write(&info::base_state(state, cipher), durability).await?;
    meta.write(&info::meta(state, cipher), durability).await
}
