//! A question about a conversation: answered by its model from all that happened so far, beside any run. Nothing of it becomes part of
//! the conversation but what it cost.

use std::{sync::Arc, time::Instant};

use openhands_llm::LlmRequest;
use openhands_protocol::{Content, LlmConfig, Message, Role};
use tokio::sync::oneshot;

use crate::{
    error::AskError,
    mailbox::{Command, Reply},
    model,
    slots::ASK_AGENT,
    task::Task,
};

/// Longest question, bytes.
pub(crate) const MAX_QUESTION: usize = 256 * 1024;

impl Task {
    /// Has a question answered in the background.
    pub(crate) fn ask_aside(&mut self, question: &str, reply: Reply<Result<String, AskError>>) {
        let config =
            LlmConfig { usage_id: ASK_AGENT.to_owned(), stream: false, ..self.core.state.agent.members().llm.clone() };
        let client = match self.usable().and_then(|()| self.slots.client(&config)) {
            Ok(client) => client,
            Err(error) => {
                let _ = reply.send(Err(AskError::Model(self.hidden(&error.to_string()))));
                return;
            }
        };
        let mut messages = self.messages();
        messages.push(Message::new(Role::User, vec![Content::text(asked(question))]));
        // The tools go along because the history has calls of them, which some providers refuse otherwise.
        let request = LlmRequest { messages, tools: self.workplace.tools.offered(), ..LlmRequest::default() };
        let (mailbox, closing) = (self.own_mailbox.clone(), self.closing.clone());
        let secrets = Arc::clone(&self.core.state.secrets);
        tokio::spawn(async move {
            let started = Instant::now();
            let answered = tokio::select! {
                answered = client.complete(&request, None, &closing) => answered,
                () = closing.cancelled() => return,
            };
            let answer = match answered {
                Ok(response) => {
                    let call = model::record(&config, &response, started.elapsed());
                    let (counted, wait) = oneshot::channel();
                    if let Some(mailbox) = mailbox.upgrade() {
                        let _ = mailbox.send(Command::Count { call: Box::new(call), reply: counted }).await;
                    }
                    // Whoever has the answer finds its cost in the statistics.
                    let _ = wait.await;
                    Ok(secrets.mask(&response.message.joined_text()))
                }
                Err(error) => Err(AskError::Model(secrets.mask(&error.to_string()))),
            };
            let _ = reply.send(answer);
        });
    }

    /// What the model has read so far, even while it is being asked.
    fn messages(&self) -> Vec<Message> {
        match self.run.as_ref().and_then(crate::run::Run::asking) {
            Some(request) => request.messages.clone(),
            None => self.core.machine.messages(),
        }
    }
}

fn asked(question: &str) -> String {
    format!(
        "This is a question about the work so far, beside it. Answer it in plain text from what you know now; call no tool, and go on with \
         nothing.\n\n<question>\n{question}\n</question>"
    )
}
