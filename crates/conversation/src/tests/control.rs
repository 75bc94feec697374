//! Pause, interrupt, messages during a run, capacity, close.

use std::sync::Arc;

use openhands_protocol::{Event, ExecutionStatus, Role};
use serde_json::json;

use super::stage::{Stage, Turn, call, echo, events, eventually, finish, frames, status, story, turn};
use crate::{Audience, Conversation, LoadError, RunError, SendError, SendMessage, SubscriptionEnded};

async fn begin(stage: &Stage) -> Conversation {
    let conversation = stage.create(stage.request()).await;
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    conversation
}

#[tokio::test]
async fn a_pause_lets_the_step_end_and_a_run_goes_on() {
    let stage = Stage::new(vec![Turn::Held(Box::new(echo("one"))), echo("two"), finish("done")]);
    let conversation = begin(&stage).await;
    stage.asked(1).await;
    assert!(matches!(conversation.run().await, Err(RunError::AlreadyRunning)));
    conversation.pause().await.unwrap();
    assert_eq!(conversation.status(), ExecutionStatus::Running, "the step goes on");
    stage.release_model();
    status(&conversation, ExecutionStatus::Paused).await;
    assert_eq!(
        story(&conversation),
        ["system", "user: go", "running", "action echo", "result one", "paused", "PauseEvent"]
    );
    assert_eq!(stage.requests().len(), 1);
    conversation.run().await.unwrap();
    status(&conversation, ExecutionStatus::Finished).await;
    assert_eq!(
        story(&conversation)[7..],
        ["running", "action echo", "result two", "action finish", "result done", "finished"]
    );
}

#[tokio::test]
async fn a_pause_without_a_run() {
    let stage = Stage::new(vec![Turn::Say("bye")]);
    let conversation = stage.create(stage.request()).await;
    conversation.pause().await.unwrap();
    conversation.pause().await.unwrap();
    assert_eq!(story(&conversation), ["paused", "PauseEvent"], "the second pause is nothing");
    conversation.send_message(SendMessage::text("hi")).await.unwrap();
    assert_eq!(conversation.status(), ExecutionStatus::Paused);
    conversation.run().await.unwrap();
    status(&conversation, ExecutionStatus::Finished).await;
    conversation.pause().await.unwrap();
    assert_eq!(conversation.status(), ExecutionStatus::Finished);
}

#[tokio::test]
async fn an_interrupt_cuts_off_a_model_call() {
    let stage = Stage::new(vec![Turn::Held(Box::new(Turn::Say("too late"))), finish("after")]);
    let conversation = begin(&stage).await;
    stage.asked(1).await;
    let mut subscription = conversation.subscribe(Audience::Events, 1).unwrap();
    conversation.interrupt().await.unwrap();
    assert_eq!(conversation.status(), ExecutionStatus::Paused);
    assert_eq!(frames(&mut subscription).await, ["paused", "InterruptEvent", "full_state paused"]);
    conversation.run().await.unwrap();
    status(&conversation, ExecutionStatus::Finished).await;
    assert_eq!(conversation.agent_final_response(), "after");
    let roles: Vec<Role> = stage.requests()[1].messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User], "the cut-off call left no trace");
}

#[tokio::test]
async fn an_interrupt_gives_every_action_a_result() {
    let batch = Turn::Calls(vec![
        ("echo", json!({"text": "quick"})),
        ("hold", json!({"text": "slow"})),
        ("hold", json!({"text": "never"})),
    ]);
    let stage = Stage::new(vec![batch, finish("after")]);
    let conversation = begin(&stage).await;
    stage.acting(2).await;
    conversation.interrupt().await.unwrap();
    assert_eq!(
        story(&conversation)[3..],
        [
            "action echo",
            "action hold",
            "action hold",
            "result quick",
            "error hold",
            "error hold",
            "paused",
            "InterruptEvent"
        ]
    );
    assert_eq!(stage.started(), ["quick", "slow"], "what had not begun does not begin");
    conversation.run().await.unwrap();
    status(&conversation, ExecutionStatus::Finished).await;
    assert_eq!(stage.started(), ["quick", "slow"], "nothing is done again");
}

#[tokio::test]
async fn an_interrupt_without_a_run_is_a_pause() {
    let stage = Stage::new(vec![]);
    let conversation = stage.create(stage.request()).await;
    conversation.interrupt().await.unwrap();
    assert_eq!(story(&conversation), ["paused", "PauseEvent"]);
}

#[tokio::test]
async fn a_message_during_a_tool_is_stored_at_once_and_read_after_the_result() {
    let stage = Stage::new(vec![call("hold", json!({"text": "x"})), Turn::Say("bye")]);
    let conversation = begin(&stage).await;
    stage.acting(1).await;
    conversation.send_message(SendMessage::text("also this")).await.unwrap();
    assert_eq!(story(&conversation).last().unwrap(), "user: also this");
    stage.release("x");
    status(&conversation, ExecutionStatus::Finished).await;
    let roles: Vec<Role> = stage.requests()[1].messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::Tool, Role::User]);
    assert_eq!(stage.last_read(), "also this");
}

#[tokio::test]
async fn a_message_during_the_last_call_is_not_lost() {
    for last in [Turn::Say("bye"), finish("bye")] {
        let stage = Stage::new(vec![Turn::Held(Box::new(last)), Turn::Say("one more")]);
        let conversation = begin(&stage).await;
        stage.asked(1).await;
        conversation.send_message(SendMessage { run: true, ..SendMessage::text("wait") }).await.unwrap();
        stage.release_model();
        status(&conversation, ExecutionStatus::Finished).await;
        assert_eq!(stage.requests().len(), 2);
        assert_eq!(stage.last_read(), "wait");
        assert_eq!(conversation.agent_final_response(), "one more");
    }
}

#[tokio::test]
async fn a_finished_conversation_takes_new_messages_and_runs_without_one_are_nothing() {
    let stage = Stage::new(vec![Turn::Say("one"), Turn::Say("two")]);
    let conversation = begin(&stage).await;
    status(&conversation, ExecutionStatus::Finished).await;
    let mut subscription = conversation.subscribe(Audience::Events, 1).unwrap();
    conversation.run().await.unwrap();
    assert_eq!(frames(&mut subscription).await, ["full_state finished"]);
    conversation.send_message(SendMessage::text("more")).await.unwrap();
    assert_eq!(conversation.status(), ExecutionStatus::Idle);
    turn(&conversation, "and more").await;
    assert_eq!(stage.requests().len(), 2);
    assert_eq!(stage.last_read(), "more\nand more");
}

#[tokio::test]
async fn the_end_of_a_short_run_is_repeated_until_somebody_asks_for_something() {
    let stage = Stage::new(vec![Turn::Say("one")]);
    let conversation = stage.create(stage.request()).await;
    let mut subscription = conversation.subscribe(Audience::Events, 1).unwrap();
    turn(&conversation, "hi").await;
    assert_eq!(frames(&mut subscription).await.last().unwrap(), "full_state finished");
    assert_eq!(frames(&mut subscription).await, ["full_state finished"]);
}

#[tokio::test]
async fn capacity_is_shared_and_given_back() {
    let stage = Stage::with_permits(vec![Turn::Held(Box::new(Turn::Say("bye"))), Turn::Say("other")], 1);
    let conversation = begin(&stage).await;
    stage.asked(1).await;
    let other = Stage {
        id: openhands_protocol::ConversationId::random(),
        root: tempfile::tempdir().unwrap(),
        ..Stage::new(vec![])
    };
    let other = Stage { env: Arc::clone(&stage.env), ..other };
    let second = other.create(other.request()).await;
    let running = SendMessage { run: true, ..SendMessage::text("me too") };
    assert!(matches!(second.send_message(running.clone()).await, Err(SendError::CapacityFull)));
    assert!(second.events().is_empty(), "a message that asks in vain is not stored");
    second.send_message(SendMessage::text("later")).await.unwrap();
    assert!(matches!(second.run().await, Err(RunError::CapacityFull)));
    stage.release_model();
    status(&conversation, ExecutionStatus::Finished).await;
    eventually("the permit", || stage.env.run_permits.available_permits() == 1).await;
    second.run().await.unwrap();
    status(&second, ExecutionStatus::Finished).await;
}

#[tokio::test]
async fn only_user_messages_are_taken() {
    let stage = Stage::new(vec![]);
    let conversation = stage.create(stage.request()).await;
    let message = SendMessage { role: Role::Assistant, ..SendMessage::text("x") };
    assert!(matches!(conversation.send_message(message).await, Err(SendError::NotAUserMessage)));
}

#[tokio::test]
async fn a_close_pauses_the_run_and_a_load_goes_on() {
    let stage = Stage::new(vec![call("hold", json!({"text": "x"})), Turn::Say("bye")]);
    let conversation = begin(&stage).await;
    stage.acting(1).await;
    let mut subscription = conversation.subscribe(Audience::Events, 1).unwrap();
    conversation.close().await;
    conversation.close().await;
    assert_eq!(stage.closed_tools(), 5);
    assert_eq!(frames(&mut subscription).await.last().unwrap(), "full_state paused");
    assert_eq!(subscription.recv().await, Err(SubscriptionEnded::Closed));
    assert!(matches!(conversation.run().await, Err(RunError::Closed)));
    assert!(!stage.dir().join("owner_lease.json").exists(), "the lease is released");
    let before = story(&conversation);
    let again = stage.load().await;
    assert_eq!(story(&again), before);
    assert_eq!(again.status(), ExecutionStatus::Paused);
    again.run().await.unwrap();
    status(&again, ExecutionStatus::Finished).await;
}

#[tokio::test]
async fn a_delete_leaves_nothing() {
    let stage = Stage::new(vec![call("hold", json!({"text": "x"}))]);
    let conversation = begin(&stage).await;
    stage.acting(1).await;
    conversation.delete().await;
    assert!(!stage.dir().exists());
    let gone = Conversation::load(Arc::clone(&stage.env), &stage.dir()).await;
    assert!(matches!(gone, Err(LoadError::Missing)));
    assert!(!stage.dir().exists(), "looking for it leaves no traces");
}

#[tokio::test]
async fn the_last_handle_closes() {
    let stage = Stage::new(vec![Turn::Say("bye")]);
    let conversation = stage.create(stage.request()).await;
    turn(&conversation, "hi").await;
    drop(conversation);
    eventually("the lease to be released", || !stage.dir().join("owner_lease.json").exists()).await;
    let again = stage.load().await;
    assert_eq!(again.status(), ExecutionStatus::Finished);
    assert!(events(&again).iter().any(|event| matches!(event, Event::Message(_))));
}
