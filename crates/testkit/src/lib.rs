//! A scripted model over HTTP, for tests on real sockets.
//!
//! A test starts a [`ScriptedModel`] with the turns it should answer, points a model configuration at it, and looks afterwards at
//! what it was asked. Knows the wire of Chat Completions, whole and streamed, and how providers fail; knows nothing of this
//! product's own interfaces.

mod model;
mod sse;
mod turn;

pub use model::{ScriptedModel, SeenRequest, llm_config};
pub use turn::{ScriptedCall, Turn};
