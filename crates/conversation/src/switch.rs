//! Changing the model of a conversation: between runs or during one, by a client or by the agent itself.
//!
//! A call that is out finishes with the model it began with; every later one asks the new model. The history stays, and so does what
//! every usage id has spent.

use std::sync::Arc;

use async_trait::async_trait;
use openhands_llm::LlmError;
use openhands_protocol::{LlmConfig, agent::Expose};
use openhands_tools::{ModelSwitch, SwitchRefused};
use tokio::sync::{mpsc, oneshot};

use crate::{
    environment::{ProfileProblem, Profiles},
    error::SwitchError,
    info, keys,
    mailbox::Command,
    slots::ASK_AGENT,
    snapshot::USAGE_IDS_LIMIT,
    task::Task,
};

/// Asks a conversation's task to change the model. Does not keep the conversation alive.
pub(crate) struct Switchboard {
    pub(crate) profiles: Option<Arc<dyn Profiles>>,
    pub(crate) mailbox: mpsc::WeakSender<Command>,
}

impl Switchboard {
    /// Changes to a configuration; returns the name of its model.
    pub(crate) async fn to_llm(&self, llm: LlmConfig) -> Result<String, SwitchError> {
        let llm = match self.profiles.clone().filter(|_| llm.provider_connection_id.is_some()) {
            Some(profiles) => blocking(move || profiles.complete(llm)).await?,
            None => llm,
        };
        self.ask(llm).await
    }

    /// Changes to a saved profile; returns the name of its model.
    pub(crate) async fn to_profile(&self, name: &str) -> Result<String, SwitchError> {
        let Some(profiles) = self.profiles.clone() else {
            return Err(ProfileProblem::NotFound { name: name.to_owned(), known: Vec::new() }.into());
        };
        let wanted = name.to_owned();
        let llm = blocking(move || profiles.load(&wanted)).await?;
        self.ask(LlmConfig { usage_id: format!("profile:{name}"), ..llm }).await
    }

    async fn ask(&self, llm: LlmConfig) -> Result<String, SwitchError> {
        let mailbox = self.mailbox.upgrade().ok_or(SwitchError::Closed)?;
        let (reply, answer) = oneshot::channel();
        mailbox.send(Command::Switch { llm: Box::new(llm), reply }).await.map_err(|_| SwitchError::Closed)?;
        drop(mailbox);
        answer.await.map_err(|_| SwitchError::Closed)?
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProfileProblem> + Send + 'static,
) -> Result<T, SwitchError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(SwitchError::Closed),
    }
}

#[async_trait]
impl ModelSwitch for Switchboard {
    async fn switch_profile(&self, name: &str) -> Result<String, SwitchRefused> {
        self.to_profile(name).await.map_err(|error| SwitchRefused(format!("The model stays as it is: {error}.")))
    }
}

impl Task {
    /// The owner of the agent's model delivers it, with a new home of the conversation. What was delivered before changes nothing, so
    /// that a model which the user chose since stays; anything else wins over what is stored, as does a key that is missing there.
    pub(crate) async fn deliver(&mut self, llm: LlmConfig) -> Result<(), SwitchError> {
        let is_known = self.core.state.delivered.as_deref() == Some(&llm);
        let current = &self.core.state.agent.members().llm;
        let lacks_key = current.usage_id == llm.usage_id && current.api_key.is_none() && llm.api_key.is_some();
        if is_known && !lacks_key && !self.core.state.key_moved {
            return Ok(());
        }
        // Stored together with the model; one that was refused is none.
        let before = self.core.state.delivered.replace(Arc::new(llm.clone()));
        if let Err(error) = self.switch(llm).await {
            self.core.state.delivered = before;
            return Err(error);
        }
        // What is stored may be the delivered model already.
        Ok(self.saver.save(&self.core.state).await?)
    }

    /// Changes the agent's model, and what goes with it; durable when it returns. The configuration that is there already changes
    /// nothing.
    pub(crate) async fn switch(&mut self, mut llm: LlmConfig) -> Result<String, SwitchError> {
        let agent = Arc::clone(&self.core.state.agent);
        let current = &agent.members().llm;
        let invalid = |(member, reason)| SwitchError::Invalid { member, reason };
        keys::receive(&mut llm, current, self.env.cipher.as_deref()).map_err(invalid)?;
        if llm.model.trim().is_empty() {
            return Err(invalid(("llm.model".to_owned(), "must name a model, such as \"openai/gpt-5\"".to_owned())));
        }
        if llm == *current && !self.core.state.key_moved {
            return Ok(llm.model);
        }
        if !self.core.state.may_open(&llm.usage_id) {
            let reason = format!("the conversation has {USAGE_IDS_LIMIT} usage ids already: use one of them again");
            return Err(invalid(("llm.usage_id".to_owned(), reason)));
        }
        // A missing key may still come to the environment; whatever else cannot work is refused while the old model is there.
        match self.slots.client(&llm) {
            Ok(_) | Err(LlmError::Authentication(_)) => {}
            Err(error) => return Err(invalid(("llm".to_owned(), error.to_string()))),
        }
        // Which model was moved is not known any more: a condenser that keeps its address would have the history sent there.
        let switched = if self.core.state.key_moved { agent.with_one_llm(&llm) } else { agent.with_llm(&llm) };
        let switched = switched.map_err(|error| invalid(("llm".to_owned(), error.to_string())))?;
        self.core.state.secrets.hide(switched.secret_values());
        let told = info::without_nulls(switched.json(&Expose::Masked));
        self.core.state.agent = Arc::new(switched);
        self.core.state.key_moved = false;
        self.core.state.lost_tokens = Arc::default();
        self.core.state.open_usage(&llm.usage_id, &llm.model);
        self.core.machine.limit_messages(llm.max_message_chars);
        // It was made for the model before.
        self.slots.forget(ASK_AGENT);
        self.core.tell("agent", told)?;
        self.core.state.updated_at = openhands_protocol::time::utc_now();
        self.saver.save(&self.core.state).await?;
        Ok(llm.model)
    }
}
