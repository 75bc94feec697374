//! The parent process of a server, made for being PID 1: it starts the server as its child, reaps orphans, forwards signals,
//! restarts a child that crashed within milliseconds, and keeps the init payload, so that the restarted child comes back
//! initialised. It serves nothing and reads no configuration.

mod frame;
mod link;
mod parent;
mod restart;

pub use link::Link;
pub use parent::run;

/// Tells a server that it is the child of this binary; not for users.
pub const CHILD_FLAG: &str = "--supervised";

/// Keeps other processes of the same user (tools above all) from reading this process's memory and environment.
pub fn hide_memory() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};

    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "this process can be read by others of its user");
    }
}

/// Whether this process is the first one of its container.
#[must_use]
pub fn is_first_process() -> bool {
    std::process::id() == 1
}
