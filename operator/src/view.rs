//! What the operator remembers of the cluster: slim projections, not whole objects, so that ten thousand Conversations fit
//! into memory.

mod conversation;
mod key;
mod pod;
mod pool;
mod watch;
mod world;

pub use conversation::ConversationView;
pub use key::Key;
pub use pod::{PodObject, PodPhase, PodView, Trouble};
pub use pool::PoolView;
pub use watch::{Watched, run as run_watches};
pub use world::{Change, World};
