//! What all conversations of a server share.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use openhands_llm::{LlmClient, LlmError};
use openhands_protocol::secret::SecretText;
use openhands_protocol::{LlmConfig, agent::ToolRef};
use openhands_secrets::{Cipher, Lookup};
use openhands_store::LeaseOwner;
use openhands_tools::Tool;
use tokio::sync::Semaphore;

/// Makes the client of a model slot.
pub type LlmFactory = Arc<dyn Fn(&LlmConfig) -> Result<Arc<dyn LlmClient>, LlmError> + Send + Sync>;

/// Fetches the value of a secret that is looked up; `None` when that fails.
pub type SecretFetcher = Arc<dyn Fn(Lookup) -> BoxFuture<'static, Option<SecretText>> + Send + Sync>;

/// What a tool registry needs to know.
pub struct ToolRequest<'a> {
    /// The tools the agent names.
    pub tools: &'a [ToolRef],
    /// Class names of the built-in tools (`FinishTool`, `ThinkTool`).
    pub include_default_tools: &'a [String],
    /// Where the agent works.
    pub working_dir: &'a Path,
    /// The conversation's own directory, for what tools keep over restarts.
    pub conversation_dir: &'a Path,
}

/// Makes the tools of one conversation, in the order in which the model sees them.
pub trait Toolbox: Send + Sync {
    /// # Errors
    /// A text that names the tool that does not exist, or the parameter that is wrong.
    fn build(&self, request: &ToolRequest<'_>) -> Result<Vec<Arc<dyn Tool>>, String>;
}

/// Who owns conversations on this server.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// This process.
    pub owner: LeaseOwner,
    /// How long an owner counts as alive without renewing; zero switches leases off.
    pub ttl: Duration,
}

/// Shared by all conversations of a server.
pub struct Environment {
    /// Makes model clients.
    pub llm: LlmFactory,
    /// Makes tools.
    pub tools: Arc<dyn Toolbox>,
    /// Encrypts secrets at rest; without it they are written as `**********` and lost on restart.
    pub cipher: Option<Arc<Cipher>>,
    /// Variables for processes that tools start (init env).
    pub variables: BTreeMap<String, String>,
    /// `None` switches leases off.
    pub lease: Option<LeaseSettings>,
    /// Fetches `LookupSecret` values; without it they stay unknown.
    pub lookups: Option<SecretFetcher>,
    /// Keys of the server itself, hidden in what tools print.
    pub own_keys: Vec<SecretText>,
    /// How many conversations may run at once.
    pub run_permits: Arc<Semaphore>,
}
