//! Crashes: the task ends between any two moments, and the conversation is taken up again.

use std::{fs, sync::Arc};

use openhands_protocol::{Event, EventId, ExecutionStatus};
use serde_json::json;

use super::stage::{Stage, Turn, call, echo, events, eventually, finish, status, story, turn};
use crate::{Conversation, NewConversation, SendMessage};

/// Ends the task as a kill would: nothing is saved, nothing is released.
async fn crash(conversation: Conversation) {
    let task = conversation.shared.task.get().unwrap().clone();
    task.abort();
    eventually("the task's end", || task.is_finished()).await;
}

#[tokio::test]
async fn a_call_that_was_cut_off_gets_an_error_and_is_not_repeated() {
    let stage = Stage::new(vec![
        Turn::Calls(vec![("echo", json!({"text": "done"})), ("hold", json!({"text": "cut"}))]),
        finish("after"),
    ]);
    let conversation = stage.create(stage.request()).await;
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    stage.acting(2).await;
    crash(conversation).await;
    let again = stage.load().await;
    assert_eq!(again.status(), ExecutionStatus::Error);
    assert_eq!(story(&again)[2..], ["running", "action echo", "action hold", "result done", "error hold", "error"]);
    turn(&again, "go on").await;
    assert_eq!(stage.started(), ["done", "cut"]);
    assert_eq!(again.agent_final_response(), "after");
}

#[tokio::test]
async fn what_waits_for_a_yes_still_waits() {
    let stage = Stage::new(vec![echo("x"), Turn::Say("bye")]);
    let policy = openhands_protocol::policy::ConfirmationPolicy::AlwaysConfirm {};
    let conversation = stage.create(NewConversation { confirmation_policy: policy, ..stage.request() }).await;
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    status(&conversation, ExecutionStatus::WaitingForConfirmation).await;
    conversation.events().commit().await.unwrap();
    crash(conversation).await;
    let again = stage.load().await;
    assert_eq!(again.status(), ExecutionStatus::WaitingForConfirmation);
    assert_eq!(again.report_watch().borrow().pending_actions, 1);
    again.respond_to_confirmation(true, None).await.unwrap();
    status(&again, ExecutionStatus::Finished).await;
    assert_eq!(stage.started(), ["x"]);
}

#[tokio::test]
async fn an_unfinished_creation_begins_anew() {
    let stage = Stage::new(vec![Turn::Say("bye")]);
    fs::create_dir_all(stage.dir().join("events")).unwrap();
    fs::write(stage.dir().join(".creating"), "").unwrap();
    fs::write(stage.dir().join("events/event-00000-0b0c7a1e-0000-4000-8000-000000000001.json"), "{}").unwrap();
    let gone = Conversation::load(Arc::clone(&stage.env), &stage.dir()).await;
    assert!(matches!(gone, Err(crate::LoadError::Missing)), "it does not exist yet");
    let request = NewConversation { initial_message: Some(SendMessage::text("go")), ..stage.request() };
    let conversation = stage.create(request).await;
    status(&conversation, ExecutionStatus::Finished).await;
    assert_eq!(story(&conversation), ["system", "user: go", "running", "agent: bye", "finished"]);
}

#[tokio::test]
async fn a_creation_in_progress_on_another_server_is_left_alone() {
    let stage = Stage::new(vec![]);
    let (mark, begun) = (stage.dir().join(".creating"), stage.dir().join("events"));
    fs::create_dir_all(&begun).unwrap();
    fs::write(mark, "").unwrap();
    let other = openhands_store::LeaseOwner::new("other", "elsewhere", 1);
    openhands_store::Lease::acquire(&stage.dir(), &other, std::time::Duration::from_secs(60)).unwrap();
    let refused = Conversation::create(Arc::clone(&stage.env), &stage.dir(), stage.request()).await;
    assert!(matches!(refused, Err(crate::CreateError::Lease(_))));
    assert!(begun.exists(), "what the other server has written stays");
}

#[tokio::test]
async fn an_acknowledged_initial_message_survives_with_its_id() {
    let stage = Stage::new(vec![Turn::Held(Box::new(Turn::Say("never"))), Turn::Say("bye")]);
    let request = NewConversation { initial_message: Some(SendMessage::text("go")), ..stage.request() };
    let conversation = stage.create(request).await;
    stage.asked(1).await;
    crash(conversation).await;
    let again = stage.load().await;
    assert_eq!(story(&again), ["system", "user: go", "running", "error"]);
    assert_eq!(*events(&again)[1].id(), EventId::derived(stage.id, "initial-message"));
    again.run().await.unwrap();
    status(&again, ExecutionStatus::Finished).await;
}

/// A log as a machine may leave it: cut after any event, with documents from an earlier moment.
#[tokio::test]
async fn a_log_cut_anywhere_is_taken_up_and_goes_on() {
    let stage = Stage::new(vec![
        Turn::Calls(vec![("echo", json!({"text": "a"})), ("nope", json!({})), ("echo", json!({"text": "b"}))]),
        call("fail", json!({"text": "c"})),
        Turn::Muse("hm"),
        finish("done"),
    ]);
    let conversation = stage.create(stage.request()).await;
    turn(&conversation, "go").await;
    conversation.send_message(SendMessage::text("more")).await.unwrap();
    let whole = events(&conversation);
    crash(conversation).await;

    let names = |stage: &Stage| {
        let mut names: Vec<_> = fs::read_dir(stage.dir().join("events"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .collect();
        names.sort();
        names
    };
    let files: Vec<_> = names(&stage).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    assert_eq!(files.len(), whole.len());
    let base = fs::read(stage.dir().join("base_state.json")).unwrap();
    let meta = fs::read(stage.dir().join("meta.json")).unwrap();
    for cut in 0..=files.len() {
        let next = Stage::new(vec![Turn::Say("bye")]);
        let next = Stage { id: stage.id, ..next };
        fs::create_dir_all(next.dir().join("events")).unwrap();
        fs::write(next.dir().join("base_state.json"), &base).unwrap();
        fs::write(next.dir().join("meta.json"), &meta).unwrap();
        for (path, bytes) in files.iter().take(cut) {
            fs::write(next.dir().join("events").join(path.file_name().unwrap()), bytes).unwrap();
        }
        let again = next.load().await;
        assert_ne!(again.status(), ExecutionStatus::Running, "cut at {cut}");
        assert_eq!(events(&again)[..cut], whole[..cut], "cut at {cut}");
        let answered: Vec<&str> = results(&whole[..cut]);
        let after = events(&again);
        let mut now = results(&after);
        now.sort_unstable();
        now.dedup();
        assert_eq!(now.len(), results(&after).len(), "cut at {cut}: no call is answered twice");
        assert!(answered.iter().all(|call| now.contains(call)));
        turn(&again, "go on").await;
        assert_eq!(next.started(), [] as [&str; 0], "cut at {cut}: nothing is executed again");
        assert_eq!(again.agent_final_response(), "bye", "cut at {cut}");
        again.close().await;
    }
}

fn results(events: &[Event]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Observation(result) => Some(result.tool_call_id.as_str()),
            Event::AgentError(error) => Some(error.tool_call_id.as_str()),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn another_server_cannot_take_a_conversation_that_is_owned() {
    let stage = Stage::new(vec![]);
    let conversation = stage.create(stage.request()).await;
    let other = openhands_store::LeaseOwner::new("other", "elsewhere", 1);
    let env = Arc::new(crate::Environment {
        llm: Arc::clone(&stage.env.llm),
        telemetry: None,
        tools: Arc::clone(&stage.env.tools),
        cipher: stage.env.cipher.clone(),
        variables: Default::default(),
        lease: Some(crate::LeaseSettings { owner: other, ttl: std::time::Duration::from_secs(60) }),
        lookups: None,
        profiles: None,
        own_keys: Vec::new(),
        run_permits: Arc::clone(&stage.env.run_permits),
    });
    let refused = Conversation::load(Arc::clone(&env), &stage.dir()).await;
    assert!(matches!(refused, Err(crate::LoadError::Lease(_))));
    conversation.close().await;
    let taken = Conversation::load(env, &stage.dir()).await.unwrap();
    assert_eq!(taken.status(), ExecutionStatus::Idle);
}
