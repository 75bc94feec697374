//! The index of conversations: sleeping, waking, adopting, closing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use openhands_agent_server::{
    service::{Service, ServiceError, SortOrder},
    toolbox::{StockTools, models},
};
use openhands_conversation::{Environment, LeaseSettings, NewConversation, SendMessage};
use openhands_protocol::{AgentSpec, ConversationId};
use openhands_store::LeaseOwner;
use serde_json::json;
use tokio::sync::Semaphore;

async fn open(root: &Path, idle: Option<Duration>, owner: Option<&str>) -> Service {
    let lease = owner.map(|owner| LeaseSettings {
        owner: LeaseOwner::new(owner, format!("host-of-{owner}"), 1),
        ttl: Duration::from_secs(45),
    });
    let environment = Environment {
        llm: models(&BTreeMap::new()),
        telemetry: None,
        tools: Arc::new(StockTools::default()),
        cipher: None,
        variables: BTreeMap::new(),
        lease,
        lookups: None,
        profiles: None,
        own_keys: Vec::new(),
        run_permits: Arc::new(Semaphore::new(4)),
    };
    Service::open(Arc::new(environment), root.to_owned(), idle).await
}

fn conversation(root: &Path) -> NewConversation {
    let agent =
        json!({"llm": {"model": "openai/nobody", "base_url": "http://127.0.0.1:9/v1", "api_key": "k"}, "tools": []});
    let workspace = json!({"kind": "LocalWorkspace", "working_dir": root.join("work")});
    let mut new = NewConversation::new(ConversationId::random(), AgentSpec::from_json(agent).unwrap(), workspace);
    new.autotitle = false;
    new
}

async fn wait_until(condition: impl Fn() -> bool) {
    let reached = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reached).await.unwrap();
}

#[tokio::test]
async fn an_idle_conversation_leaves_memory_and_comes_back() {
    let root = tempfile::tempdir().unwrap();
    let service = open(root.path(), Some(Duration::from_millis(30)), None).await;
    let new = conversation(root.path());
    let id = new.id;
    let (live, is_new) = service.create(new).await.unwrap();
    assert!(is_new);
    live.send_message(SendMessage::text("hello")).await.unwrap();
    let len = live.events().len();
    // Held: it stays, however long nothing happens.
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!service.is_asleep(id));
    drop(live);
    wait_until(|| service.is_asleep(id)).await;
    assert_eq!(service.count(None), 1);
    let back = service.get(id).await.unwrap();
    assert_eq!(back.events().len(), len);
}

#[tokio::test]
async fn creating_twice_at_once_makes_one() {
    let root = tempfile::tempdir().unwrap();
    let service = open(root.path(), None, None).await;
    let new = conversation(root.path());
    let all = futures::future::join_all((0..8).map(|_| service.create(new.clone()))).await;
    let made: Vec<_> = all.into_iter().map(|result| result.unwrap()).collect();
    assert_eq!(made.iter().filter(|(_, is_new)| *is_new).count(), 1);
    assert!(made.iter().all(|(live, _)| live.id() == new.id));
    // Deleting and creating at once ends in one of the two states, never in a broken one.
    let (deleted, created) = tokio::join!(service.delete(new.id), service.create(new.clone()));
    deleted.unwrap();
    created.unwrap();
    match service.get(new.id).await {
        Ok(live) => assert_eq!(live.id(), new.id),
        Err(error) => assert!(matches!(error, ServiceError::Unknown), "{error}"),
    }
}

#[tokio::test]
async fn a_later_server_finds_what_an_earlier_one_stored() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path(), None, Some("first")).await;
    let new = conversation(root.path());
    let id = new.id;
    first.create(new).await.unwrap();
    // Another server at the same time knows of it, but may not have it.
    let second = open(root.path(), None, Some("second")).await;
    assert_eq!(second.count(None), 1);
    assert!(matches!(second.get(id).await, Err(ServiceError::Load(_))));
    assert!(second.search(None, 10, None, SortOrder::CreatedAt).await.items.is_empty());
    first.close_all().await;
    assert!(matches!(first.get(id).await, Err(ServiceError::Closing)));
    assert_eq!(second.get(id).await.unwrap().id(), id);
    second.close_all().await;
}

#[tokio::test]
async fn what_appears_on_disk_is_adopted_and_pages_are_complete() {
    let root = tempfile::tempdir().unwrap();
    let early = open(root.path(), None, None).await;
    let late = open(root.path(), None, None).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(early.create(conversation(root.path())).await.unwrap().0.id());
    }
    early.close_all().await;
    assert_eq!(late.count(None), 0);
    for id in &ids {
        assert_eq!(late.get(*id).await.unwrap().id(), *id);
    }
    let mut seen = Vec::new();
    let mut from = None;
    loop {
        let page = late.search(from, 2, None, SortOrder::CreatedAt).await;
        seen.extend(page.items.iter().map(|live| live.id()));
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, ids);
    let newest = late.search(None, 1, None, SortOrder::CreatedAtDesc).await;
    assert_eq!(newest.items[0].id(), ids[4]);
}

#[tokio::test]
async fn what_cannot_be_read_can_be_deleted() {
    type Damage = (&'static str, fn(&Path));
    let damages: [Damage; 6] = [
        ("meta.json is no JSON", |dir| std::fs::write(dir.join("meta.json"), "{torn").unwrap()),
        ("meta.json is gone", |dir| std::fs::remove_file(dir.join("meta.json")).unwrap()),
        ("base_state.json is no JSON", |dir| std::fs::write(dir.join("base_state.json"), "{torn").unwrap()),
        ("base_state.json is another", |dir| std::fs::write(dir.join("base_state.json"), "{}").unwrap()),
        ("the log is a file", |dir| {
            std::fs::remove_dir_all(dir.join("events")).unwrap();
            std::fs::write(dir.join("events"), "").unwrap();
        }),
        ("nothing is left", |dir| {
            std::fs::remove_dir_all(dir).unwrap();
            std::fs::create_dir(dir).unwrap();
        }),
    ];
    for (what, damage) in damages {
        for listed in [true, false] {
            let root = tempfile::tempdir().unwrap();
            let first = open(root.path(), None, None).await;
            let new = conversation(root.path());
            let (id, dir) = (new.id, root.path().join(new.id.hex()));
            first.create(new).await.unwrap();
            first.close_all().await;
            // Known before the damage, or found damaged by a server that starts.
            let early = open(root.path(), None, None).await;
            damage(&dir);
            let service = if listed { early } else { open(root.path(), None, None).await };
            assert!(service.get(id).await.is_err(), "{what}");
            service.delete(id).await.unwrap();
            assert!(!dir.exists(), "{what}");
            assert!(matches!(service.delete(id).await, Err(ServiceError::Unknown)), "{what}");
        }
    }
}
