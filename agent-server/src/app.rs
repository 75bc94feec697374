//! The initialised application: what every handler of the API may use.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use openhands_conversation::{Environment, LeaseSettings, LlmFactory};
use openhands_protocol::{llm_variables::InvalidVariable, secret::SecretText};
use openhands_secrets::Cipher;
use openhands_settings::{Stores, persistence_dir};
use openhands_store::LeaseOwner;
use openhands_subscription::SubscriptionError;
use openhands_workspace::{
    bash::{BashOptions, BashService},
    environment::ToolEnvironment,
    git::GitReader,
};
use tokio::sync::Semaphore;

use crate::{
    auth::SessionKeys,
    commands::Commands,
    config::Config,
    cors::Origins,
    llm_defaults::LlmDefaults,
    service::Service,
    sign_in::SignIns,
    stored::StoredProfiles,
    telemetry::Telemetry,
    toolbox::{StockTools, models, with_plan},
};

/// Shorter values are placeholders, and hiding them would leave no text. Bytes.
const SHORTEST_KEY: usize = 8;

/// Names the pod this server runs in.
pub const POD_UID_VARIABLE: &str = "OPENHANDS_POD_UID";

/// Everything behind the gate.
pub struct App {
    /// The configuration in force.
    pub config: Config,
    /// The keys that open the API.
    pub keys: SessionKeys,
    /// The origins that may read answers.
    pub origins: Origins,
    /// The path below which a proxy may address this server.
    pub root_path: Arc<str>,
    /// The conversations.
    pub conversations: Service,
    /// Commands beside conversations.
    pub bash: BashService,
    /// Commands that belong to a conversation.
    pub commands: Commands,
    /// Reads repositories.
    pub git: GitReader,
    /// What the user keeps here.
    pub stores: Stores,
    /// Signing in with a vendor's plan.
    pub sign_ins: SignIns,
    /// Makes clients of models for calls outside of conversations.
    pub llm: LlmFactory,
    /// The model of agents that name none.
    pub llm_defaults: LlmDefaults,
    /// Where traces go; nowhere unless a collector is configured.
    pub telemetry: Option<Arc<Telemetry>>,
    /// Variables that initialisation brought for everything that runs here.
    pub variables: BTreeMap<String, String>,
}

/// An application that could not be set up; the text is shown to whoever initialises.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// An `LLM_*` variable cannot be used.
    #[error(transparent)]
    Llm(#[from] InvalidVariable),
    /// The addresses of a vendor's plan do not fit together.
    #[error(transparent)]
    Subscription(#[from] SubscriptionError),
    /// A directory cannot be made or written.
    #[error("{variable}: cannot use {path}: {reason}")]
    Directory {
        /// The variable that names it.
        variable: &'static str,
        /// The directory.
        path: String,
        /// The operating system's answer.
        reason: std::io::Error,
    },
}

impl App {
    /// Sets the services up: makes their directories and reads the index of conversations.
    ///
    /// # Errors
    /// [`SetupError`]; nothing runs then.
    pub async fn set_up(config: Config, variables: BTreeMap<String, String>) -> Result<Arc<Self>, SetupError> {
        let conversations = absolute("OH_CONVERSATIONS_PATH", &config.conversations_path)?;
        let bash_events = absolute("OH_BASH_EVENTS_DIR", &config.bash_events_dir)?;
        for (variable, path) in [("OH_CONVERSATIONS_PATH", &conversations), ("OH_BASH_EVENTS_DIR", &bash_events)] {
            tokio::fs::create_dir_all(path).await.map_err(|reason| SetupError::Directory {
                variable,
                path: path.display().to_string(),
                reason,
            })?;
        }
        let all = with_own(&variables);
        let llm_defaults = LlmDefaults::of(&all)?;
        let telemetry = telemetry(&all);
        let cipher = cipher(&config).map(Arc::new);
        let stores_dir = stores_dir(&config, &variables)?;
        let stores = Stores::new(&stores_dir, cipher.clone());
        let sign_ins = SignIns::new(&stores_dir, &config)?;
        let llm = with_plan(models(&variables), sign_ins.subscription());
        let environment = Environment {
            llm: Arc::clone(&llm),
            telemetry: telemetry.clone().map(|telemetry| telemetry as Arc<dyn openhands_conversation::Telemetry>),
            tools: Arc::new(StockTools::beside(sign_ins.subscription().clone())),
            cipher,
            variables: variables.clone(),
            lease: lease(&config),
            lookups: Some(crate::lookup::fetcher()),
            profiles: Some(Arc::new(StoredProfiles(stores.clone()))),
            own_keys: config.session_api_keys.iter().chain(&config.secret_key).cloned().chain(keys(&all)).collect(),
            run_permits: Arc::new(Semaphore::new(config.max_concurrent_runs as usize)),
        };
        let idle = config.conversation_idle_ttl_seconds.map(Duration::from_secs_f64);
        let conversations = Service::open(Arc::new(environment), conversations, idle).await;
        let retention = config.bash_events_retention_seconds.map(Duration::from_secs);
        let bash = BashService::new(BashOptions {
            environment: ToolEnvironment::new(variables.clone()),
            retention,
            ..BashOptions::new(bash_events)
        });
        Ok(Arc::new(Self {
            keys: SessionKeys::new(&config.session_api_keys),
            origins: Origins::new(&config),
            root_path: config.root_path().into(),
            conversations,
            bash,
            commands: Commands::new(variables.clone()),
            git: GitReader::new(ToolEnvironment::new(variables.clone())),
            stores,
            sign_ins,
            llm,
            llm_defaults,
            telemetry,
            variables,
            config,
        }))
    }

    /// Ends everything within `grace`, spans a little later: runs are interrupted and written down, leases released, commands ended.
    pub async fn drain(&self, grace: Duration) {
        let end = async {
            tokio::join!(self.conversations.close_all(), self.bash.close(), self.commands.close());
        };
        if tokio::time::timeout(grace, end).await.is_err() {
            tracing::warn!(seconds = grace.as_secs(), "not everything ended within the grace period");
        }
        // Last, with the spans of what has just ended.
        if let Some(telemetry) = &self.telemetry {
            telemetry.end().await;
        }
    }
}

/// The variable that names the folder of what the user keeps.
const PERSISTENCE_VARIABLE: &str = "OH_PERSISTENCE_DIR";

/// Where the user's files are. What initialisation brings wins over the server's own start.
fn stores_dir(config: &Config, variables: &BTreeMap<String, String>) -> Result<PathBuf, SetupError> {
    let configured = variables.get(PERSISTENCE_VARIABLE).or(config.persistence_dir.as_ref());
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let dir = persistence_dir(configured.map(String::as_str), home.as_deref());
    absolute(PERSISTENCE_VARIABLE, &dir.to_string_lossy())
}

fn absolute(variable: &'static str, path: &str) -> Result<PathBuf, SetupError> {
    std::path::absolute(path).map_err(|reason| SetupError::Directory { variable, path: path.to_owned(), reason })
}

/// Traces, when a collector is configured. What cannot be used is told and left out: a server without traces is better than none.
fn telemetry(variables: &BTreeMap<String, String>) -> Option<Arc<Telemetry>> {
    Telemetry::of(variables).unwrap_or_else(|error| {
        tracing::warn!(%error, "traces are off");
        None
    })
}

/// Keys of models and providers among the variables, hidden in what tools print.
fn keys(variables: &BTreeMap<String, String>) -> impl Iterator<Item = SecretText> {
    let is_key = |name: &str| {
        let is_named = name.ends_with("_KEY") || (name.ends_with("_TOKEN") && !name.ends_with("_PER_TOKEN"));
        is_named && openhands_workspace::environment::is_secret(name)
    };
    let keys = variables.iter().filter(move |(name, value)| is_key(name) && value.len() >= SHORTEST_KEY);
    keys.map(|(_, value)| SecretText::new(value))
}

/// The process's own variables and those of the initialisation, which win.
fn with_own(variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    all.extend(variables.clone());
    all
}

fn cipher(config: &Config) -> Option<Cipher> {
    let key: &SecretText = config.secret_key.as_ref()?;
    Some(Cipher::new(key, &config.previous_secret_keys))
}

fn lease(config: &Config) -> Option<LeaseSettings> {
    let ttl = Duration::from_secs_f64(config.lease_ttl_seconds);
    let pod_uid = std::env::var(POD_UID_VARIABLE).ok().filter(|uid| !uid.is_empty());
    (!ttl.is_zero()).then(|| LeaseSettings { owner: LeaseOwner::of_this_process(pod_uid.as_deref()), ttl })
}
