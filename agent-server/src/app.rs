//! The initialised application: what every handler of the API may use.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use openhands_conversation::{Environment, LeaseSettings};
use openhands_protocol::secret::SecretText;
use openhands_secrets::Cipher;
use openhands_store::LeaseOwner;
use openhands_workspace::{
    bash::{BashOptions, BashService},
    environment::ToolEnvironment,
    git::GitReader,
};
use tokio::sync::Semaphore;

use crate::{
    auth::SessionKeys,
    config::Config,
    cors::Origins,
    service::Service,
    toolbox::{StockTools, models},
};

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
    /// Reads repositories.
    pub git: GitReader,
    /// Variables that initialisation brought for everything that runs here.
    pub variables: BTreeMap<String, String>,
}

/// An application that could not be set up; the text is shown to whoever initialises.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A directory cannot be made or written.
    #[error("{variable}: cannot use {path}: {source}")]
    Directory {
        /// The variable that names it.
        variable: &'static str,
        /// The directory.
        path: String,
        /// The operating system's answer.
        #[source]
        source: std::io::Error,
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
            tokio::fs::create_dir_all(path).await.map_err(|source| SetupError::Directory {
                variable,
                path: path.display().to_string(),
                source,
            })?;
        }
        let environment = Environment {
            llm: models(&variables),
            tools: Arc::new(StockTools::default()),
            cipher: cipher(&config).map(Arc::new),
            variables: variables.clone(),
            lease: lease(&config),
            lookups: Some(crate::lookup::fetcher()),
            profiles: None,
            own_keys: config.session_api_keys.iter().chain(&config.secret_key).cloned().collect(),
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
            git: GitReader::new(ToolEnvironment::new(variables.clone())),
            variables,
            config,
        }))
    }

    /// Ends everything within `grace`: runs are interrupted and written down, leases released, commands ended.
    pub async fn drain(&self, grace: Duration) {
        let end = async {
            tokio::join!(self.conversations.close_all(), self.bash.close());
        };
        if tokio::time::timeout(grace, end).await.is_err() {
            tracing::warn!(seconds = grace.as_secs(), "not everything ended within the grace period");
        }
    }
}

fn absolute(variable: &'static str, path: &str) -> Result<PathBuf, SetupError> {
    std::path::absolute(path).map_err(|source| SetupError::Directory { variable, path: path.to_owned(), source })
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
