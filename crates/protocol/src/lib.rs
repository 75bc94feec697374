//! Every type that crosses a wire or is stored, and nothing that acts.
//!
//! Shapes follow the OpenHands agent-server protocol 1.58.2. Members that are null are left out when an event is written
//! (sockets, lists, disk); [`event::Event::to_json_with_nulls`] gives the long form of a single read.

pub mod agent;
pub mod bash;
pub mod content;
pub mod conversation;
pub mod error;
pub mod event;
pub mod expected;
pub mod file;
pub mod git;
pub mod id;
pub mod init;
pub mod llm;
pub mod llm_variables;
pub mod metrics;
pub mod page;
pub mod policy;
pub mod report;
pub mod secret;
pub mod session;
pub mod status;
pub mod time;
pub mod tool;

pub use agent::AgentSpec;
pub use content::{Content, ImageContent, Message, Role, TextContent, ToolCall};
pub use event::{Event, EventBase, Source};
pub use id::{ConversationId, EventId};
pub use llm::LlmConfig;
pub use status::ExecutionStatus;
