//! The model calls of two servers beside each other: one form for what means the same, every difference by its place, and the
//! committed list of those that are meant. Knows nothing of how the calls were made.

mod difference;
mod normal;
mod rules;

pub use difference::{ABSENT, Difference, between};
pub use normal::normal;
pub use rules::{Rule, Rules};
