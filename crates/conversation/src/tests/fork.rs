//! Copies of conversations.

use openhands_protocol::{ConversationId, Event, EventId, ExecutionStatus};
use serde_json::{Value, json};

use super::stage::{Stage, Turn, call, echo, events, finish, status, story, turn};
use crate::{Conversation, CreateError, Fork, ForkError, SendMessage};

fn dir(stage: &Stage, id: ConversationId) -> std::path::PathBuf {
    stage.root.path().join("conversations").join(id.hex())
}

async fn forked(stage: &Stage, source: &Conversation, fork: Fork) -> Conversation {
    let dir = dir(stage, fork.id);
    source.fork(&stage.env, &dir, fork).await.unwrap();
    Conversation::load(std::sync::Arc::clone(&stage.env), &dir).await.unwrap()
}

fn ids(conversation: &Conversation) -> Vec<EventId> {
    let tree = |event: &Event| !matches!(event, Event::StateUpdate(_));
    events(conversation).iter().filter(|event| tree(event)).map(|event| event.id().clone()).collect()
}

#[tokio::test]
async fn a_copy_has_the_history_and_a_life_of_its_own() {
    let stage = Stage::new(vec![echo("one"), finish("done"), echo("two"), finish("fork done")]);
    let source = stage.create(stage.request()).await;
    source.update_secrets(json!({"TOKEN": "secret-value-1"}).as_object().cloned().unwrap()).await.unwrap();
    turn(&source, "task").await;
    let before = story(&source);
    let fork = Fork {
        title: Some("Copy".to_owned()),
        tags: Some([("team".to_owned(), "red".to_owned())].into()),
        ..Fork::new(ConversationId::random())
    };
    let copy = forked(&stage, &source, fork.clone()).await;
    assert_eq!(copy.status(), ExecutionStatus::Idle);
    assert_eq!(ids(&copy), ids(&source));
    let info = copy.info();
    assert_eq!(
        json!([
            info["id"],
            info["title"],
            info["tags"],
            info["forked_from_conversation_id"],
            info["forked_from_event_id"]
        ]),
        json!([fork.id, "Copy", {"team": "red"}, source.id(), null])
    );
    assert_eq!(info["stats"]["usage_to_metrics"], json!({}), "spending starts from zero");
    assert!(info["secret_registry"].to_string().contains("TOKEN"));

    turn(&copy, "go on").await;
    let read = stage.requests().last().unwrap().messages.clone();
    assert!(read.iter().any(|message| message.joined_text().contains("task")), "the copy remembers");
    assert_eq!(story(&source), before, "the source is untouched");
    assert_eq!(stage.requests().len(), 4, "the key came along");
    copy.close().await;
    let again = Conversation::load(std::sync::Arc::clone(&stage.env), &dir(&stage, fork.id)).await.unwrap();
    assert_eq!(again.status(), ExecutionStatus::Finished);
}

#[tokio::test]
async fn a_copy_may_end_at_an_event_and_keep_what_was_spent() {
    let stage = Stage::new(vec![echo("one"), echo("two"), finish("done"), Turn::Say("other")]);
    let source = stage.create(stage.request()).await;
    turn(&source, "task").await;
    let first = events(&source).into_iter().find(|event| matches!(event, Event::Observation(_))).unwrap();
    let fork =
        Fork { reset_metrics: false, from_event_id: Some(first.id().clone()), ..Fork::new(ConversationId::random()) };
    let copy = forked(&stage, &source, fork).await;
    assert_eq!(ids(&copy).last(), Some(first.id()));
    assert_eq!(copy.info()["leaf_event_id"], json!(first.id()));
    assert_eq!(copy.info()["stats"]["usage_to_metrics"]["agent"]["accumulated_cost"], json!(1.5));
    turn(&copy, "another way").await;
    let read: Vec<String> = stage.requests().last().unwrap().messages.iter().map(|m| m.joined_text()).collect();
    assert!(read.contains(&"one".to_owned()) && !read.contains(&"two".to_owned()), "{read:?}");
}

#[tokio::test]
async fn copies_that_cannot_be_made_leave_nothing() {
    let stage = Stage::new(vec![finish("done")]);
    let source = stage.create(stage.request()).await;
    turn(&source, "task").await;
    let id = ConversationId::random();
    let unknown = Fork { from_event_id: Some(EventId::from("nowhere")), ..Fork::new(id) };
    let refused = source.fork(&stage.env, &dir(&stage, id), unknown).await;
    assert!(matches!(refused, Err(ForkError::UnknownEvent(_))), "{refused:?}");
    let tags = Fork { tags: Some([("Bad Key".to_owned(), String::new())].into()), ..Fork::new(id) };
    let refused = source.fork(&stage.env, &dir(&stage, id), tags).await;
    assert!(matches!(refused, Err(ForkError::Invalid { ref member, .. }) if member == "tags.Bad Key"), "{refused:?}");
    assert!(!dir(&stage, id).exists());
    let refused = source.fork(&stage.env, &stage.dir(), Fork::new(source.id())).await;
    assert!(matches!(refused, Err(ForkError::Create(CreateError::Exists))), "{refused:?}");
    assert_eq!(source.status(), ExecutionStatus::Finished);
}

#[tokio::test]
async fn what_a_copy_of_a_running_conversation_misses_is_told_to_its_model() {
    let stage = Stage::new(vec![call("hold", json!({"text": "x"})), finish("copy done")]);
    let source = stage.create(stage.request()).await;
    source.send_message(SendMessage { run: true, ..SendMessage::text("task") }).await.unwrap();
    stage.acting(1).await;
    let copy = forked(&stage, &source, Fork::new(ConversationId::random())).await;
    assert_eq!(copy.status(), ExecutionStatus::Idle);
    turn(&copy, "go on").await;
    assert_eq!(stage.started(), ["x"], "the action is not executed twice");
    let story = story(&copy);
    assert!(story.contains(&"error hold".to_owned()), "{story:?}");
    stage.release("x");
    status(&source, ExecutionStatus::Finished).await;
    assert_eq!(copy.info()["agent"]["llm"]["api_key"], Value::Null);
}

#[tokio::test]
async fn what_is_being_deleted_is_not_copied() {
    let stage = Stage::new(vec![finish("done")]);
    let source = stage.create(stage.request()).await;
    turn(&source, "task").await;
    source.delete().await;
    let id = ConversationId::random();
    let dir = stage.root.path().join(id.hex());
    let refused = source.fork(&stage.env, &dir, Fork::new(id)).await;
    assert!(matches!(refused, Err(ForkError::Closed)), "{refused:?}");
    assert!(!dir.exists());
}
