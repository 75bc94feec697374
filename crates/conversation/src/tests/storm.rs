//! Anything at any time: random requests against a conversation at work, and what must hold whatever came.

use std::{collections::HashSet, time::Duration};

use openhands_llm::{LlmError, LlmRequest};
use openhands_protocol::{Event, EventId, ExecutionStatus, Role, policy::ConfirmationPolicy};
use serde_json::json;

use super::stage::{Stage, Turn, call, echo, events, eventually, finish};
use crate::{Conversation, NewConversation, RunError, SendError, SendMessage};

/// A small generator of numbers, so that a failing seed can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn turns(dice: &mut Dice) -> Vec<Turn> {
    let turn = |n: u64, dice: &mut Dice| match dice.roll(10) {
        0 => Turn::Say("bye"),
        1 => finish("done"),
        2 => Turn::Muse("hm"),
        3 => Turn::Fail(LlmError::Timeout("too slow".to_owned())),
        4 => call("nope", json!({})),
        5 => Turn::Held(Box::new(Turn::Say("late"))),
        6 => call("fail", json!({"text": n.to_string()})),
        7 => Turn::Calls(vec![
            ("read", json!({"text": format!("r{n}")})),
            ("echo", json!({"text": format!("e{n}")})),
            ("hold", json!({"text": format!("h{n}")})),
        ]),
        _ => echo(&n.to_string()),
    };
    (0..200).map(|n| turn(n, dice)).collect()
}

async fn act(stage: &Stage, conversation: &Conversation, dice: &mut Dice, step: u64) {
    match dice.roll(12) {
        0..=2 => {
            let message = SendMessage { run: dice.roll(2) == 0, ..SendMessage::text(format!("message {step}")) };
            let sent = conversation.send_message(message).await;
            assert!(matches!(sent, Ok(_) | Err(SendError::CapacityFull)), "{sent:?}");
        }
        3 | 4 => {
            let run = conversation.run().await;
            assert!(matches!(run, Ok(()) | Err(RunError::AlreadyRunning | RunError::CapacityFull)), "{run:?}");
        }
        5 => conversation.pause().await.unwrap(),
        6 => conversation.interrupt().await.unwrap(),
        7 => conversation.respond_to_confirmation(dice.roll(2) == 0, None).await.unwrap(),
        8 => {
            let policy = if dice.roll(2) == 0 {
                ConfirmationPolicy::AlwaysConfirm {}
            } else {
                ConfirmationPolicy::NeverConfirm {}
            };
            conversation.set_confirmation_policy(policy).await.unwrap();
        }
        9 => stage.release_model(),
        _ => {
            for started in stage.started() {
                stage.release(&started);
            }
            tokio::time::sleep(Duration::from_millis(dice.roll(4))).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_asked_in_whatever_order() {
    for seed in 1..=12_u64 {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ (seed << 32));
        let turns = turns(&mut dice);
        let stage = Stage::with_permits(turns, 1);
        let request = NewConversation {
            max_iterations: 6,
            ..stage.request_with(json!({"tool_concurrency_limit": 1 + dice.roll(3)}))
        };
        let conversation = stage.create(request).await;
        for step in 0..40 {
            act(&stage, &conversation, &mut dice, step).await;
        }
        conversation.interrupt().await.unwrap();
        assert_ne!(conversation.status(), ExecutionStatus::Running, "seed {seed}");
        eventually("the permit", || stage.env.run_permits.available_permits() == 1).await;
        let log = events(&conversation);
        check_log(&log, conversation.status(), seed);
        for request in stage.requests() {
            check_request(&request, seed);
        }
        conversation.close().await;
        let again = stage.load().await;
        assert_eq!(events(&again)[..log.len()], log[..], "seed {seed}");
    }
}

/// Every action has at most one result and every result its action; only a conversation that waits has open actions. The
/// tree is one branch.
fn check_log(log: &[Event], status: ExecutionStatus, seed: u64) {
    let (mut open, mut head) = (HashSet::new(), None);
    for (index, event) in log.iter().enumerate() {
        let root = (index > 0).then(|| EventId::from("__root__"));
        assert_eq!(event.base().parent_id, head.clone().or(root), "seed {seed}: {event:?}");
        if event.moves_head() {
            head = Some(event.id().clone());
        }
        match event {
            Event::Action(action) => assert!(open.insert(action.tool_call_id.clone()), "seed {seed}: a call twice"),
            Event::Observation(result) => assert!(open.remove(&result.tool_call_id), "seed {seed}: {result:?}"),
            Event::UserReject(result) => assert!(open.remove(&result.tool_call_id), "seed {seed}: {result:?}"),
            Event::AgentError(error) => assert!(open.remove(&error.tool_call_id), "seed {seed}: {error:?}"),
            _ => {}
        }
    }
    assert_eq!(!open.is_empty(), status == ExecutionStatus::WaitingForConfirmation, "seed {seed}: {status} {open:?}");
    let told = log.iter().rev().find_map(|event| match event {
        Event::StateUpdate(update) if update.key == "execution_status" => update.value.as_str().map(str::to_owned),
        _ => None,
    });
    assert_eq!(told.as_deref().unwrap_or("idle"), status.as_str(), "seed {seed}: the last status that was told");
}

/// What a strict provider demands of a history.
fn check_request(request: &LlmRequest, seed: u64) {
    let mut open = std::collections::VecDeque::new();
    let mut last = None;
    for message in &request.messages {
        match message.role {
            Role::Tool => assert_eq!(message.tool_call_id, open.pop_front(), "seed {seed}"),
            role => {
                assert!(open.is_empty(), "seed {seed}: calls without results");
                assert!(!(role == Role::User && last == Some(Role::User)), "seed {seed}: adjacent user messages");
                assert_eq!(role == Role::System, last.is_none(), "seed {seed}: one system message, at the beginning");
            }
        }
        open.extend(message.tool_calls.iter().flatten().map(|call| call.id.clone()));
        last = Some(message.role);
    }
    assert!(open.is_empty(), "seed {seed}: calls without results at the end");
    assert!(matches!(last, Some(Role::User | Role::Tool)), "seed {seed}: nothing to answer");
}
