//! A scripted model over HTTP, for tests on real sockets.
//!
//! A test starts a [`ScriptedModel`] with the turns it should answer, points a model configuration at it, and looks afterwards at
//! what it was asked. Knows the wires of the providers, whole and streamed, and how they fail; knows nothing of this
//! product's own interfaces.

mod model;
mod plan;
mod turn;
mod wire;

pub use model::{ScriptedModel, SeenRequest, llm_config};
pub use plan::{Account, PlanService};
pub use turn::{ScriptedCall, Turn};
pub use wire::{answer, aws_message};
