//! The configuration's fields with their defaults, and the shape in which each may stand in a variable.

use std::collections::BTreeMap;

use openhands_protocol::secret::SecretText;
use serde::Deserialize;
use serde_json::Value;

use super::grammar::Shape;

/// What the server was told at start, merged with what `POST /api/init` brought.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Keys for `X-Session-API-Key`; empty means open.
    pub session_api_keys: Vec<SecretText>,
    /// Encrypts stored secrets.
    pub secret_key: Option<SecretText>,
    /// Keys that still decrypt.
    pub previous_secret_keys: Vec<SecretText>,
    /// Origins allowed besides the local ones.
    pub allow_cors_origins: Vec<String>,
    /// A pattern of more origins; must match the whole origin.
    pub allow_cors_origin_regex: Option<String>,
    /// Where conversations are stored.
    pub conversations_path: String,
    /// The workspace of conversations that name none.
    pub workspace_path: String,
    /// Where work trees of conversations are made.
    pub conversation_worktree_root: String,
    /// Where bash events are stored.
    pub bash_events_dir: String,
    /// Where profiles, settings and the user's secrets are stored; `~/.openhands` when absent.
    pub persistence_dir: Option<String>,
    /// Where people sign in with a vendor's plan, when it is not the vendor: a private gateway. Only with the next.
    pub subscription_issuer_url: Option<String>,
    /// Where a plan's models answer then.
    pub subscription_backend_url: Option<String>,
    /// How long bash events are kept, seconds; for ever when absent.
    pub bash_events_retention_seconds: Option<u64>,
    /// A folder that is served below `/static`.
    pub static_files_path: Option<String>,
    /// Webhooks.
    pub webhooks: Vec<Webhook>,
    /// How many conversations may run at once.
    pub max_concurrent_runs: u32,
    /// The address users reach the server at; its path is the root path.
    pub web_url: Option<String>,
    /// Starts dormant.
    pub deferred_init: bool,
    /// A lease's life, seconds; 0 turns leases off.
    pub lease_ttl_seconds: f64,
    /// How long an idle conversation stays in memory, seconds; for ever when null.
    pub conversation_idle_ttl_seconds: Option<f64>,
    /// Which runtime conversations get; only `local` exists here.
    pub conversation_runtime: String,
    /// Whether a request may choose its runtime; must be false here.
    pub conversation_runtime_selectable: bool,
    /// SHA-256 (hex) of the init key; ours, not the reference's. When set, it alone opens `POST /api/init`.
    pub init_key_sha256: Option<String>,
    /// Whether a secret key was given but blank; then an init without a usable key is refused, not open.
    #[serde(skip)]
    pub secret_key_was_blank: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            session_api_keys: Vec::new(),
            secret_key: None,
            previous_secret_keys: Vec::new(),
            allow_cors_origins: Vec::new(),
            allow_cors_origin_regex: None,
            conversations_path: "workspace/conversations".to_owned(),
            workspace_path: "workspace/project".to_owned(),
            conversation_worktree_root: "/tmp/conversation-worktrees".to_owned(),
            bash_events_dir: "workspace/bash_events".to_owned(),
            persistence_dir: None,
            subscription_issuer_url: None,
            subscription_backend_url: None,
            bash_events_retention_seconds: None,
            static_files_path: None,
            webhooks: Vec::new(),
            max_concurrent_runs: 10,
            web_url: None,
            deferred_init: false,
            lease_ttl_seconds: 45.0,
            conversation_idle_ttl_seconds: Some(20.0 * 60.0),
            conversation_runtime: "local".to_owned(),
            conversation_runtime_selectable: false,
            init_key_sha256: None,
            secret_key_was_blank: false,
        }
    }
}

/// Where events are posted to.
#[derive(Clone, Debug, Deserialize)]
pub struct Webhook {
    /// The address that `/events/{id}` and `/conversations` are added to.
    pub base_url: String,
    /// Headers to send.
    #[serde(default)]
    pub headers: BTreeMap<String, SecretText>,
    /// The other members, unread.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

const WEBHOOK: Shape = Shape::Object(&[
    ("event_buffer_size", Shape::Int),
    ("base_url", Shape::Text),
    ("headers", Shape::Json),
    ("flush_delay", Shape::Float),
    ("num_retries", Shape::Int),
    ("retry_delay", Shape::Int),
    ("max_queue_size", Shape::Int),
    ("max_batch_bytes", Shape::Int),
    ("max_queue_bytes", Shape::Int),
]);

/// The shapes of the fields, by their name in the file.
pub(super) const SHAPE: Shape = Shape::Object(&[
    ("session_api_keys", Shape::List(&Shape::Text)),
    ("allow_cors_origins", Shape::List(&Shape::Text)),
    ("allow_cors_origin_regex", Shape::Optional(&Shape::Text)),
    ("conversations_path", Shape::Text),
    ("workspace_path", Shape::Text),
    ("conversation_worktree_root", Shape::Text),
    ("bash_events_dir", Shape::Text),
    ("persistence_dir", Shape::Optional(&Shape::Text)),
    ("subscription_issuer_url", Shape::Optional(&Shape::Text)),
    ("subscription_backend_url", Shape::Optional(&Shape::Text)),
    ("bash_events_retention_seconds", Shape::Optional(&Shape::Int)),
    ("static_files_path", Shape::Optional(&Shape::Text)),
    ("webhooks", Shape::List(&WEBHOOK)),
    ("max_concurrent_runs", Shape::Int),
    ("secret_key", Shape::Optional(&Shape::Text)),
    ("previous_secret_keys", Shape::List(&Shape::Text)),
    ("web_url", Shape::Optional(&Shape::Text)),
    ("conversation_runtime", Shape::Word(&["local", "docker"])),
    ("conversation_runtime_selectable", Shape::Bool),
    ("deferred_init", Shape::Bool),
    ("lease_ttl_seconds", Shape::Float),
    ("conversation_idle_ttl_seconds", Shape::Optional(&Shape::Float)),
    ("init_key_sha256", Shape::Optional(&Shape::Text)),
]);
