//! Event log, state and lease of a conversation on disk.
//!
//! The layout is the reference's (protocol section 6), so that conversations move between both servers. Knows how bytes
//! become durable and what is left after a crash; knows nothing of agents, runs, models or HTTP. Files are made with mode
//! 0600 and directories with 0700, always by temporary file and rename. Nothing found on disk stops a server: damaged files
//! are moved aside or skipped, with a warning.

mod atomic;
pub mod catalog;
pub mod error;
pub mod event;
pub mod event_log;
mod event_name;
mod file_lock;
pub mod lease;
pub mod side_file;
pub mod state_file;

pub use atomic::{create_private_dir, read_bounded, replace, sync_dir};
pub use catalog::{Catalog, CatalogEntry};
pub use error::StoreError;
pub use event::{EventHead, StoredEvent};
pub use event_log::{EventLog, LogFollower};
pub use file_lock::FileLock;
pub use lease::{Lease, LeaseError, LeaseOwner};
pub use side_file::SideFile;
pub use state_file::{Durability, StateFile};
