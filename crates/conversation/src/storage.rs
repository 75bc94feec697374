//! Follows whether the log reaches the disk: shows events once they are there, tells of a disk that refuses, and tries again
//! until it takes them.

use std::{sync::Arc, time::Duration};

use openhands_protocol::ExecutionStatus;
use openhands_store::{EventLog, LogFollower, StoreError};
use tokio::{sync::watch, task::JoinHandle};

use crate::{hub::Hub, task::Task};

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

impl Task {
    /// Logs a failure of the disk and ends the run: without the log nothing may go on.
    pub(crate) fn note(&mut self, result: Result<(), StoreError>) {
        let Err(error) = result else { return };
        tracing::error!(conversation = %self.core.state.id, %error, "the conversation cannot be written, its run ends");
        if let Some(run) = self.run.take() {
            if !run.only_condenses {
                self.observer.run_ended(ExecutionStatus::Error);
            }
            run.drop_all(&mut self.request, &mut self.core.machine);
        }
        self.answer_condense(|| Err(error.clone().into()));
        self.core.fail_storage(&error);
        self.core.publish();
    }

    /// What is in memory is kept and tried again; only a run must not go on.
    pub(crate) fn storage_failed(&mut self, error: StoreError) {
        self.core.storage.try_again(&self.core.log);
        if self.run.is_some() {
            self.note(Err(error));
        }
    }

    /// Refuses to take more while the disk takes nothing; the caller may repeat it.
    pub(crate) fn check_storage(&mut self) -> Result<(), StoreError> {
        let Some(error) = self.core.storage.failing() else { return Ok(()) };
        self.core.storage.try_again(&self.core.log);
        Err(error)
    }
}
