//! Pools: as many unclaimed members as wanted, never more pods than the cap.

mod fill;
mod memory;
mod plan;
mod reconcile;
mod status;

pub use memory::Pools;
pub use reconcile::reconcile;
