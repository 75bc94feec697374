//! What tools start and leave behind ends with the deletion of its conversation.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod serve;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use openhands_testkit::{ScriptedModel, Turn};
use serde_json::json;
use serve::serve;

async fn within_bounds(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether the process of this id still runs; one that nobody has reaped yet does not.
fn runs(process: &str) -> bool {
    std::fs::read_to_string(Path::new("/proc").join(process).join("stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z')))
}

#[tokio::test]
async fn a_daemon_ends_with_its_conversation() {
    let server = serve(&[]).await;
    let work = server.folder.path().join("work");
    let note = |name: &str| work.join(name);
    let daemon = |name: &str| {
        let command =
            format!("setsid sh -c 'echo $$ > {name}; exec sleep 300' > /dev/null 2>&1 < /dev/null & sleep 0.2");
        Turn::calls(&[("call_1", "terminal", json!({"command": command}))])
    };
    let (mut ids, mut models) = (Vec::new(), Vec::new());
    for name in ["first", "second"] {
        let model = ScriptedModel::start([daemon(name), Turn::text("done")]).await;
        let body = json!({
            "agent": {
                "kind": "Agent", "tools": [{"name": "terminal"}],
                "llm": {"model": "openai/scripted", "base_url": model.base_url(), "api_key": "test-key"},
            },
            "workspace": {"kind": "LocalWorkspace", "working_dir": work.to_str().unwrap()},
            "autotitle": false,
            "initial_message": {"role": "user", "content": [{"type": "text", "text": "start a daemon"}]},
        });
        let created = server.post("/api/conversations", body).await;
        assert_eq!(created.status, 201, "{created:?}");
        models.push(model);
        ids.push(created.body["id"].as_str().unwrap().to_owned());
        within_bounds("the daemon starts", || {
            std::fs::read_to_string(note(name)).is_ok_and(|text| text.ends_with('\n'))
        })
        .await;
    }
    let process = |name: &str| std::fs::read_to_string(note(name)).unwrap().trim().to_owned();
    let (first, second) = (process("first"), process("second"));
    assert!(runs(&first) && runs(&second));
    let delete = |id: &str| server.request("DELETE", &format!("/api/conversations/{id}"));
    assert_eq!(serve::answer(delete(&ids[0])).await.status, 200);
    assert!(!runs(&first), "it ends before the answer");
    assert!(runs(&second), "another conversation's goes on");
    assert_eq!(serve::answer(delete(&ids[1])).await.status, 200);
    assert!(!runs(&second));
}
