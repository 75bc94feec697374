//! Building sandbox pods.

mod build;
mod hash;

pub use build::{Owner, PodPlan, WORKING_DIR, build, claimed_marks, conversation_owner, pool_owner};
pub use hash::template_hash;
