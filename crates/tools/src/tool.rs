//! What a tool is.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use openhands_protocol::tool::ToolSpec;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::switch_llm::ModelSwitch;

/// Arguments that are no action; the text goes to the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidArguments(pub String);

/// A tool that could not do its work at all; becomes an `AgentErrorEvent` with this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(pub String);

/// The result of an action: a tagged JSON body (`kind`, `content`, `is_error`, ...), as it goes into an `ObservationEvent`.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The body.
    pub body: Value,
    /// The agent says it is done.
    pub finishes: bool,
}

/// What a tool knows of the conversation it works for.
pub struct ToolContext {
    /// The conversation's working directory.
    pub working_dir: PathBuf,
    /// Where full texts of cut outputs go; `None` keeps only what is shown.
    pub observations_dir: Option<PathBuf>,
    /// Environment for processes the tool starts: init env, never keys of the server.
    pub environment: BTreeMap<String, String>,
    /// Fires on interrupt and on delete; the tool ends what it started, kills its processes and answers with what it has.
    pub cancel: CancellationToken,
    /// The conversation's secrets.
    pub secrets: Arc<dyn SecretLookup>,
    /// Changes the conversation's model; `None` where that is not possible.
    pub models: Option<Arc<dyn ModelSwitch>>,
}

/// Secrets as a tool may see them.
pub trait SecretLookup: Send + Sync {
    /// The secrets whose names occur in `text`, as environment variables for a command (protocol section 6).
    fn mentioned(&self, text: &str) -> Vec<(String, String)>;
    /// `text` with every known secret value replaced by `<secret-hidden>`.
    fn mask(&self, text: &str) -> String;
}

/// Something the agent can do. One instance serves one conversation; calls may come at the same time when
/// `tool_concurrency_limit` is above one.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the model and the client are told.
    fn spec(&self) -> &ToolSpec;

    /// Checks arguments (an object, `security_risk` and `summary` already taken out) and makes the tagged action body.
    ///
    /// # Errors
    /// [`InvalidArguments`] with a text that helps the model to correct itself.
    fn action(&self, arguments: Value) -> Result<Value, InvalidArguments>;

    /// Does it.
    ///
    /// # Errors
    /// [`ToolError`] when there is no observation to make; failures the tool can describe are observations with `is_error`.
    async fn run(&self, action: &Value, context: &ToolContext) -> Result<Observation, ToolError>;

    /// Ends processes and connections. Called once, when the conversation closes.
    async fn close(&self) {}
}

/// No secrets at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

impl SecretLookup for NoSecrets {
    fn mentioned(&self, _text: &str) -> Vec<(String, String)> {
        Vec::new()
    }

    fn mask(&self, text: &str) -> String {
        text.to_owned()
    }
}
