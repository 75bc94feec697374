//! Commands beside conversations that belong to one of them: each conversation has its own events and its own working directory.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use openhands_protocol::ConversationId;
use openhands_workspace::{
    bash::{BashOptions, BashService},
    environment::ToolEnvironment,
};

/// The services that were asked for. Each lives until its conversation is deleted.
pub struct Commands {
    variables: BTreeMap<String, String>,
    services: Mutex<HashMap<ConversationId, BashService>>,
}

impl Commands {
    /// Commands see `variables` besides the server's own.
    #[must_use]
    pub fn new(variables: BTreeMap<String, String>) -> Self {
        Self { variables, services: Mutex::default() }
    }

    /// The service of a conversation that is stored in `dir` and works in `working_dir`.
    #[must_use]
    pub fn of(&self, id: ConversationId, dir: &Path, working_dir: &Path) -> BashService {
        let new = || {
            let mut variables = self.variables.clone();
            variables.insert(openhands_conversation::MARK.to_owned(), id.hex());
            BashService::new(BashOptions {
                environment: ToolEnvironment::new(variables),
                default_cwd: Some(working_dir.to_owned()),
                ..BashOptions::new(dir.join("bash_events"))
            })
        };
        self.lock().entry(id).or_insert_with(new).clone()
    }

    /// Ends the commands of a conversation.
    pub async fn end(&self, id: ConversationId) {
        let service = self.lock().remove(&id);
        if let Some(service) = service {
            service.close().await;
        }
    }

    /// Ends all commands.
    pub async fn close(&self) {
        let services: Vec<_> = self.lock().drain().map(|(_, service)| service).collect();
        futures::future::join_all(services.iter().map(BashService::close)).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, BashService>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
