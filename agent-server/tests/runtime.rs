//! The routes that are bound to one conversation, and a conversation as a file.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod serve;

use serde_json::{Value, json};
use serve::{Answer, Server, answer, serve as start, start_body};

async fn conversation(server: &Server) -> (String, String) {
    let mut body = start_body(server);
    body["autotitle"] = json!(false);
    body["secrets"] = json!({"TOKEN": "geheim-4711"});
    let created = server.post("/api/conversations", body).await.body;
    let root = created["workspace"]["working_dir"].as_str().unwrap().to_owned();
    (created["id"].as_str().unwrap().to_owned(), root)
}

#[tokio::test]
async fn commands_run_in_the_workspace_and_have_events_of_their_own() {
    let server = start(&[]).await;
    let (id, root) = conversation(&server).await;
    let base = format!("/api/conversations/{id}/bash");
    let command = json!({"command": "pwd; echo $OPENHANDS_CONVERSATION_ID"});
    let ran = server.post(&format!("{base}/execute_bash_command"), command).await;
    assert_eq!(ran.status, 200, "{ran:?}");
    assert_eq!(ran.body["stdout"], format!("{root}\n{}\n", id.replace('-', "")));
    let found = server.get(&format!("{base}/bash_events/search")).await.body;
    let events = found["items"].as_array().unwrap();
    assert_eq!(events.len(), 2);
    let one = server.get(&format!("{base}/bash_events/{}", events[0]["id"].as_str().unwrap())).await;
    assert_eq!(one.body["command"], "pwd; echo $OPENHANDS_CONVERSATION_ID");
    let elsewhere = server.get("/api/bash/bash_events/search").await.body;
    assert_eq!(elsewhere["items"], json!([]), "the server's own commands are others");

    let started = server.post(&format!("{base}/start_bash_command"), json!({"command": "sleep 300"})).await.body;
    let stop = format!("{base}/bash_commands/{}/stop", started["id"].as_str().unwrap());
    assert_eq!(server.post(&stop, json!(null)).await.body, json!({"success": true}));
    let started = server.post(&format!("{base}/start_bash_command"), json!({"command": "sleep 300"})).await.status;
    assert_eq!(started, 200);
    let deleted = answer(server.request("DELETE", &format!("/api/conversations/{id}"))).await;
    assert_eq!(deleted.status, 200);
    let dir = server.folder.path().join("conversations").join(id.replace('-', ""));
    assert!(!dir.exists(), "nothing is written after the deletion");
    assert_eq!(
        server.get(&format!("{base}/bash_events/search")).await,
        Answer { status: 404, body: json!({"detail": "Conversation not found"}) }
    );
}

#[tokio::test]
async fn files_and_git_stay_inside_the_workspace() {
    let server = start(&[]).await;
    let (id, root) = conversation(&server).await;
    let base = format!("/api/conversations/{id}");
    std::fs::write(format!("{root}/a.txt"), "text").unwrap();
    std::os::unix::fs::symlink("/etc", format!("{root}/out")).unwrap();
    let file = server.request("GET", &format!("{base}/file/download?path={root}/a.txt")).send().await.unwrap();
    assert_eq!((file.status().as_u16(), file.text().await.unwrap().as_str()), (200, "text"));
    let changes = server.get(&format!("{base}/git/changes?path={root}")).await;
    assert_eq!(changes.status, 200, "{changes:?}");
    assert!(changes.body.as_array().unwrap().iter().any(|change| change["path"] == "a.txt"), "{changes:?}");
    let made = answer(server.request("POST", &format!("{base}/file/create_directory?path={root}/new"))).await;
    assert_eq!(made.body, json!({"success": true}));

    let refused = Answer { status: 422, body: json!({"detail": "path must be inside the conversation workspace"}) };
    for path in ["/etc/hostname", "a.txt", &format!("{root}/../other"), &format!("{root}/out/hostname")] {
        assert_eq!(server.get(&format!("{base}/file/download?path={path}")).await, refused, "{path}");
    }
    assert_eq!(server.get(&format!("{base}/git/diff?path=/etc/hostname")).await, refused);
}

#[tokio::test]
async fn a_trajectory_has_everything_but_secrets() {
    let server = start(&[("OH_SECRET_KEY", "the servers own key")]).await;
    let (id, _) = conversation(&server).await;
    let hex = id.replace('-', "");
    let message = json!({"role": "user", "content": [{"type": "text", "text": "keep me"}]});
    server.post(&format!("/api/conversations/{id}/events"), message).await;
    for path in [
        format!("/api/file/download-trajectory/{id}"),
        format!("/api/conversations/{id}/file/download-trajectory/{id}"),
    ] {
        let answer = server.request("GET", &path).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200, "{path}");
        let name = answer.headers()["content-disposition"].to_str().unwrap().to_owned();
        assert!(name.contains(&format!("{hex}.zip")), "{name}");
        let bytes = answer.bytes().await.unwrap();
        let file = server.folder.path().join("got.zip");
        std::fs::write(&file, &bytes).unwrap();
        let script = "import sys, json, zipfile; z = zipfile.ZipFile(sys.argv[1]); \
                      print(json.dumps({n: z.read(n).decode() for n in z.namelist()}))";
        // Only another implementation can say that it is a zip file.
        let Ok(shown) = std::process::Command::new("python3").args(["-c", script]).arg(&file).output() else { return };
        let members: Value = serde_json::from_slice(&shown.stdout).unwrap();
        let members = members.as_object().unwrap();
        for wanted in ["meta.json", "base_state.json"] {
            assert!(members.contains_key(&format!("{hex}/{wanted}")), "{wanted}");
        }
        let all: String = members.values().filter_map(Value::as_str).collect();
        assert!(all.contains("keep me"));
        assert!(!all.contains("geheim-4711") && !all.contains("sk-test") && !all.contains("gAAAAA"));
        assert!(members.keys().all(|name| !name.contains("lease") && !name.contains("/.")), "{:?}", members.keys());
    }
    let other = "00000000-0000-4000-8000-000000000000";
    let at = |id: &str, of: &str| format!("/api/conversations/{id}/file/download-trajectory/{of}");
    assert_eq!(server.get(&at(&id, other)).await.status, 422);
    assert_eq!(server.get(&format!("/api/file/download-trajectory/{other}")).await.status, 404);
}
