//! Choices over whole histories.

use openhands_protocol::event::ActionEvent;
use serde_json::json;

use super::*;
use crate::fixtures::{action, action_event, agent_says, error_event, observation_event, system, user_says};

fn shared(events: Vec<Event>) -> Vec<Arc<Event>> {
    events.into_iter().map(Arc::new).collect()
}

/// System prompt, a task, then `steps` calls with their results: 2 + 2 * steps events.
fn history(steps: usize) -> Vec<Arc<Event>> {
    let mut events = vec![system("s"), user_says("task")];
    for step in 0..steps {
        let id = format!("r{step}.a");
        events.push(action_event(&id, "terminal"));
        events.push(observation_event(&id, "terminal", &format!("output {step}")));
    }
    shared(events)
}

fn rules(max_size: usize, keep_first: usize) -> CondenserRules {
    CondenserRules { max_size, keep_first, ..CondenserRules::default() }
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.forgotten.iter().map(|event| event.id().as_str()).collect()
}

const EVENTS: Reasons = Reasons { request: false, tokens: None, events: true };
const REQUEST: Reasons = Reasons { request: true, tokens: None, events: false };

#[test]
fn the_middle_goes_and_calls_stay_with_their_results() {
    // 12 events, half of 10 stays: 2 at the beginning, the summary, 2 at the end.
    let plan = Plan::of(&history(5), &rules(10, 2), &EVENTS).unwrap();
    assert_eq!(ids(&plan), ["r0.a", "o-r0.a", "r1.a", "o-r1.a", "r2.a", "o-r2.a", "r3.a", "o-r3.a"]);
    assert_eq!(plan.offset, 2);
    // With 3 at the beginning the cut moves behind the first result, and the end's before a whole call.
    let plan = Plan::of(&history(6), &rules(12, 3), &EVENTS).unwrap();
    assert_eq!(ids(&plan), ["r1.a", "o-r1.a", "r2.a", "o-r2.a", "r3.a", "o-r3.a", "r4.a", "o-r4.a"]);
    assert_eq!(plan.offset, 4);
}

#[test]
fn the_strictest_reason_decides() {
    let events = history(20);
    let forgotten = |reasons: Reasons| Plan::of(&events, &rules(40, 2), &reasons).unwrap().forgotten.len();
    assert_eq!(forgotten(EVENTS), 24, "17 of 42 stay behind 2 and a summary, the cut snaps to a whole call");
    assert_eq!(forgotten(REQUEST), 22);
    assert_eq!(forgotten(Reasons { request: true, ..EVENTS }), 24);
    let tokens = |used: u64| Reasons { tokens: Some(Tokens { used, cap: 1000 }), ..EVENTS };
    assert!(forgotten(tokens(1001)) < forgotten(tokens(4000)));
    assert_eq!(forgotten(tokens(1_000_000)), 40, "everything but the beginning");
}

#[test]
fn batches_and_thinking_loops_are_never_cut() {
    let thinking = |id: &str| {
        Event::Action(ActionEvent {
            thinking_blocks: vec![json!({"type": "thinking", "thinking": "t", "signature": "s"})],
            ..action(id, "terminal")
        })
    };
    // One response with three calls whose results come after all of them.
    let batch = shared(vec![
        system("s"),
        user_says("task"),
        action_event("r1.a", "t"),
        action_event("r1.b", "t"),
        action_event("r1.c", "t"),
        observation_event("r1.a", "t", "x"),
        observation_event("r1.b", "t", "x"),
        error_event("r1.c", "t", "x"),
        agent_says("done"),
        user_says("more"),
        agent_says("ok"),
    ]);
    let plan = Plan::of(&batch, &rules(8, 2), &EVENTS).unwrap();
    assert_eq!(ids(&plan).len(), 8, "{:?}", ids(&plan));
    let plan = Plan::of(&batch, &rules(20, 2), &REQUEST).unwrap();
    assert_eq!(ids(&plan), ["r1.a", "r1.b", "r1.c", "o-r1.a", "o-r1.b", "e-r1.c", "m-done"]);
    // A loop that began with signed thinking reaches to the end.
    let mut events = vec![system("s"), user_says("task"), thinking("r1.a"), observation_event("r1.a", "t", "x")];
    for id in ["r2.a", "r3.a", "r4.a", "r5.a"] {
        events.extend([action_event(id, "t"), observation_event(id, "t", "x")]);
    }
    let looped = shared(events.clone());
    let plan = Plan::of(&looped, &rules(8, 2), &EVENTS).unwrap();
    assert_eq!(plan.forgotten.len(), 10, "all of the loop or nothing");
    // A second thought begins a second loop.
    events.extend([thinking("r6.a"), observation_event("r6.a", "t", "x")]);
    let plan = Plan::of(&shared(events), &rules(10, 2), &EVENTS).unwrap();
    assert_eq!(plan.forgotten.last().unwrap().id().as_str(), "o-r5.a");
}

#[test]
fn too_little_is_not_forgotten() {
    let wrong = |events: &[Arc<Event>], rules: &CondenserRules, reasons| {
        Plan::of(events, rules, &reasons).unwrap_err().to_string()
    };
    assert!(wrong(&history(1), &rules(10, 2), Reasons::default()).contains("no reason"));
    assert!(wrong(&history(0), &rules(10, 4), REQUEST).contains("kept beginning"));
    assert!(wrong(&history(1), &rules(80, 2), EVENTS).contains("nearly everything"));
    let rules = CondenserRules { minimum_progress: 0.9, ..rules(12, 2) };
    assert!(wrong(&history(6), &rules, EVENTS).contains("minimum_progress"));
    assert!(Plan::reset(&shared(vec![system("s")])).is_err());
    let reset = Plan::reset(&history(2)).unwrap();
    assert_eq!((reset.forgotten.len(), reset.offset), (5, 1));
}

#[test]
fn a_condensation_leaves_a_shorter_history_with_a_summary() {
    let mut events = history(5);
    let plan = Plan::of(&events, &rules(10, 2), &EVENTS).unwrap();
    let transcript = plan.transcript(None);
    assert!(transcript.contains("agent calls terminal (call call-r0.a):\n{}"), "{transcript}");
    assert!(transcript.contains("terminal answers (call call-r3.a):\noutput 3"), "{transcript}");
    assert!(plan.transcript(Some(10)).contains("characters left out"));
    let mut event = plan.event("summary".to_owned(), "resp".to_owned());
    event.base_mut().id = EventId::from("k");
    events.push(Arc::new(event));
    let messages = crate::View::of(&events, 0).messages();
    let texts: Vec<String> = messages.iter().map(openhands_protocol::Message::joined_text).collect();
    assert_eq!(texts, ["s", "task\nsummary", "", "output 4"]);
    // The next one takes the summary in.
    for step in 6..12 {
        let id = format!("r{step}.a");
        events.extend(shared(vec![action_event(&id, "terminal"), observation_event(&id, "terminal", "x")]));
    }
    let plan = Plan::of(&events, &rules(10, 2), &EVENTS).unwrap();
    assert_eq!(ids(&plan).first(), Some(&"k-summary"));
    assert!(plan.transcript(None).contains("user says:\nsummary"));
}
