//! What goes wrong with the disk.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use openhands_protocol::EventId;

/// A failed act on the store. Cheap to clone, because one failed round answers every caller that waited for it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was being tried.
        doing: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The operating system's answer.
        #[source]
        source: Arc<io::Error>,
    },
    /// A file holds something else than it should.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why it could not be read.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// The log has an event of this id already (F1-PER-04).
    #[error("event {id} is in the log already, at position {position}")]
    DuplicateId {
        /// The event's id.
        id: EventId,
        /// Where the first one stands.
        position: u64,
    },
    /// An event id that cannot be part of a file name.
    #[error("event id {0:?} is not 1 to 128 letters, digits, dashes or underscores")]
    InvalidId(EventId),
    /// An event larger than a log takes.
    #[error("event {id} has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// The event's id.
        id: EventId,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A value that JSON cannot express.
    #[error("cannot write {what} as JSON")]
    Encode {
        /// What was to be written.
        what: String,
        /// Why not.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// Another server took the conversation over; nothing more may be written.
    #[error("the conversation in {} is owned by another server now", dir.display())]
    OwnershipLost {
        /// The conversation's directory.
        dir: PathBuf,
    },
    /// Another process kept the log's lock for too long.
    #[error("the lock {} was not free within {seconds} s", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The task that did the work was stopped (the runtime shuts down).
    #[error("the write was stopped by shutdown")]
    Stopped,
}

impl StoreError {
    /// Names what was tried on which path.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source: Arc::new(source) }
    }
}
