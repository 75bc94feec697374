//! What a client was shown is there after the server was killed, with the real binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use futures::StreamExt;
use openhands_testkit::{ScriptedModel, Turn};
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async, tungstenite::Message};

const LIMIT: Duration = Duration::from_secs(30);

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn start(folder: &Path) -> (Killed, String) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new(env!("CARGO_BIN_EXE_openhands-agent-server"))
        .args(["--host", "127.0.0.1", "--port", &port.to_string()])
        .current_dir(folder)
        .env("HOME", folder)
        .env("OH_SECRET_KEY", "one for both")
        .env("OH_LEASE_TTL_SECONDS", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = format!("127.0.0.1:{port}");
    let end = Instant::now() + LIMIT;
    while get(&address, "/ready").await.is_none() {
        assert!(Instant::now() < end, "the server is ready");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (Killed(child), address)
}

async fn get(address: &str, path: &str) -> Option<Value> {
    let request = openhands_llm::http_client().unwrap().get(format!("http://{address}{path}")).timeout(LIMIT);
    request.send().await.ok()?.json().await.ok()
}

#[tokio::test]
async fn what_was_seen_is_there_after_a_kill() {
    // Killed after ever more events, so that it strikes between all kinds of them.
    for seen_before in [4, 7, 12, 19, 33] {
        let folder = tempfile::tempdir().unwrap();
        let thoughts = (0..60).map(|number| {
            let call = format!("call_{number}");
            Turn::calls(&[(call.as_str(), "think", json!({"thought": format!("thought {number}")}))])
        });
        let model = ScriptedModel::start(thoughts).await;
        let (server, address) = start(folder.path()).await;
        let body = json!({
            "agent": {
                "kind": "Agent", "tools": [], "include_default_tools": ["FinishTool", "ThinkTool"],
                "llm": {"model": "openai/scripted", "base_url": model.base_url(), "api_key": "test-key", "stream": true},
            },
            "workspace": {"kind": "LocalWorkspace", "working_dir": folder.path().join("work")},
            "autotitle": false, "stuck_detection": false,
        });
        let client = openhands_llm::http_client().unwrap();
        let post = |path: String, body: Value| {
            client.post(format!("http://{address}{path}")).timeout(LIMIT).json(&body).send()
        };
        let created: Value = post("/api/conversations".to_owned(), body).await.unwrap().json().await.unwrap();
        let id = created["id"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        let mut socket = connect_async(format!("ws://{address}/sockets/session/{id}?after_seq=-1")).await.unwrap().0;
        let message = json!({"role": "user", "content": [{"type": "text", "text": "think"}], "run": true});
        let sent = post(format!("/api/conversations/{id}/events"), message).await.unwrap();
        assert_eq!(sent.status().as_u16(), 200);

        let mut seen = BTreeMap::new();
        let mut server = Some(server);
        while let Ok(Some(Ok(message))) = tokio::time::timeout(LIMIT, socket.next()).await {
            let Message::Text(text) = message else { continue };
            let frame: Value = serde_json::from_str(&text).unwrap();
            if frame["type"] == "durable" {
                seen.insert(frame["seq"].as_u64().unwrap(), frame["event"].clone());
            }
            if seen.len() >= seen_before {
                // Frames that are on their way still count as seen.
                drop(server.take());
            }
        }
        assert!(server.is_none(), "{} events before the socket ended", seen.len());

        let (_again, address) = start(folder.path()).await;
        let mut stored = Vec::new();
        let mut page = String::new();
        loop {
            let path = format!("/api/conversations/{id}/events/search?limit=100{page}");
            let found = get(&address, &path).await.expect("the events");
            stored.extend(found["items"].as_array().unwrap().iter().cloned());
            let Some(next) = found["next_page_id"].as_str() else { break };
            page = format!("&page_id={next}");
        }
        for (seq, event) in seen {
            let index = usize::try_from(seq).unwrap();
            assert_eq!(stored.get(index), Some(&event), "event {seq} of {}", stored.len());
        }
    }
}
