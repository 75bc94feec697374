//! What is on disk, and what comes back from it.

use std::{fs, sync::Arc};

use openhands_protocol::{ExecutionStatus, policy::ConfirmationPolicy};
use openhands_secrets::is_token;
use serde_json::{Value, json};

use super::stage::{Stage, Turn, echo, events, eventually, finish, story, turn};
use crate::{Conversation, CreateError, Environment, LoadError, NewConversation};

fn document(stage: &Stage, name: &str) -> Value {
    serde_json::from_slice(&fs::read(stage.dir().join(name)).unwrap()).unwrap()
}

#[tokio::test]
async fn everything_survives_a_restart() {
    let stage = Stage::new(vec![echo("x"), finish("first"), echo("TOKEN"), finish("second")]);
    let request = NewConversation {
        tags: [("k".to_owned(), "v".to_owned())].into(),
        tool_module_qualnames: json!({"echo": "a.b"}).as_object().unwrap().clone(),
        extra: json!({"observability_tags": ["t"]}).as_object().unwrap().clone(),
        ..stage.request()
    };
    let conversation = stage.create(request).await;
    let secrets = json!({"TOKEN": "kept-secret-9"}).as_object().unwrap().clone();
    conversation.update_secrets(secrets).await.unwrap();
    conversation.set_confirmation_policy(ConfirmationPolicy::AlwaysConfirm {}).await.unwrap();
    conversation.set_confirmation_policy(ConfirmationPolicy::NeverConfirm {}).await.unwrap();
    conversation.update(Some("T".to_owned()), None).await.unwrap();
    turn(&conversation, "live").await;
    let (before, mut info) = (events(&conversation), conversation.info());
    conversation.close().await;

    let base = document(&stage, "base_state.json");
    assert!(is_token(base["agent"]["llm"]["api_key"].as_str().unwrap()));
    assert!(is_token(base["secret_registry"]["secret_sources"]["TOKEN"]["value"].as_str().unwrap()));
    assert_eq!(base["execution_status"], "finished");
    let meta = document(&stage, "meta.json");
    assert_eq!(meta["id"], stage.id.hex());
    assert_eq!(meta["observability_tags"], json!(["t"]));
    assert!(meta.get("agent").is_none());
    for name in ["base_state.json", "meta.json"] {
        let text = fs::read_to_string(stage.dir().join(name)).unwrap();
        assert!(!text.contains("kept-secret-9") && !text.contains("model-key-1"), "{name}");
    }

    let again = stage.load().await;
    assert_eq!(events(&again), before);
    let mut found = again.info();
    info["updated_at"].take();
    found["updated_at"].take();
    assert_eq!(found, info);
    turn(&again, "again").await;
    assert!(story(&again).contains(&"result TOKEN=<secret-hidden>".to_owned()), "the secret survived");
    assert_eq!(stage.requests().last().unwrap().messages.len(), 9, "the model reads all of it");
}

#[tokio::test]
async fn without_a_cipher_secrets_are_masked_and_lost() {
    let stage = Stage::new(vec![]);
    let env = Arc::new(Environment {
        llm: Arc::clone(&stage.env.llm),
        telemetry: None,
        tools: Arc::clone(&stage.env.tools),
        cipher: None,
        variables: Default::default(),
        lease: None,
        lookups: None,
        profiles: None,
        own_keys: Vec::new(),
        run_permits: Arc::clone(&stage.env.run_permits),
    });
    let secrets = json!({"TOKEN": "kept-secret-9"}).as_object().unwrap().clone();
    let request = NewConversation { secrets, ..stage.request() };
    let conversation = Conversation::create(Arc::clone(&env), &stage.dir(), request).await.unwrap();
    conversation.close().await;
    let base = document(&stage, "base_state.json");
    assert_eq!(base["agent"]["llm"]["api_key"], "**********");
    assert_eq!(base["secret_registry"]["secret_sources"]["TOKEN"]["value"], "**********");
    let again = Conversation::load(env, &stage.dir()).await.unwrap();
    assert_eq!(again.info()["secret_registry"]["secret_sources"]["TOKEN"]["value"], Value::Null);
}

#[tokio::test]
async fn sums_and_lists_survive_and_calls_are_folded_in_once() {
    let stage = Stage::new(vec![echo("x"), Turn::Say("bye"), Turn::Say("bye")]);
    let conversation = stage.create(stage.request()).await;
    turn(&conversation, "hi").await;
    let calls = stage.dir().join(".calls.jsonl");
    eventually("the list to be folded in", || !calls.exists()).await;
    let agent = |conversation: &Conversation| conversation.info()["stats"]["usage_to_metrics"]["agent"].clone();
    let before = agent(&conversation);
    assert_eq!(before["token_usages"].as_array().unwrap().len(), 2);
    assert_eq!((before["accumulated_cost"].as_f64(), before["costs"].as_array().unwrap().len()), (Some(1.0), 2));
    assert_eq!(document(&stage, "base_state.json")["stats"]["usage_to_metrics"]["agent"]["costs"], before["costs"]);
    // As a crash between folding and clearing would leave it, with calls since then of a server that gives its answers no ids.
    let record = |id: &str, latency: &Value, usage: &Value| {
        let cost = 0.5;
        json!({"id": id, "usage_id": "agent", "model": "openai/mock", "cost": cost, "at": 1.0, "latency": latency, "usage": usage})
    };
    let mut nameless = before["token_usages"][1].clone();
    nameless["response_id"] = json!("");
    let records = [
        record("a", &before["response_latencies"][1]["latency"], &before["token_usages"][1]),
        record("b", &json!(0.25), &nameless),
        record("c", &json!(0.25), &nameless),
        record("c", &json!(0.25), &nameless),
    ];
    fs::write(&calls, records.map(|record| format!("{record}\n")).concat()).unwrap();
    crash(&conversation).await;
    let after = agent(&stage.load().await);
    assert_eq!((after["accumulated_cost"].as_f64(), after["costs"].as_array().unwrap().len()), (Some(2.0), 4));
    assert_eq!(after["token_usages"].as_array().unwrap()[2..], [nameless.clone(), nameless]);
}

async fn crash(conversation: &Conversation) {
    conversation.shared.task.get().unwrap().abort();
    eventually("the task's end", || conversation.shared.task.get().unwrap().is_finished()).await;
}

#[tokio::test]
async fn conversations_of_the_reference_are_taken_up() {
    let stage = Stage::new(vec![Turn::Say("bye")]);
    let conversation = stage.create(stage.request()).await;
    turn(&conversation, "hi").await;
    conversation.close().await;
    // Members and events that only the reference writes.
    let mut base = document(&stage, "base_state.json");
    base["activated_knowledge_skills"] = json!(["s"]);
    base["agent_state"] = json!({"x": {"y": 1}});
    base["new_member"] = json!(7);
    fs::write(stage.dir().join("base_state.json"), base.to_string()).unwrap();
    let count = fs::read_dir(stage.dir().join("events"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".json"));
    let next = count.count();
    let id = "0b0c7a1e-0000-4000-8000-000000000001";
    let hook = json!({"kind": "HookExecutionEvent", "id": id, "timestamp": "2026-01-02T03:04:05.000000", "source": "hook", "x": 1});
    fs::write(stage.dir().join("events").join(format!("event-{next:05}-{id}.json")), hook.to_string()).unwrap();
    let again = stage.load().await;
    let info = again.info();
    assert_eq!(info["activated_knowledge_skills"], json!(["s"]));
    assert_eq!(info["agent_state"], json!({"x": {"y": 1}}));
    stage.add_turns(vec![Turn::Say("again")]);
    turn(&again, "more").await;
    again.close().await;
    assert_eq!(document(&stage, "base_state.json")["new_member"], 7);
}

#[tokio::test]
async fn a_tool_that_is_gone_keeps_the_history_readable() {
    let stage = Stage::new(vec![Turn::Say("bye")]);
    let conversation = stage.create(stage.request()).await;
    turn(&conversation, "hi").await;
    conversation.close().await;
    let mut base = document(&stage, "base_state.json");
    base["agent"]["tools"] = json!([{"name": "browser", "params": {}}]);
    fs::write(stage.dir().join("base_state.json"), base.to_string()).unwrap();
    let again = stage.load().await;
    assert_eq!(again.agent_final_response(), "bye");
    let message = crate::SendMessage { run: true, ..crate::SendMessage::text("more") };
    again.send_message(message).await.unwrap();
    super::stage::status(&again, ExecutionStatus::Error).await;
    assert_eq!(story(&again).last().unwrap(), "failed: ToolsUnavailable");
}

#[tokio::test]
async fn damaged_and_foreign_directories_are_told_apart() {
    let stage = Stage::new(vec![]);
    let load = async || Conversation::load(Arc::clone(&stage.env), &stage.dir()).await;
    assert!(matches!(load().await, Err(LoadError::Missing)));
    fs::create_dir_all(stage.dir()).unwrap();
    fs::write(stage.dir().join("precious"), "x").unwrap();
    let refused = Conversation::create(Arc::clone(&stage.env), &stage.dir(), stage.request()).await;
    assert!(matches!(refused, Err(CreateError::Exists)), "what is not ours is not removed");
    assert!(stage.dir().join("precious").exists());
    fs::write(stage.dir().join("meta.json"), "{\"id\":").unwrap();
    assert!(matches!(load().await, Err(LoadError::Damaged(_))));
    assert!(!stage.dir().join("owner_lease.json").exists(), "a failed load holds no lease");
}

#[tokio::test]
async fn the_workspace_is_made_a_repository() {
    let stage = Stage::new(vec![]);
    let conversation = stage.create(stage.request()).await;
    assert!(stage.root.path().join("work/.git").is_dir());
    drop(conversation);
}
