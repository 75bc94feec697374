//! What a caller asks for: a new conversation, a message.

use std::collections::BTreeMap;

pub use openhands_agent::StuckThresholds;
use openhands_protocol::{
    AgentSpec, Content, ConversationId, Role,
    policy::{ConfirmationPolicy, SecurityAnalyzer},
};
use serde_json::{Map, Value};

/// A conversation to create. [`NewConversation::new`] has the reference's defaults.
#[derive(Clone, Debug)]
pub struct NewConversation {
    /// Its id, chosen by the caller so that a repeated request meets the first one.
    pub id: ConversationId,
    /// The agent, its secrets in clear.
    pub agent: AgentSpec,
    /// The workspace as on the wire (`{"kind": "LocalWorkspace", "working_dir": ...}`).
    pub workspace: Value,
    /// Most model calls of one run, at least 1.
    pub max_iterations: u32,
    /// Whether loops end the run.
    pub stuck_detection: bool,
    /// How many repetitions are a loop.
    pub stuck_detection_thresholds: StuckThresholds,
    /// When the user is asked.
    pub confirmation_policy: ConfirmationPolicy,
    /// Who judges risks.
    pub security_analyzer: Option<SecurityAnalyzer>,
    /// Secrets by name, as on the wire: a string, `{"value": ...}`, a `StaticSecret` or a `LookupSecret`.
    pub secrets: Map<String, Value>,
    /// The user's labels.
    pub tags: BTreeMap<String, String>,
    /// Tools that the client executes, `{name, description, parameters, annotations?}` each.
    pub client_tools: Vec<Value>,
    /// Tool name to Python module; kept and given back, nothing is imported.
    pub tool_module_qualnames: Map<String, Value>,
    /// Hooks; not supported yet, anything but null is refused.
    pub hook_config: Option<Value>,
    /// Who the conversation belongs to, for observability.
    pub user_id: Option<String>,
    /// Whether a model is asked for a title after the first user message.
    pub autotitle: bool,
    /// US dollars that all models together may cost; a run ends with an error when they are spent. `None` for no limit.
    pub max_budget: Option<f64>,
    /// The request comes from the owner of the agent's model and is repeated with every new home of the conversation: what it says of
    /// the model then wins over what is stored.
    pub delivers_llm: bool,
    /// All other members of the start request; stored in `meta.json` unless they ask for something unsupported.
    pub extra: Map<String, Value>,
    /// The first message; when given, the run starts at once.
    pub initial_message: Option<SendMessage>,
}

impl NewConversation {
    /// A conversation with defaults.
    #[must_use]
    pub fn new(id: ConversationId, agent: AgentSpec, workspace: Value) -> Self {
        Self {
            id,
            agent,
            workspace,
            max_iterations: 500,
            stuck_detection: true,
            stuck_detection_thresholds: StuckThresholds::default(),
            confirmation_policy: ConfirmationPolicy::default(),
            security_analyzer: None,
            secrets: Map::new(),
            tags: BTreeMap::new(),
            client_tools: Vec::new(),
            tool_module_qualnames: Map::new(),
            hook_config: None,
            user_id: None,
            autotitle: true,
            max_budget: None,
            delivers_llm: false,
            extra: Map::new(),
            initial_message: None,
        }
    }
}

/// A message for the agent.
#[derive(Clone, Debug, PartialEq)]
pub struct SendMessage {
    /// Only [`Role::User`] is accepted.
    pub role: Role,
    /// The parts.
    pub content: Vec<Content>,
    /// Who sent it, in runs of several agents.
    pub sender: Option<String>,
    /// Start a run unless one is going on.
    pub run: bool,
}

impl SendMessage {
    /// A user's text that starts no run.
    pub fn text(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![Content::text(text)], sender: None, run: false }
    }
}
