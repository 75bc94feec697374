//! Follows whether the log reaches the disk: shows events once they are there, tells of a disk that refuses, and tries again
//! until it takes them. It does not know what a failure means for a run.

use std::{sync::Arc, time::Duration};

use openhands_store::{EventLog, LogFollower, StoreError};
use tokio::{sync::watch, task::JoinHandle};

use crate::hub::Hub;

/// How long after a failure the disk is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// How a log fares.
pub(crate) struct Storage {
    failed: watch::Receiver<Option<StoreError>>,
    again: Option<JoinHandle<()>>,
}

struct Follower {
    hub: Hub,
    failed: watch::Sender<Option<StoreError>>,
}

impl LogFollower for Follower {
    fn written(&self, count: u64) {
        self.hub.release(count);
        self.failed.send_if_modified(|failed| failed.take().is_some());
    }

    fn failed(&self, error: &StoreError) {
        self.failed.send_replace(Some(error.clone()));
    }
}

impl Storage {
    pub(crate) fn follow(log: &EventLog, hub: &Hub) -> Self {
        let failed = watch::Sender::new(None);
        let storage = Self { failed: failed.subscribe(), again: None };
        log.follow(Arc::new(Follower { hub: hub.clone(), failed }));
        // What was written before anybody followed.
        hub.release(log.written());
        storage
    }

    /// Why events cannot be written at present.
    pub(crate) fn failing(&self) -> Option<StoreError> {
        self.failed.borrow().clone()
    }

    /// Waits for the next failure. May be dropped and called again.
    pub(crate) async fn trouble(&mut self) -> StoreError {
        loop {
            if self.failed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(error) = self.failed.borrow_and_update().clone() {
                return error;
            }
        }
    }

    /// Tries again after a while, unless that is on its way.
    pub(crate) fn try_again(&mut self, log: &EventLog) {
        if self.again.as_ref().is_none_or(JoinHandle::is_finished) {
            let log = log.clone();
            self.again = Some(tokio::spawn(async move {
                tokio::time::sleep(AGAIN).await;
                // A failure comes back as trouble.
                let _ = log.commit().await;
            }));
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(again) = &self.again {
            again.abort();
        }
    }
}
