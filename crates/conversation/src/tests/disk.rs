//! A disk that refuses: what is told, what is kept, and that it goes on once there is room.

use openhands_protocol::{Event, ExecutionStatus, policy::ConfirmationPolicy};
use serde_json::json;

use super::stage::{Stage, Turn, call, echo, events, eventually, finish, frames, status, story, turn};
use crate::{Audience, CondenseError, Conversation, RunError, SendError, SendMessage, Subscription};

/// The conversation's log cannot be written for as long as this lives.
struct FullDisk {
    events: std::path::PathBuf,
    aside: std::path::PathBuf,
}

impl FullDisk {
    fn new(stage: &Stage) -> Self {
        let disk = Self { events: stage.dir().join("events"), aside: stage.dir().join("events.aside") };
        std::fs::rename(&disk.events, &disk.aside).unwrap();
        // Permissions stop no root; a file in the place of the directory stops everyone.
        std::fs::write(&disk.events, "").unwrap();
        disk
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        std::fs::remove_file(&self.events).unwrap();
        std::fs::rename(&self.aside, &self.events).unwrap();
    }
}

/// Frames until the snapshot that ends the run.
async fn heard(subscription: &mut Subscription) -> Vec<String> {
    frames(subscription).await
}

async fn stored_again(conversation: &Conversation) {
    let log = conversation.events();
    eventually("everything is on disk", || log.written() == log.len()).await;
}

#[tokio::test]
async fn a_run_on_a_full_disk_ends_with_an_error_and_goes_on_when_there_is_room() {
    let stage = Stage::new(vec![Turn::Held(Box::new(echo("never"))), finish("done")]);
    let conversation = stage.create(stage.request()).await;
    let mut subscription = conversation.subscribe(Audience::Events, 9).unwrap();
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    stage.asked(1).await;
    let disk = FullDisk::new(&stage);
    stage.release_model();
    status(&conversation, ExecutionStatus::Error).await;

    let told = heard(&mut subscription).await;
    assert_eq!(told[told.len() - 2..], ["failed: StorageError", "full_state error"], "{told:?}");
    assert!(!told.iter().any(|frame| frame.starts_with("action")), "nothing is shown that is not stored: {told:?}");
    assert_eq!(stage.started(), Vec::<String>::new(), "no tool starts when its action cannot be stored");
    // Nothing more is taken, so a caller that repeats itself leaves no double.
    let refused = conversation.send_message(SendMessage::text("again")).await;
    assert!(matches!(refused, Err(SendError::Store(_))), "{refused:?}");
    assert!(matches!(conversation.run().await, Err(RunError::Store(_))));

    drop(disk);
    stored_again(&conversation).await;
    assert_eq!(story(&conversation)[3..], ["action echo", "error echo", "error", "failed: StorageError"]);
    turn(&conversation, "again").await;
    assert_eq!(stage.started(), Vec::<String>::new(), "the action is not executed later");
    conversation.close().await;
    let back = stage.load().await;
    assert_eq!(events(&back).len(), events(&conversation).len());
    assert!(
        events(&back)
            .iter()
            .any(|event| matches!(event, Event::ConversationError(error) if error.code == "StorageError"))
    );
}

#[tokio::test]
async fn a_tool_whose_result_cannot_be_stored_is_not_run_again() {
    let stage = Stage::new(vec![call("hold", json!({"text": "a"})), finish("done")]);
    let conversation = stage.create(stage.request()).await;
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    stage.acting(1).await;
    let disk = FullDisk::new(&stage);
    stage.release("a");
    status(&conversation, ExecutionStatus::Error).await;
    drop(disk);
    stored_again(&conversation).await;
    turn(&conversation, "go on").await;
    assert_eq!(stage.started().len(), 1);
}

#[tokio::test]
async fn without_a_run_only_what_is_asked_fails() {
    let stage = Stage::new(vec![finish("done")]);
    let conversation = stage.create(stage.request()).await;
    let disk = FullDisk::new(&stage);
    let refused = conversation.send_message(SendMessage::text("first")).await;
    assert!(matches!(refused, Err(SendError::Store(_))), "{refused:?}");
    assert_eq!(conversation.status(), ExecutionStatus::Idle);
    drop(disk);
    stored_again(&conversation).await;
    turn(&conversation, "second").await;
}

#[tokio::test]
async fn who_waits_for_a_condensation_hears_that_the_disk_refuses() {
    let stage = Stage::new(vec![echo("one"), finish("done"), Turn::Held(Box::new(Turn::Say("never")))]);
    let llm = json!({"model": "openai/small", "usage_id": "condenser"});
    let request = stage.request_with(json!({"condenser": {"kind": "LLMSummarizingCondenser", "llm": llm}}));
    let conversation = stage.create(request).await;
    turn(&conversation, "task").await;
    let asking = conversation.clone();
    let condensed = tokio::spawn(async move { asking.condense().await });
    stage.asked(3).await;
    let disk = FullDisk::new(&stage);
    conversation.set_confirmation_policy(ConfirmationPolicy::AlwaysConfirm {}).await.unwrap_err();
    let condensed = tokio::time::timeout(std::time::Duration::from_secs(10), condensed).await;
    assert!(matches!(condensed, Ok(Ok(Err(CondenseError::Store(_))))), "{condensed:?}");
    drop(disk);
}
