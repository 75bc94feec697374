//! The messages that a model is sent, kept up to date event by event (F1-EVT-21, F1-EVT-22).
//!
//! Providers refuse a history in which a call lacks its result, a result lacks its call, or something stands between them.
//! The log may be in any state: crashed in the middle of a batch, rejected, or with a user message that came while a tool
//! ran. The view keeps four rules, whatever it is fed: calls of one response form one assistant message; their results
//! follow directly, in call order, and missing ones are stood in for; adjacent user messages are one; what a user says while
//! the model thinks or tools run comes after their answer.

use std::{collections::HashMap, sync::Arc};

use openhands_protocol::{
    Content, Event, Message, Role, TextContent, ToolCall,
    event::{ActionEvent, MessageEvent, SystemPromptEvent},
};

use crate::{condensation, observation};

/// What a model reads where a result is missing.
const NO_RESULT: &str = "This call has no result: it was interrupted before it was done.";

/// What a model reads of a user's message that says nothing.
const EMPTY_MESSAGE: &str = "(empty message)";

/// The messages of a conversation.
#[derive(Clone, Debug, Default)]
pub struct View {
    messages: Vec<Message>,
    batch: Option<Batch>,
    /// User messages that wait for the answer or the results in front of them.
    held: Vec<Message>,
    /// A request is out; the messages are lent away.
    asking: bool,
    /// What came while the messages were lent away and is no user message.
    late: Vec<Arc<Event>>,
    /// Calls that were stood in for, with the place of the stand-in.
    stand_ins: HashMap<String, usize>,
    /// Longest text of one part, characters.
    max_chars: usize,
}

/// The calls of one response and the results there are so far.
#[derive(Clone, Debug)]
struct Batch {
    response_id: String,
    assistant: Message,
    results: Vec<(ToolCall, Option<Message>)>,
}

impl View {
    /// An empty view that cuts single texts to about `max_chars` characters (F1-LLM-13).
    #[must_use]
    pub fn new(max_chars: usize) -> Self {
        Self { max_chars, ..Self::default() }
    }

    /// The view of a whole log, condensations applied.
    #[must_use]
    pub fn of(events: &[Arc<Event>], max_chars: usize) -> Self {
        let mut view = Self::new(max_chars);
        for event in condensation::apply(events) {
            view.observe(&event);
        }
        view
    }

    /// Takes an event into account. Condensations are not handled here but by [`View::of`].
    pub fn observe(&mut self, event: &Arc<Event>) {
        let is_said_to_agent = matches!(&**event, Event::Message(message) if message.llm_message.role == Role::User);
        if self.asking && !is_said_to_agent {
            self.late.push(Arc::clone(event));
            return;
        }
        match &**event {
            Event::SystemPrompt(prompt) => self.set_system(prompt),
            Event::Message(message) => self.add_message(message),
            Event::Action(action) => self.add_call(action),
            Event::Observation(result) => {
                let parts = observation::parts(&result.observation, &result.extended_content);
                self.add_result(&result.tool_call_id, &result.tool_name, parts);
            }
            Event::UserReject(result) => {
                let text = format!("Action rejected: {}", result.rejection_reason);
                self.add_result(&result.tool_call_id, &result.tool_name, vec![Content::text(text)]);
            }
            Event::AgentError(error) => {
                self.add_result(&error.tool_call_id, &error.tool_name, vec![Content::text(&error.error)]);
            }
            Event::StateUpdate(_)
            | Event::ConversationError(_)
            | Event::ServerError(_)
            | Event::Pause(_)
            | Event::Interrupt(_)
            | Event::CondensationRequest(_)
            | Event::Condensation(_)
            | Event::SecurityAnalysis(_)
            | Event::StreamingDelta(_)
            | Event::LlmCompletionLog(_)
            | Event::Unknown(_) => {}
        }
    }

    /// Cuts single texts that come from now on to about so many characters.
    pub fn limit(&mut self, max_chars: usize) {
        self.max_chars = max_chars;
    }

    /// Lends the messages for a request. Until [`View::give_back`] what users say is held back.
    #[must_use]
    pub fn lend(&mut self) -> Vec<Message> {
        self.seal();
        self.asking = true;
        std::mem::take(&mut self.messages)
    }

    /// Takes the messages back when the model has answered (`answered`), or when the call failed.
    pub fn give_back(&mut self, messages: Vec<Message>, answered: bool) {
        self.messages = messages;
        self.asking = false;
        if !answered {
            self.release();
        }
        for event in std::mem::take(&mut self.late) {
            self.observe(&event);
        }
    }

    /// Whether the messages are lent away, that is, the model is being asked.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        self.asking
    }

    /// The messages as they would be sent now.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        let mut copy = self.clone();
        copy.seal();
        copy.messages
    }

    fn set_system(&mut self, prompt: &SystemPromptEvent) {
        let part = |text: &TextContent| Content::Text { cache_prompt: text.cache_prompt, text: text.text.clone() };
        let mut content = vec![part(&prompt.system_prompt)];
        content.extend(prompt.dynamic_context.as_ref().map(part));
        let message = Message::new(Role::System, content);
        match self.messages.first_mut() {
            Some(first) if first.role == Role::System => *first = message,
            _ => {
                self.messages.insert(0, message);
                self.stand_ins.values_mut().for_each(|place| *place += 1);
            }
        }
    }

    fn add_message(&mut self, event: &MessageEvent) {
        let mut message = event.llm_message.clone();
        message.content.extend(
            event
                .extended_content
                .iter()
                .map(|part| Content::Text { cache_prompt: part.cache_prompt, text: part.text.clone() }),
        );
        message.content.iter_mut().for_each(|part| observation::shorten(part, self.max_chars));
        match message.role {
            Role::User if self.asking || self.batch.is_some() => self.held.push(message),
            Role::User => self.push_user(message),
            Role::Assistant => {
                self.seal_batch();
                message.tool_calls = None;
                // An assistant message without content is refused; what follows it is the framework's nudge.
                let says_something =
                    message.content.iter().any(|part| part.as_text().is_none_or(|text| !text.trim().is_empty()));
                if says_something {
                    self.messages.push(message);
                }
                self.release();
            }
            // Such messages cannot be placed in a valid history: the system prompt is an event of its own, results too.
            Role::System | Role::Tool => {}
        }
    }

    fn add_call(&mut self, action: &ActionEvent) {
        let joins = self.batch.as_ref().is_some_and(|batch| batch.response_id == action.llm_response_id);
        if !joins {
            // A batch that was open before this one is complete, and what was said meanwhile belongs between them. What was
            // said while the model was asked stays held: it comes after this batch.
            if self.batch.is_some() {
                self.seal();
            }
            let content = action
                .thought
                .iter()
                .map(|part| Content::Text { cache_prompt: part.cache_prompt, text: part.text.clone() })
                .collect();
            self.batch = Some(Batch {
                response_id: action.llm_response_id.clone(),
                assistant: Message {
                    reasoning_content: action.reasoning_content.clone(),
                    thinking_blocks: action.thinking_blocks.clone(),
                    responses_reasoning_item: action.responses_reasoning_item.clone(),
                    ..Message::new(Role::Assistant, content)
                },
                results: Vec::new(),
            });
        }
        if let Some(batch) = &mut self.batch
            && batch.results.iter().all(|(call, _)| call.id != action.tool_call.id)
        {
            batch.results.push((action.tool_call.clone(), None));
        }
    }

    fn add_result(&mut self, call_id: &str, tool: &str, mut content: Vec<Content>) {
        content.iter_mut().for_each(|part| observation::shorten(part, self.max_chars));
        let result = tool_message(call_id, tool, content);
        let open = self.batch.as_mut().and_then(|batch| batch.results.iter_mut().find(|(call, _)| call.id == call_id));
        match open {
            // The first result counts.
            Some((_, slot)) => {
                slot.get_or_insert(result);
            }
            None => {
                // Too late for its place in the order, but the stand-in knows where it belongs.
                if let Some(place) = self.stand_ins.remove(call_id)
                    && let Some(stand_in) = self.messages.get_mut(place)
                {
                    *stand_in = result;
                }
            }
        }
    }

    /// Writes the open batch down and then what was said meanwhile.
    fn seal(&mut self) {
        self.seal_batch();
        self.release();
    }

    fn seal_batch(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        let Batch { mut assistant, results, .. } = batch;
        assistant.tool_calls = Some(results.iter().map(|(call, _)| call.clone()).collect());
        self.messages.push(assistant);
        for (call, result) in results {
            let message = result.unwrap_or_else(|| {
                self.stand_ins.insert(call.id.clone(), self.messages.len());
                tool_message(&call.id, &call.name, vec![Content::text(NO_RESULT)])
            });
            self.messages.push(message);
        }
    }

    fn release(&mut self) {
        for message in std::mem::take(&mut self.held) {
            self.push_user(message);
        }
    }

    fn push_user(&mut self, mut message: Message) {
        // A message without content is refused, and without any message there may be nothing to answer.
        if message.content.iter().all(|part| part.as_text().is_some_and(|text| text.trim().is_empty())) {
            message.content = vec![Content::text(EMPTY_MESSAGE)];
        }
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User => last.content.append(&mut message.content),
            _ => self.messages.push(message),
        }
    }
}

fn tool_message(call_id: &str, tool: &str, content: Vec<Content>) -> Message {
    Message { tool_call_id: Some(call_id.to_owned()), name: Some(tool.to_owned()), ..Message::new(Role::Tool, content) }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
