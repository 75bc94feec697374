//! Claim, bind and start as a machine without IO.
//!
//! [`decide`] looks at [`Facts`] (projections) and at the [`Attempt`] in memory, and names one [`Intent`]; the rim carries it out
//! and hands its [`Answer`] to [`Attempt::learn`]. Everything may be cut off anywhere and done again: an attempt that is lost with
//! its process is begun again from the facts.
//!
//! What always holds, and what the model test walks through:
//! - one pod at most is ever named by a status, and a named pod is never exchanged for another;
//! - keys are sent only to a pod that is claimed and has proven itself since it was started last;
//! - the agent is started only on the pod that the status names;
//! - a pod that was claimed and not bound is deleted in the end.

mod attempt;
mod decide;
mod facts;
#[cfg(test)]
mod model;

pub use attempt::{Answer, Attempt, Step};
pub use decide::{Intent, Rest, Tried, Wait, decide};
pub use facts::{Binding, Facts, PodFact, PodState, Source};
