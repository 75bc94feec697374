//! The models that a conversation asks, by usage id: the agent's, and those of side calls.
//!
//! Clients are made when they are first needed and kept while their configuration stays the same. What they spent is not here but in
//! the conversation's state: a client may come and go.

use std::sync::Arc;

use indexmap::IndexMap;
use openhands_llm::{LlmClient, LlmError, Session};
use openhands_protocol::LlmConfig;
use openhands_secrets::SecretRegistry;

use crate::{environment::Environment, observer::Observer, snapshot::Snapshot};

/// The usage id of questions about a conversation, as in the reference.
pub(crate) const ASK_AGENT: &str = "ask-agent-llm";
/// The usage id of titles that a profile of their own makes.
pub(crate) const TITLE: &str = "title";

/// Clients that are kept; more usage ids than any conversation has at work.
const KEPT: usize = 16;

/// Makes the clients of one conversation. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Maker {
    env: Arc<Environment>,
    observer: Observer,
    session: Session,
    /// Where keys of saved models go to be hidden.
    secrets: Arc<SecretRegistry>,
}

impl Maker {
    pub(crate) fn new(env: Arc<Environment>, observer: Observer, state: &Snapshot) -> Self {
        let session = Session { id: Some(state.id.to_string()), ..Session::default() };
        Self { env, observer, session, secrets: Arc::clone(&state.secrets) }
    }

    /// The client of a configuration, with the fallbacks or the router that it names.
    ///
    /// # Errors
    /// As the factory of the environment.
    pub(crate) fn make(&self, config: &LlmConfig) -> Result<Arc<dyn LlmClient>, LlmError> {
        let mut options = self.observer.options(config);
        options.session = self.session.clone();
        if self.env.profiles.is_some() {
            let maker = self.clone();
            options.profiles = Some(Arc::new(move |name| maker.load(name)));
        }
        (self.env.llm)(config, &options)
    }

    /// A saved configuration; its keys are hidden from then on. Reads files.
    fn load(&self, name: &str) -> Result<LlmConfig, String> {
        let profiles = self.env.profiles.as_ref().ok_or("this server keeps no profiles")?;
        let config = profiles.load(name).map_err(|problem| problem.to_string())?;
        self.secrets.hide(config.secret_values());
        Ok(config)
    }

    /// The model of a saved profile, under a usage id of the caller's; `None`, and a line in the log, when it cannot be had.
    pub(crate) async fn saved(&self, name: String, usage_id: &'static str) -> Option<(Arc<dyn LlmClient>, LlmConfig)> {
        let maker = self.clone();
        let wanted = name.clone();
        let made = tokio::task::spawn_blocking(move || {
            let config = LlmConfig { usage_id: usage_id.to_owned(), ..maker.load(&wanted)? };
            let client = maker.make(&config).map_err(|error| error.to_string())?;
            Ok::<_, String>((client, config))
        });
        match made.await.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(model) => Some(model),
            Err(reason) => {
                tracing::warn!(
                    profile = name,
                    usage_id,
                    reason,
                    "a saved model cannot be used, the agent's own serves"
                );
                None
            }
        }
    }
}

/// The clients that are at hand.
pub(crate) struct Slots {
    maker: Maker,
    made: IndexMap<String, (LlmConfig, Arc<dyn LlmClient>)>,
}

impl Slots {
    pub(crate) fn new(maker: Maker) -> Self {
        Self { maker, made: IndexMap::new() }
    }

    pub(crate) fn maker(&self) -> &Maker {
        &self.maker
    }

    /// The client of a configuration.
    ///
    /// # Errors
    /// As [`Maker::make`].
    pub(crate) fn client(&mut self, config: &LlmConfig) -> Result<Arc<dyn LlmClient>, LlmError> {
        if let Some((made_for, client)) = self.made.get(&config.usage_id)
            && made_for == config
        {
            return Ok(Arc::clone(client));
        }
        let client = self.maker.make(config)?;
        while self.made.len() >= KEPT {
            self.made.shift_remove_index(0);
        }
        self.made.insert(config.usage_id.clone(), (config.clone(), Arc::clone(&client)));
        Ok(client)
    }

    /// Forgets a client, if there is one; the next call makes it anew.
    pub(crate) fn forget(&mut self, usage_id: &str) {
        self.made.shift_remove(usage_id);
    }
}
