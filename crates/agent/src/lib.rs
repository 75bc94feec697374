//! Decides the next step of a run from events.
//!
//! Everything here is a value or a pure function: no clock, network, files or async. [`Machine`] is fed every event of a
//! conversation and answers "what next?" ([`Next`]); whoever drives it does that and feeds back the events that came of it.
//! The messages for the model ([`View`]) are kept up to date event by event, so a step costs what it adds, not what there is.
//!
//! Phases that later join the loop (hooks, a critic) are further variants of [`Next`] and further event arms
//! of the view.

mod actions;
mod answer;
mod arguments;
mod condensation;
mod condenser;
#[cfg(test)]
mod fixtures;
mod length;
mod machine;
mod observation;
mod offer;
mod pending;
mod policy;
mod stuck;
mod view;

pub use actions::{Refusal, Toolset};
pub use answer::{Answer, AnswerKind};
pub use condenser::{CondenserRules, Need, NothingToForget, Plan, Reasons, Tokens, summarizers};
pub use machine::{Limits, Machine, Next, Progress};
pub use offer::{SECURITY_RISK, SUMMARY, offered_parameters};
pub use pending::PendingActions;
pub use policy::{Judgement, judge};
pub use stuck::{StuckThresholds, Verdict, examine};
pub use view::View;
