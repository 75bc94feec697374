//! Calls beside the runs: a question about the conversation, answered from all that happened so far, and calls that a program makes in
//! the conversation's name. Nothing of them becomes part of the conversation but what they cost.

use std::{sync::Arc, time::Instant};

use openhands_llm::{LlmRequest, LlmResponse};
use openhands_protocol::{Content, LlmConfig, Message, Role};
use tokio::sync::oneshot;

use crate::{
    error::AskError,
    failure,
    mailbox::{Command, Reply},
    model,
    run::Run,
    slots::ASK_AGENT,
    task::Task,
};

/// Longest question, bytes.
pub(crate) const MAX_QUESTION: usize = 256 * 1024;
/// Calls beside the runs of one conversation that may be out at once.
pub(crate) const AT_ONCE: usize = 8;

impl Task {
    /// Has a question answered in the background.
    pub(crate) fn ask_aside(&mut self, question: &str, reply: Reply<Result<LlmResponse, AskError>>) {
        if let Err(error) = self.usable() {
            let _ = reply.send(Err(AskError::Model(error.to_string())));
            return;
        }
        let config =
            LlmConfig { usage_id: ASK_AGENT.to_owned(), stream: false, ..self.core.state.agent.members().llm.clone() };
        let mut messages = self.messages();
        messages.push(Message::new(Role::User, vec![Content::text(asked(question))]));
        // The tools go along because the history has calls of them, which some providers refuse otherwise.
        self.complete(config, LlmRequest { messages, tools: self.workplace.tools.offered() }, reply);
    }

    /// Makes a call in the background and counts it under the configuration's usage id.
    pub(crate) fn complete(
        &mut self,
        config: LlmConfig,
        request: LlmRequest,
        reply: Reply<Result<LlmResponse, AskError>>,
    ) {
        let prepared = self.prepare(&config);
        let (client, place) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return drop(reply.send(Err(error))),
        };
        let (mailbox, closing) = (self.own_mailbox.clone(), self.closing.clone());
        let secrets = Arc::clone(&self.core.state.secrets);
        tokio::spawn(async move {
            let _place = place;
            let started = Instant::now();
            let answered = tokio::select! {
                answered = client.complete(&request, None, &closing) => answered,
                () = closing.cancelled() => return,
            };
            let answer = match answered {
                Ok(mut response) => {
                    let call = model::record(&config, &response, started.elapsed());
                    let (counted, wait) = oneshot::channel();
                    if let Some(mailbox) = mailbox.upgrade() {
                        let _ = mailbox.send(Command::Count { call: Box::new(call), reply: counted }).await;
                    }
                    // Whoever has the answer finds its cost in the statistics.
                    let _ = wait.await;
                    for part in &mut response.message.content {
                        if let Content::Text { text, .. } = part {
                            *text = secrets.mask(text);
                        }
                    }
                    Ok(response)
                }
                Err(error) => Err(AskError::Model(secrets.mask(&error.to_string()))),
            };
            let _ = reply.send(answer);
        });
    }

    fn prepare(&mut self, config: &LlmConfig) -> Result<Prepared, AskError> {
        if let Some((budget, spent)) = self.core.state.used_up() {
            return Err(AskError::Model(failure::budget_text(budget, spent)));
        }
        if !self.core.state.may_open(&config.usage_id) {
            return Err(AskError::Model("the conversation has too many usage ids: use one of them again".to_owned()));
        }
        let place = Arc::clone(&self.asides).try_acquire_owned().map_err(|_| AskError::Busy(AT_ONCE))?;
        self.core.state.secrets.hide(config.secret_values());
        let client = self.slots.client(config).map_err(|error| AskError::Model(self.hidden(&error.to_string())))?;
        self.core.state.open_usage(&config.usage_id, &config.model);
        Ok((client, place))
    }

    /// What the model has read so far, even while it is being asked.
    fn messages(&self) -> Vec<Message> {
        match self.run.as_ref().and_then(Run::asking) {
            Some(request) => request.messages.clone(),
            None => self.core.machine.messages(),
        }
    }
}

type Prepared = (Arc<dyn openhands_llm::LlmClient>, tokio::sync::OwnedSemaphorePermit);

fn asked(question: &str) -> String {
    format!(
        "This is a question about the work so far, beside it. Answer it in plain text from what you know now; call no tool, and go on with \
         nothing.\n\n<question>\n{question}\n</question>"
    )
}
