//! What all conversations of a server share.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use openhands_llm::{ClientOptions, LlmClient, LlmError};
use openhands_protocol::secret::SecretText;
use openhands_protocol::{LlmConfig, agent::ToolRef};
use openhands_secrets::{Cipher, Lookup};
use openhands_store::LeaseOwner;
use openhands_tools::Tool;
use tokio::sync::Semaphore;

use crate::observer::Telemetry;

/// Makes the client of a model slot, told to the observer in the options.
pub type LlmFactory = Arc<dyn Fn(&LlmConfig, &ClientOptions) -> Result<Arc<dyn LlmClient>, LlmError> + Send + Sync>;

/// Fetches the value of a secret that is looked up; `None` when that fails.
pub type SecretFetcher = Arc<dyn Fn(Lookup) -> BoxFuture<'static, Option<SecretText>> + Send + Sync>;

/// Why a saved model configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileProblem {
    /// No profile has that name (404).
    #[error("profile {name:?} does not exist; there are: {}", listed(known))]
    NotFound {
        /// What was asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// It cannot be a profile's name, or the file cannot be read (400). Says what is wrong, without secrets.
    #[error("profile {name:?}: {reason}")]
    Unusable {
        /// What was asked for.
        name: String,
        /// What is wrong and what to do.
        reason: String,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The saved model configurations of the server. Both calls may read files, so they are made where blocking is allowed.
pub trait Profiles: Send + Sync {
    /// All names, sorted.
    fn names(&self) -> Vec<String>;

    /// A configuration with its secrets in clear.
    ///
    /// # Errors
    /// [`ProfileProblem`].
    fn load(&self, name: &str) -> Result<LlmConfig, ProfileProblem>;

    /// Fills in what a stored provider connection that the configuration names holds: key and address.
    ///
    /// # Errors
    /// [`ProfileProblem`] when there is no such connection. Without connections at all the configuration stays as it is.
    fn complete(&self, llm: LlmConfig) -> Result<LlmConfig, ProfileProblem> {
        Ok(llm)
    }
}

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
    /// The saved profiles, for the tool that changes to them.
    pub profiles: Option<&'a dyn Profiles>,
}

/// Makes the tools of one conversation, in the order in which the model sees them.
pub trait Toolbox: Send + Sync {
    /// # Errors
    /// A text that names the tool that does not exist, or the parameter that is wrong.
    fn build(&self, request: &ToolRequest<'_>) -> Result<Vec<Arc<dyn Tool>>, String>;

    /// Keys of the server that tools could read and that change while it runs. Asked before each action, and hidden from then on
    /// in what tools print.
    fn fresh_keys(&self) -> BoxFuture<'static, Vec<SecretText>> {
        Box::pin(std::future::ready(Vec::new()))
    }
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
    /// Saved model configurations; without them a conversation cannot change to one by name.
    pub profiles: Option<Arc<dyn Profiles>>,
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
    /// Where conversations tell what they do, for traces; nowhere without it.
    pub telemetry: Option<Arc<dyn Telemetry>>,
    /// How many conversations may run at once.
    pub run_permits: Arc<Semaphore>,
}
