//! Tests of [`super`]: event lists against messages in short form, and the rules over random logs.

use proptest::prelude::*;

use super::*;
use crate::fixtures::{
    action, action_event, agent_says, error_event, observation_event, reject_event, system, user_says,
};

/// `S`, `U(text|text)`, `A(text)`, `A[call,call]`, `T(call: text)`.
fn short(messages: &[Message]) -> String {
    messages
        .iter()
        .map(|message| {
            let text = message.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("|");
            match (message.role, &message.tool_calls) {
                (Role::System, _) => "S".to_owned(),
                (Role::User, _) => format!("U({text})"),
                (Role::Assistant, None) => format!("A({text})"),
                (Role::Assistant, Some(calls)) => {
                    format!("A[{}]", calls.iter().map(|call| call.id.clone()).collect::<Vec<_>>().join(","))
                }
                (Role::Tool, _) => format!("T({}: {text})", message.tool_call_id.as_deref().unwrap_or("?")),
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

fn arcs(events: &[Event]) -> Vec<Arc<Event>> {
    events.iter().cloned().map(Arc::new).collect()
}

fn check(events: &[Event], expected: &str) {
    let messages = View::of(&arcs(events), 0).messages();
    assert_eq!(short(&messages), expected);
    assert_eq!(fault(&messages), None);
}

#[test]
fn a_simple_turn() {
    check(
        &[
            system("s"),
            user_says("u"),
            action_event("r1.a", "t"),
            observation_event("r1.a", "t", "out"),
            agent_says("bye"),
        ],
        "S U(u) A[call-r1.a] T(call-r1.a: out) A(bye)",
    );
}

#[test]
fn calls_of_a_response_are_one_message_whatever_stands_between_them() {
    check(
        &[
            user_says("u"),
            action_event("r1.a", "t"),
            action_event("r1.b", "t"),
            error_event("r1.b", "t", "bad"),
            action_event("r1.c", "t"),
            observation_event("r1.c", "t", "C"),
            observation_event("r1.a", "t", "A"),
        ],
        "U(u) A[call-r1.a,call-r1.b,call-r1.c] T(call-r1.a: A) T(call-r1.b: bad) T(call-r1.c: C)",
    );
}

#[test]
fn the_thought_comes_from_the_first_action() {
    let first = ActionEvent { thought: vec![TextContent::new("think")], ..action("r1.a", "t") };
    let view = View::of(&arcs(&[Event::Action(first), action_event("r1.b", "t")]), 0);
    assert_eq!(view.messages()[0].joined_text(), "think");
}

#[test]
fn user_messages_are_merged_and_wait_for_results() {
    check(&[user_says("a"), user_says("b")], "U(a|b)");
    check(
        &[
            user_says("a"),
            action_event("r1.a", "t"),
            user_says("b"),
            observation_event("r1.a", "t", "A"),
            user_says("c"),
        ],
        "U(a) A[call-r1.a] T(call-r1.a: A) U(b|c)",
    );
}

#[test]
fn missing_results_are_stood_in_for_and_late_ones_find_their_place() {
    check(&[action_event("r1.a", "t")], &format!("A[call-r1.a] T(call-r1.a: {NO_RESULT})"));
    check(
        &[
            action_event("r1.a", "t"),
            action_event("r2.b", "t"),
            system("s"),
            observation_event("r2.b", "t", "B"),
            observation_event("r1.a", "t", "A"),
            observation_event("r1.a", "t", "again"),
        ],
        "S A[call-r1.a] T(call-r1.a: A) A[call-r2.b] T(call-r2.b: B)",
    );
}

#[test]
fn results_without_calls_and_empty_messages_are_left_out() {
    check(&[observation_event("r1.a", "t", "A"), error_event("x", "t", "E"), agent_says("")], "");
    check(&[user_says("u"), agent_says(" "), user_says("v")], "U(u|v)");
    check(&[user_says("u"), agent_says("x"), user_says("")], "U(u) A(x) U((empty message))");
}

#[test]
fn rejections_and_errors_are_results() {
    check(
        &[
            action_event("r1.a", "t"),
            action_event("r1.b", "t"),
            reject_event("r1.b", "t", "no"),
            error_event("r1.a", "t", "E"),
        ],
        "A[call-r1.a,call-r1.b] T(call-r1.a: E) T(call-r1.b: Action rejected: no)",
    );
}

#[test]
fn condensations_are_applied() {
    let condensation = Event::from_slice(
        br#"{"kind": "Condensation", "id": "k", "timestamp": "t", "source": "environment", "llm_response_id": "x",
             "forgotten_event_ids": ["m-a", "r1.a", "o-r1.a"], "summary": "so far", "summary_offset": 1}"#,
    )
    .unwrap();
    check(
        &[
            system("s"),
            user_says("a"),
            action_event("r1.a", "t"),
            observation_event("r1.a", "t", "A"),
            agent_says("x"),
            condensation,
            user_says("b"),
        ],
        "S U(so far) A(x) U(b)",
    );
}

#[test]
fn what_is_said_while_the_model_is_asked_comes_after_its_answer() {
    let mut view = View::new(0);
    let observe = |view: &mut View, event: Event| view.observe(&Arc::new(event));
    observe(&mut view, user_says("a"));
    let lent = view.lend();
    assert_eq!(short(&lent), "U(a)");
    observe(&mut view, user_says("b"));
    view.give_back(lent, true);
    observe(&mut view, action_event("r1.a", "t"));
    observe(&mut view, observation_event("r1.a", "t", "A"));
    let lent = view.lend();
    assert_eq!(short(&lent), "U(a) A[call-r1.a] T(call-r1.a: A) U(b)");
    observe(&mut view, user_says("c"));
    view.give_back(lent, true);
    observe(&mut view, agent_says("x"));
    assert_eq!(short(&view.messages()), "U(a) A[call-r1.a] T(call-r1.a: A) U(b) A(x) U(c)");
    let lent = view.lend();
    observe(&mut view, user_says("d"));
    observe(&mut view, system("late"));
    view.give_back(lent, false);
    assert_eq!(short(&view.messages()), "S U(a) A[call-r1.a] T(call-r1.a: A) U(b) A(x) U(c|d)");
}

/// What a strict provider would refuse.
fn fault(messages: &[Message]) -> Option<String> {
    let mut open: VecDequeOfIds = VecDequeOfIds::new();
    let mut last = None;
    for (index, message) in messages.iter().enumerate() {
        let role = message.role;
        if role != Role::Tool && !open.is_empty() {
            return Some(format!("{index}: calls without results: {open:?}"));
        }
        match role {
            Role::System if index > 0 => return Some(format!("{index}: a system message in the middle")),
            Role::User if last == Some(Role::User) => return Some(format!("{index}: adjacent user messages")),
            Role::Tool if open.pop_front() != message.tool_call_id => {
                return Some(format!("{index}: a result out of place"));
            }
            Role::Assistant => {
                let calls = message.tool_calls.clone().unwrap_or_default();
                if calls.is_empty() && message.content.is_empty() {
                    return Some(format!("{index}: an empty message"));
                }
                open.extend(calls.into_iter().map(|call| call.id));
            }
            _ => {}
        }
        last = Some(role);
    }
    (!open.is_empty()).then(|| format!("calls without results at the end: {open:?}"))
}

type VecDequeOfIds = std::collections::VecDeque<String>;

fn any_event() -> impl Strategy<Value = Event> {
    let id = (0..4u8, 0..3u8).prop_map(|(response, call)| format!("r{response}.{call}"));
    prop_oneof![
        1 => Just(system("s")),
        3 => "[a-c]{0,2}".prop_map(|text| user_says(&text)),
        2 => "[a-c]{0,2}".prop_map(|text| agent_says(&text)),
        6 => id.clone().prop_map(|id| action_event(&id, "t")),
        5 => id.clone().prop_map(|id| observation_event(&id, "t", "out")),
        1 => id.clone().prop_map(|id| error_event(&id, "t", "bad")),
        1 => id.prop_map(|id| reject_event(&id, "t", "no")),
    ]
}

proptest! {
    #[test]
    fn any_log_renders_to_a_valid_request(events in prop::collection::vec(any_event(), 0..60)) {
        let messages = View::of(&arcs(&events), 0).messages();
        prop_assert_eq!(fault(&messages), None, "{}", short(&messages));
    }

    #[test]
    fn lending_at_any_moment_keeps_requests_valid(
        events in prop::collection::vec((any_event(), any::<bool>(), any::<bool>()), 0..60),
    ) {
        let mut view = View::new(0);
        let mut lent = None;
        for (event, turn, answered) in events {
            if turn {
                match lent.take() {
                    None => {
                        let messages = view.lend();
                        prop_assert_eq!(fault(&messages), None, "{}", short(&messages));
                        lent = Some(messages);
                    }
                    Some(messages) => view.give_back(messages, answered),
                }
            }
            view.observe(&Arc::new(event));
        }
    }
}
