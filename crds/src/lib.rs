//! The `Conversation` and `WarmPool` resources (`openhands.dev/v1alpha1`), and the YAML made from them.
//!
//! These types are the Kubernetes API and nothing else: they share nothing with the types of the agent-server's wire
//! protocol, and they hold no behaviour. Every list, map and string is bounded, so that the rules below stay inside the API
//! server's cost budget and an object can never be larger than the API server takes. A field exists only when the operator
//! honours it.

#![expect(
    unreachable_pub,
    reason = "the schema derive makes a hidden twin of each struct with the struct's own visibility"
)]

pub mod conversation;
pub mod manifest;
pub mod message;
pub mod model;
pub mod network;
pub mod pool;
pub mod reference;
pub mod sandbox;
mod schema;
pub mod status;
pub mod template;

pub use conversation::{Conversation, ConversationSpec};
pub use pool::{WarmPool, WarmPoolSpec, WarmPoolStatus};
pub use status::ConversationStatus;

/// The API group of both kinds.
pub const GROUP: &str = "openhands.dev";
/// The one served version.
pub const VERSION: &str = "v1alpha1";
/// The label that a Secret's owner sets to `"true"` to let Conversations of its namespace use it. Without it whoever may
/// create a Conversation could read every Secret of the namespace.
pub const CONVERSATION_SECRET_LABEL: &str = "openhands.dev/conversation-secret";
