//! Finds runs that go in circles (F1-STK, F2-STUCK): a pure function over the latest events.
//!
//! Four patterns after the last user message: the same action with the same result, the same action with errors (the model
//! is nudged once before it counts as stuck), a monologue, and two alternating pairs. Ids, time stamps and the like never
//! matter for equality. The context-window pattern belongs to condensation.

use openhands_protocol::{Event, EventId, Source};
use serde::{Deserialize, Serialize};

/// How many repetitions are a loop; each at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StuckThresholds {
    /// Equal pairs of action and observation.
    pub action_observation: usize,
    /// Equal actions that fail; at this number the model is nudged, one more is a loop.
    pub action_error: usize,
    /// Agent messages in a row.
    pub monologue: usize,
    /// Actions (and results) of two alternating pairs.
    pub alternating_pattern: usize,
}

impl Default for StuckThresholds {
    fn default() -> Self {
        Self { action_observation: 4, action_error: 3, monologue: 3, alternating_pattern: 6 }
    }
}

impl StuckThresholds {
    /// How many events at the end of the log can matter.
    #[must_use]
    pub fn window(&self) -> usize {
        let longest = self
            .action_observation
            .max(self.action_error.saturating_add(1))
            .max(self.alternating_pattern)
            .max(self.monologue);
        // Twice, because each action comes with a result.
        longest.saturating_mul(2).clamp(20, 2000)
    }
}

/// What the latest events say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing repeats.
    Fine,
    /// The same call failed in the same way; tell the model once.
    Nudge {
        /// The latest of these errors.
        error: EventId,
        /// The text for the model.
        text: String,
    },
    /// The run goes in circles.
    Stuck,
}

/// Judges events in log order, at least the last [`StuckThresholds::window`] of them. `nudged` is the error that the model
/// was told about already.
#[must_use]
pub fn examine(events: &[&Event], thresholds: &StuckThresholds, nudged: Option<&EventId>) -> Verdict {
    let start = events.iter().rposition(|event| is_user_message(event)).map_or(0, |index| index + 1);
    let events = events.get(start..).unwrap_or_default();
    let actions: Vec<&Event> = events.iter().rev().copied().filter(|event| matches!(event, Event::Action(_))).collect();
    let results: Vec<&Event> = events.iter().rev().copied().filter(|event| is_result(event)).collect();
    let failures = failing_streak(&actions, &results);
    if failures == thresholds.action_error
        && let (Some(Event::Action(action)), Some(Event::AgentError(error))) = (actions.first(), results.first())
        && nudged != Some(&error.base.id)
    {
        let text = format!(
            "The same call of `{}` failed {failures} times in a row, each time with: {}\nIt will fail again. Read the \
             error, then change the arguments or go another way.",
            action.tool_name, error.error
        );
        return Verdict::Nudge { error: error.base.id.clone(), text };
    }
    let enough = thresholds.action_observation.min(thresholds.action_error).min(thresholds.monologue);
    let stuck = events.len() >= enough
        && (repeats(&actions, &results, thresholds.action_observation)
            || failures > thresholds.action_error
            || monologue(events) >= thresholds.monologue
            || alternates(&actions, &results, thresholds.alternating_pattern));
    if stuck { Verdict::Stuck } else { Verdict::Fine }
}

fn is_user_message(event: &Event) -> bool {
    matches!(event, Event::Message(message) if message.base.source == Source::User)
}

fn is_result(event: &Event) -> bool {
    matches!(event, Event::Observation(_) | Event::AgentError(_) | Event::UserReject(_))
}

/// The first `count` of each list are equal among themselves.
fn repeats(actions: &[&Event], results: &[&Event], count: usize) -> bool {
    let equal = |list: &[&Event]| match list.get(..count) {
        Some([first, rest @ ..]) => rest.iter().all(|event| same(first, event)),
        _ => false,
    };
    equal(actions) && equal(results)
}

/// How often the latest action failed in a row.
fn failing_streak(actions: &[&Event], results: &[&Event]) -> usize {
    let Some(latest) = actions.first() else { return 0 };
    actions
        .iter()
        .zip(results)
        .take_while(|(action, result)| same(latest, action) && matches!(result, Event::AgentError(_)))
        .count()
}

/// Agent messages at the end of the list; what the framework says in between does not break the row.
fn monologue(events: &[&Event]) -> usize {
    events
        .iter()
        .rev()
        .take_while(|event| matches!(event, Event::Message(_)))
        .filter(|event| event.base().source == Source::Agent)
        .count()
}

/// The first `count` of each list alternate: every event equals the one after the next.
fn alternates(actions: &[&Event], results: &[&Event], count: usize) -> bool {
    let alternating = |list: &[&Event]| {
        list.get(..count).is_some_and(|list| list.iter().zip(list.iter().skip(2)).all(|(one, other)| same(one, other)))
    };
    count > 2 && alternating(actions) && alternating(results)
}

/// Equal in what matters (F2-STUCK-10 to 14).
fn same(one: &Event, other: &Event) -> bool {
    match (one, other) {
        (Event::Action(one), Event::Action(other)) => {
            one.base.source == other.base.source
                && one.tool_name == other.tool_name
                && one.thought == other.thought
                && one.action == other.action
                // Calls that are no actions are told apart by what the model wrote.
                && (one.action.is_some() || one.tool_call.arguments == other.tool_call.arguments)
        }
        (Event::Observation(one), Event::Observation(other)) => {
            one.tool_name == other.tool_name && one.observation == other.observation
        }
        (Event::AgentError(one), Event::AgentError(other)) => one.error == other.error,
        (Event::UserReject(one), Event::UserReject(other)) => {
            one.tool_name == other.tool_name && one.rejection_reason == other.rejection_reason
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{action_event, agent_says, error_event, observation_event, user_says, with_body};

    /// One step for each letter: upper-case = observation, lower-case = error; the letter is action and result.
    fn steps(letters: &str) -> Vec<Event> {
        letters
            .chars()
            .enumerate()
            .flat_map(|(n, letter)| {
                let id = format!("{n}");
                let action = with_body(action_event(&id, "terminal"), json!({"command": letter.to_string()}));
                let result = if letter.is_uppercase() {
                    observation_event(&id, "terminal", &letter.to_string())
                } else {
                    error_event(&id, "terminal", &letter.to_string())
                };
                [action, result]
            })
            .collect()
    }

    fn check(events: &[Event], expected: &str) {
        let events: Vec<&Event> = events.iter().collect();
        let verdict = match examine(&events, &StuckThresholds::default(), None) {
            Verdict::Fine => "fine",
            Verdict::Nudge { .. } => "nudge",
            Verdict::Stuck => "stuck",
        };
        assert_eq!(verdict, expected);
    }

    #[test]
    fn equal_pairs() {
        check(&steps("AAA"), "fine");
        check(&steps("AAAA"), "stuck");
        check(&steps("BAAAA"), "stuck");
        check(&steps("AAABA"), "fine");
    }

    #[test]
    fn failing_actions_are_nudged_once_and_then_stuck() {
        check(&steps("aa"), "fine");
        check(&steps("aaa"), "nudge");
        check(&steps("aaaa"), "stuck");
        check(&steps("aaba"), "fine");
        let events = steps("aaa");
        let events: Vec<&Event> = events.iter().collect();
        let Verdict::Nudge { error, text } = examine(&events, &StuckThresholds::default(), None) else {
            panic!("a nudge")
        };
        assert!(text.contains("`terminal`"), "{text}");
        assert_eq!(examine(&events, &StuckThresholds::default(), Some(&error)), Verdict::Fine);
    }

    #[test]
    fn monologues() {
        check(&[agent_says("x"), agent_says("y")], "fine");
        check(&[agent_says("x"), agent_says("y"), agent_says("z")], "stuck");
        check(&[agent_says("x"), crate::answer::nudge("go".to_owned()), agent_says("y"), agent_says("z")], "stuck");
        check(&[agent_says("x"), agent_says("y"), user_says("u"), agent_says("z")], "fine");
    }

    #[test]
    fn alternating_pairs() {
        check(&steps("ABABA"), "fine");
        check(&steps("ABABAB"), "stuck");
        check(&steps("ABCABC"), "fine");
    }

    #[test]
    fn only_events_after_the_last_user_message_count() {
        let mut events = steps("AAA");
        events.push(user_says("go on"));
        events.extend(steps("A"));
        check(&events, "fine");
    }

    #[test]
    fn the_window_follows_the_thresholds() {
        assert_eq!(StuckThresholds::default().window(), 20);
        assert_eq!(StuckThresholds { action_observation: 30, ..StuckThresholds::default() }.window(), 60);
    }
}
