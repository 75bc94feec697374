//! Tests of [`super`]: events in, next step out.

use openhands_protocol::event::{MarkerEvent, MessageEvent};

use super::*;
use crate::fixtures::{
    action_event, agent_says, base, error_event, observation_event, reject_event, system, user_says,
};

fn limits() -> Limits {
    Limits { max_iterations: 10, stuck: Some(StuckThresholds::default()), max_message_chars: 0 }
}

fn name(next: &Next) -> String {
    match next {
        Next::Judge => "judge".to_owned(),
        Next::Execute(actions) => {
            format!("execute {}", actions.iter().map(|action| action.id().to_string()).collect::<Vec<_>>().join(","))
        }
        Next::Condense(need) => format!("condense {}", need.condenser),
        Next::CallModel => "call".to_owned(),
        Next::Append(_) => "append".to_owned(),
        Next::Finished => "finished".to_owned(),
        Next::Idle => "idle".to_owned(),
        Next::Stuck => "stuck".to_owned(),
        Next::MaxIterations => "max".to_owned(),
        Next::EmptyAnswers => "empty".to_owned(),
    }
}

/// The same answer event by event and from a replay.
fn check_with(progress: Progress, events: &[Event], expected: &str) {
    let mut machine = Machine::new(limits());
    for event in events {
        machine.observe(&Arc::new(event.clone()));
    }
    assert_eq!(name(&machine.next(progress)), expected);
    let events: Vec<Arc<Event>> = events.iter().cloned().map(Arc::new).collect();
    assert_eq!(name(&Machine::replay(limits(), &events).next(progress)), expected, "replayed");
}

fn check(events: &[Event], expected: &str) {
    check_with(Progress::default(), events, expected);
}

#[test]
fn nothing_to_do_without_a_message() {
    check(&[], "idle");
    check(&[system("s")], "idle");
}

#[test]
fn a_message_calls_the_model_and_text_ends_the_turn() {
    check(&[system("s"), user_says("u")], "call");
    check(&[user_says("u"), agent_says("bye")], "finished");
    check(&[user_says("u"), agent_says("bye"), user_says("more")], "call");
    check(
        &[user_says("u"), agent_says("bye"), Event::Pause(MarkerEvent { base: base("p", Source::User) })],
        "finished",
    );
}

#[test]
fn actions_come_before_everything_else() {
    let events =
        [user_says("u"), action_event("r.a", "t"), action_event("r.b", "t"), observation_event("r.a", "t", "A")];
    check(&events, "judge");
    let cleared = Progress { cleared: true, ..Progress::default() };
    check_with(cleared, &events, "execute r.b");
    check_with(Progress { iterations: 99, cleared: true }, &events, "execute r.b");
    check_with(cleared, &[user_says("u"), action_event("r.a", "t"), user_says("v")], "execute r.a");
}

#[test]
fn results_of_any_kind_lead_back_to_the_model() {
    for result in [observation_event("r.a", "t", "A"), error_event("r.a", "t", "E"), reject_event("r.a", "t", "no")] {
        check(&[user_says("u"), action_event("r.a", "t"), result], "call");
    }
}

#[test]
fn finish_ends_the_turn_when_its_batch_is_complete() {
    let finish = [user_says("u"), action_event("r.a", "t"), action_event("r.f", "finish")];
    let mut events = finish.to_vec();
    events.push(observation_event("r.f", "finish", "done"));
    check_with(Progress { cleared: true, ..Progress::default() }, &events, "execute r.a");
    events.push(observation_event("r.a", "t", "A"));
    check(&events, "finished");
    events.push(user_says("more"));
    check(&events, "call");
    // A finish that was rejected or failed is no finish.
    check(&[user_says("u"), action_event("r.f", "finish"), reject_event("r.f", "finish", "no")], "call");
    check(&[user_says("u"), action_event("r.f", "finish"), error_event("r.f", "finish", "E")], "call");
}

#[test]
fn a_message_during_the_last_step_is_not_lost() {
    check(
        &[user_says("u"), action_event("r.f", "finish"), user_says("wait"), observation_event("r.f", "finish", "done")],
        "call",
    );
    check(
        &[
            user_says("u"),
            action_event("r.a", "t"),
            user_says("wait"),
            observation_event("r.a", "t", "A"),
            action_event("r2.f", "finish"),
            observation_event("r2.f", "finish", "done"),
        ],
        "finished",
    );
}

#[test]
fn a_message_while_the_model_is_asked_is_not_lost() {
    for answer in
        [vec![agent_says("bye")], vec![action_event("r.f", "finish"), observation_event("r.f", "finish", "done")]]
    {
        let mut machine = Machine::new(limits());
        machine.observe(&Arc::new(user_says("u")));
        let messages = machine.lend_messages();
        machine.observe(&Arc::new(user_says("wait")));
        machine.give_back_messages(messages, true);
        for event in answer {
            machine.observe(&Arc::new(event));
        }
        assert_eq!(name(&machine.next(Progress::default())), "call");
        let messages = machine.lend_messages();
        assert_eq!(messages.last().unwrap().joined_text(), "wait");
        machine.give_back_messages(messages, true);
        machine.observe(&Arc::new(agent_says("bye")));
        assert_eq!(name(&machine.next(Progress::default())), "finished");
    }
}

#[test]
fn a_run_has_its_number_of_model_calls() {
    check_with(Progress { iterations: 9, cleared: false }, &[user_says("u")], "call");
    check_with(Progress { iterations: 10, cleared: false }, &[user_says("u")], "max");
    check_with(Progress { iterations: 10, cleared: false }, &[user_says("u"), agent_says("bye")], "finished");
}

#[test]
fn failing_calls_are_nudged_about_once() {
    let mut machine = Machine::new(limits());
    machine.observe(&Arc::new(user_says("u")));
    let fail = |machine: &mut Machine, id: &str| {
        machine.observe(&Arc::new(action_event(id, "t")));
        machine.observe(&Arc::new(error_event(id, "t", "E")));
    };
    for id in ["1.a", "2.a", "3.a"] {
        assert_eq!(name(&machine.next(Progress::default())), "call");
        fail(&mut machine, id);
    }
    let Next::Append(nudge) = machine.next(Progress::default()) else { panic!("a nudge") };
    assert!(matches!(&*nudge, Event::Message(MessageEvent { base, .. }) if base.source == Source::Environment));
    machine.nudged();
    machine.observe(&Arc::from(nudge));
    assert_eq!(name(&machine.next(Progress::default())), "call");
    fail(&mut machine, "4.a");
    assert_eq!(name(&machine.next(Progress::default())), "stuck");
    machine.observe(&Arc::new(user_says("another way")));
    assert_eq!(name(&machine.next(Progress::default())), "call");
}

#[test]
fn empty_answers_are_bounded_without_the_stuck_detector() {
    let mut machine = Machine::new(Limits { stuck: None, ..limits() });
    machine.observe(&Arc::new(user_says("u")));
    for _ in 0..MAX_EMPTY_ANSWERS {
        assert_eq!(name(&machine.next(Progress::default())), "call");
        machine.observe(&Arc::new(agent_says("")));
        machine.observe(&Arc::new(answer::nudge("go on".to_owned())));
    }
    assert_eq!(name(&machine.next(Progress::default())), "empty");
}

#[test]
fn the_final_response_is_the_latest_of_text_and_finish() {
    let check = |events: &[Event], expected: &str| {
        let events: Vec<Arc<Event>> = events.iter().cloned().map(Arc::new).collect();
        assert_eq!(&**Machine::replay(limits(), &events).final_response(), expected);
    };
    let finish = crate::fixtures::with_body(action_event("r.f", "finish"), serde_json::json!({"message": "all done"}));
    check(&[user_says("u")], "");
    check(&[user_says("u"), agent_says("text"), user_says("v")], "text");
    check(&[agent_says("text"), finish.clone()], "all done");
    check(&[finish, agent_says("text")], "text");
}
