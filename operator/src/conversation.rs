//! The life of a Conversation: accept, claim, prove, init, bind, start, follow, sweep.

pub mod accept;
pub mod agent;
mod bind;
mod claim;
mod create;
mod facts;
mod follow;
mod memory;
mod open;
mod patch;
mod perform;
mod poll;
mod reconcile;
mod session;
mod start;
mod status;
mod sweep;

pub use follow::{Offer, Reports, is_transition};
pub use memory::Memory;
pub(crate) use patch::difference;
pub use reconcile::reconcile;
pub(crate) use status::set_condition;
pub use sweep::sweep_orphans;
