//! How failures are classified for clients, beside their code and text.

use serde::{Deserialize, Serialize};

/// What a client may do about a failure; part of agent and conversation errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classification {
    /// The failure's family, such as `agent_action`, `config`, `provider` (open set on the wire).
    pub kind: String,
    /// Whether trying again without a change can help.
    pub retryable: bool,
    /// What the user should do: `none`, `retry` or `settings`.
    #[serde(default = "none")]
    pub user_action: String,
    /// A number to quote to whoever runs the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_id: Option<String>,
}

fn none() -> String {
    "none".to_owned()
}

impl Classification {
    /// A classification without an error id.
    #[must_use]
    pub fn new(kind: &str, retryable: bool, user_action: &str) -> Self {
        Self { kind: kind.to_owned(), retryable, user_action: user_action.to_owned(), error_id: None }
    }
}
