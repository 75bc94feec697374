//! How long a history is, and whether it is too long.

use std::collections::VecDeque;

use openhands_protocol::Event;

use crate::{
    condensation::is_for_model,
    condenser::{CondenserRules, Need, Reasons, Tokens},
    observation,
};

/// Bytes of text that make about one token.
const BYTES_OF_A_TOKEN: u64 = 4;
/// After a failure the history may grow by this part of `max_size` before the next try.
const PATIENCE: usize = 10;

/// The length of what the model sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Length {
    condensers: VecDeque<CondenserRules>,
    /// Events that the model sees.
    events: usize,
    /// A condensation was asked for and none has come.
    requested: bool,
    /// The first answer since then. The model may have been asked before; a second one shows that the request was given up.
    answer: Option<String>,
    /// Tokens of the latest call; 0 before the first.
    used: u64,
    /// Bytes that came since.
    bytes_since: u64,
    /// What the agent's model takes.
    limit: Option<u64>,
    /// Condensations for the number of events wait until there are as many.
    not_before: usize,
}

impl Length {
    pub(crate) fn set_condensers(&mut self, condensers: Vec<CondenserRules>) {
        self.condensers = condensers.into();
    }

    pub(crate) fn observe(&mut self, event: &Event) {
        self.note_answer(event);
        match event {
            Event::CondensationRequest(_) => (self.requested, self.answer) = (true, None),
            Event::Condensation(condensation) => {
                let summary = usize::from(condensation.summary.is_some() && condensation.summary_offset.is_some());
                self.events = self.events.saturating_sub(condensation.forgotten_event_ids.len()) + summary;
                // The next call will say how long it is now.
                *self = Self { requested: false, used: 0, bytes_since: 0, not_before: 0, ..std::mem::take(self) };
            }
            _ if is_for_model(event) => {
                self.events += 1;
                self.bytes_since = self.bytes_since.saturating_add(bytes(event));
            }
            _ => {}
        }
    }

    /// Requests that came to nothing are marked by nothing in the log but that the run went on: a restart must not take them up.
    fn note_answer(&mut self, event: &Event) {
        let response = match event {
            Event::Action(action) => Some(action.llm_response_id.as_str()),
            Event::Message(message) => message.llm_response_id.as_deref(),
            _ => None,
        };
        let Some(response) = response.filter(|_| self.requested) else { return };
        match &self.answer {
            None => self.answer = Some(response.to_owned()),
            Some(first) => self.requested = first == response,
        }
    }

    pub(crate) fn note_tokens(&mut self, used: u64, limit: Option<u64>) {
        (self.used, self.bytes_since, self.limit) = (used, 0, limit);
    }

    pub(crate) fn forget_request(&mut self) {
        self.requested = false;
    }

    pub(crate) fn put_off(&mut self) {
        let largest = self.condensers.iter().map(|rules| rules.max_size).max().unwrap_or_default();
        self.not_before = self.events + (largest / PATIENCE).max(1);
    }

    /// The first condenser that has a reason.
    pub(crate) fn need(&self) -> Option<Need> {
        self.condensers.iter().enumerate().find_map(|(condenser, rules)| {
            let reasons = Reasons {
                request: self.requested,
                tokens: self.tokens(rules),
                events: self.events > rules.max_size && self.events >= self.not_before,
            };
            (reasons != Reasons::default()).then_some(Need { condenser, reasons })
        })
    }

    fn tokens(&self, rules: &CondenserRules) -> Option<Tokens> {
        let cap = rules.max_tokens.into_iter().chain(self.limit).min()?;
        // Without a call nobody has counted the prompt and the tools; the provider's refusal is a request then.
        if self.used == 0 {
            return None;
        }
        let used = self.used.saturating_add(self.bytes_since / BYTES_OF_A_TOKEN);
        (used > cap).then_some(Tokens { used, cap })
    }
}

/// The text that comes into the history by an event. What the model wrote itself is in the provider's count.
fn bytes(event: &Event) -> u64 {
    let length = match event {
        Event::Message(message) => message.llm_message.joined_text().len(),
        Event::Observation(result) => {
            let parts = observation::parts(&result.observation, &result.extended_content);
            parts.iter().filter_map(|part| part.as_text()).map(str::len).sum()
        }
        Event::AgentError(error) => error.error.len(),
        Event::UserReject(result) => result.rejection_reason.len(),
        _ => 0,
    };
    length as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{action_event, observation_event, system, user_says};

    fn length(max_size: usize, max_tokens: Option<u64>) -> Length {
        let mut length = Length::default();
        length.set_condensers(vec![CondenserRules { max_size, max_tokens, ..CondenserRules::default() }]);
        length.observe(&system("s"));
        length.observe(&user_says("hi"));
        length
    }

    fn reasons(length: &Length) -> Reasons {
        length.need().map(|need| need.reasons).unwrap_or_default()
    }

    #[test]
    fn events_are_counted_and_failures_give_time() {
        let mut length = length(10, None);
        for step in 0..4 {
            length.observe(&action_event(&format!("r{step}.a"), "t"));
            length.observe(&observation_event(&format!("r{step}.a"), "t", "x"));
        }
        assert_eq!(length.need(), None, "ten are allowed");
        length.observe(&user_says("more"));
        assert_eq!(reasons(&length), Reasons { events: true, ..Reasons::default() });
        length.put_off();
        assert_eq!(length.need(), None);
        length.observe(&user_says("and more"));
        assert!(reasons(&length).events);
        let condensation = Event::from_slice(
            br#"{"kind": "Condensation", "id": "k", "timestamp": "t", "source": "environment", "llm_response_id": "x",
                "forgotten_event_ids": ["a", "b", "c"], "summary": "s", "summary_offset": 1}"#,
        );
        length.observe(&condensation.unwrap());
        assert_eq!((length.events, length.need()), (10, None));
    }

    #[test]
    fn a_request_waits_until_it_is_fulfilled() {
        let mut length = length(100, None);
        let marker = |kind: &str| {
            let json = format!(
                r#"{{"kind": "{kind}", "id": "k", "timestamp": "t", "source": "environment", "llm_response_id": "x"}}"#
            );
            Event::from_slice(json.as_bytes()).unwrap()
        };
        length.observe(&marker("CondensationRequest"));
        assert!(reasons(&length).is_hard());
        length.put_off();
        assert!(reasons(&length).request, "only condensations for the number of events can wait");
        length.observe(&marker("Condensation"));
        assert_eq!(length.need(), None);
        length.set_condensers(Vec::new());
        length.observe(&marker("CondensationRequest"));
        assert_eq!(length.need(), None, "nobody is there to fulfil it");
    }

    #[test]
    fn a_request_that_the_run_went_on_without_was_given_up() {
        let mut length = length(100, None);
        let request = r#"{"kind": "CondensationRequest", "id": "k", "timestamp": "t", "source": "environment"}"#;
        let answer = |response: &str, call: &str| match action_event(call, "t") {
            Event::Action(action) => {
                Event::Action(openhands_protocol::event::ActionEvent { llm_response_id: response.to_owned(), ..action })
            }
            other => other,
        };
        length.observe(&Event::from_slice(request.as_bytes()).unwrap());
        length.observe(&answer("r1", "a"));
        length.observe(&answer("r1", "b"));
        assert!(reasons(&length).request, "the model was being asked when the request came");
        length.observe(&answer("r2", "c"));
        assert_eq!(length.need(), None);
        length.observe(&Event::from_slice(request.replace("\"k\"", "\"l\"").as_bytes()).unwrap());
        assert!(reasons(&length).request, "a new one counts");
    }

    #[test]
    fn tokens_are_the_providers_and_what_came_since() {
        let mut length = length(100, Some(1000));
        assert_eq!(length.need(), None);
        length.note_tokens(990, Some(5000));
        assert_eq!(length.need(), None);
        length.observe(&observation_event("r1.a", "t", &"x".repeat(80)));
        assert_eq!(reasons(&length).tokens, Some(Tokens { used: 1010, cap: 1000 }));
        length.note_tokens(600, Some(500));
        assert_eq!(reasons(&length).tokens, Some(Tokens { used: 600, cap: 500 }), "the smaller limit counts");
        length.note_tokens(600, None);
        assert_eq!(length.need(), None);
    }
}
