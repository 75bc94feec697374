//! The remote side of the agent-server protocol.
//!
//! One [`Connection`] is one TCP connection to one server, so that a proof and the secrets that follow it go to the same peer.
//! Everything a server answers is bounded in size and time, and no redirect is followed. It knows the wire types and nothing
//! of Kubernetes.

mod connection;
mod conversation;
mod error;
mod init;
mod limits;

pub use connection::Connection;
pub use conversation::{ConversationState, Started};
pub use error::ClientError;
pub use init::InitAnswer;
pub use limits::Limits;
