//! Deferred initialisation over real sockets (F1-INIT).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod serve;

use openhands_protocol::init::{InitStatus, key_digest, proof_holds};
use serde_json::{Value, json};
use serve::{Answer, Server, answer, serve as start};

async fn init(server: &Server, key: Option<&str>, body: Value) -> Answer {
    let mut request = server.request("POST", "/api/init").json(&body);
    if let Some(key) = key {
        request = request.header("X-Init-API-Key", key);
    }
    answer(request).await
}

async fn with_key(server: &Server, path: &str, key: &str) -> u16 {
    answer(server.request("GET", path).header("X-Session-API-Key", key)).await.status
}

fn ok(body: Value) -> Answer {
    Answer { status: 200, body }
}

#[tokio::test]
async fn a_server_that_does_not_defer_has_no_init() {
    let server = start(&[]).await;
    assert_eq!(server.get("/api/init").await.status, 404);
    assert_eq!(server.post("/api/init", json!({})).await.status, 404);
    assert_eq!(server.get("/api/conversations/count").await, ok(json!(0)));
}

#[tokio::test]
async fn dormant_then_ready_with_new_keys() {
    let server = start(&[("OH_DEFERRED_INIT", "1"), ("OH_SECRET_KEY", "boot"), ("OH_SESSION_API_KEYS_0", "old")]).await;
    // Dormant: what needs no user answers, all else waits, whatever key is sent (1.58.2: the gate comes first).
    assert_eq!(server.get("/ready").await, ok(json!({"status": "ready"})));
    assert_eq!(server.get("/health").await, ok(json!({"status": "ok"})));
    assert_eq!(server.get("/api/init").await, ok(json!({"state": "dormant", "error": null})));
    let waiting = server.get("/api/conversations/search").await;
    assert_eq!((waiting.status, &waiting.body["detail"]), (503, &json!("Internal Server Error")));
    assert!(waiting.body["exception"].as_str().unwrap().starts_with("503: "), "{waiting:?}");
    for path in ["/api/conversations/count", "/v1/models", "/api/tools/"] {
        assert_eq!(with_key(&server, path, "old").await, 503, "{path}");
    }
    // The key, then the body, then the state.
    for key in [None, Some("wrong"), Some("")] {
        assert_eq!(init(&server, key, json!({"nonsense": 1})).await.status, 401);
    }
    let refused = init(&server, Some("boot"), json!({"nonsense": 1})).await;
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.body["detail"][0],
        json!({"type": "extra_forbidden", "loc": ["body", "nonsense"], "msg": "Extra inputs are not permitted", "input": 1})
    );
    for body in [
        json!({"session_api_keys": [""]}),
        json!({"max_concurrent_runs": 0}),
        json!({"webhooks": [{"base_url": "http://x"}]}),
        json!({"web_url": "nowhere"}),
        json!({"env": {"A=B": "c"}}),
        json!([]),
    ] {
        assert_eq!(init(&server, Some("boot"), body.clone()).await.status, 422, "{body}");
    }
    assert_eq!(server.get("/api/init").await.body["state"], "dormant");

    let conversations = server.folder.path().join("theirs");
    let body = json!({
        "session_api_keys": ["k1", "k2"], "secret_key": "new", "conversations_path": conversations, "web_url": "http://h/root/",
    });
    assert_eq!(init(&server, Some("boot"), body.clone()).await, ok(json!({"state": "ready", "error": null})));
    assert_eq!(server.get("/api/init").await, ok(json!({"state": "ready", "error": null})));
    // The init body replaced the secret key: the old one is no key any more, the new one comes too late.
    assert_eq!(init(&server, Some("boot"), body.clone()).await.status, 401);
    assert_eq!(init(&server, Some("new"), body).await.status, 400);
    assert_eq!(
        server.get("/api/conversations/count").await,
        Answer { status: 401, body: json!({"detail": "Unauthorized"}) }
    );
    for (key, status) in [("k1", 200), ("k2", 200), ("old", 401), ("", 401)] {
        assert_eq!(with_key(&server, "/api/conversations/count", key).await, status, "{key}");
    }
    assert_eq!(server.get("/server_info").await.status, 200);
    assert_eq!(server.get("/v1/models").await.status, 401);
    let models = server.request("GET", "/v1/models").bearer_auth("k1");
    assert_eq!(answer(models).await, ok(json!({"object": "list", "data": []})));
    assert!(conversations.is_dir());
    // The public path is also a root path now.
    assert_eq!(with_key(&server, "/root/api/conversations/count", "k1").await, 200);
}

#[tokio::test]
async fn one_of_many_concurrent_requests_wins() {
    let server = start(&[("OH_DEFERRED_INIT", "true")]).await;
    let all = futures::future::join_all((0..8).map(|_| init(&server, None, json!({"session_api_keys": ["k"]})))).await;
    let mut statuses: Vec<_> = all.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    // No secret key at boot: the first session key became it, so late ones may also find their key gone.
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 400, 401].contains(status)), "{statuses:?}");
}

#[tokio::test]
async fn a_failure_returns_to_dormant_and_can_be_repeated() {
    let server = start(&[("OH_DEFERRED_INIT", "1"), ("OH_SECRET_KEY", "boot")]).await;
    let file = server.folder.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let failed = init(&server, Some("boot"), json!({"conversations_path": file.join("below")})).await;
    assert_eq!((failed.status, &failed.body["detail"]), (500, &json!("Internal Server Error")));
    let status = server.get("/api/init").await.body;
    assert_eq!(status["state"], "dormant");
    assert!(status["error"].as_str().unwrap().contains("OH_CONVERSATIONS_PATH"), "{status}");
    assert_eq!(init(&server, Some("boot"), json!({})).await.status, 200);
    assert_eq!(init(&server, Some("boot"), json!({})).await.status, 400);
    assert_eq!(server.get("/api/conversations/count").await, ok(json!(0)));
}

#[tokio::test]
async fn the_digest_alone_opens_and_the_proof_holds() {
    let digest = key_digest("init-key");
    let server = start(&[("OH_DEFERRED_INIT", "1"), ("OH_INIT_KEY_SHA256", &digest)]).await;
    assert_eq!(init(&server, None, json!({})).await.status, 401, "never open");
    let proven: InitStatus = serde_json::from_value(server.get("/api/init?nonce=abc").await.body).unwrap();
    let pod_uid = std::env::var("OPENHANDS_POD_UID").unwrap_or_default();
    assert!(proof_holds(&digest, &pod_uid, "abc", &proven));
    assert_eq!(server.get("/api/init?nonce=").await.status, 422);
    assert_eq!(server.get(&format!("/api/init?nonce={}", "n".repeat(129))).await.status, 422);
    assert_eq!(init(&server, Some("init-key"), json!({"secret_key": "s"})).await.status, 200);
    assert_eq!(init(&server, Some("init-key"), json!({})).await.status, 400, "the init key stays the init key");
}

#[tokio::test]
async fn a_blank_secret_key_does_not_open_the_door() {
    let server = start(&[("OH_DEFERRED_INIT", "1"), ("OH_SECRET_KEY", " ")]).await;
    assert_eq!(init(&server, None, json!({})).await.status, 401);
}

#[tokio::test]
async fn sockets_are_closed_while_dormant() {
    let server = start(&[("OH_DEFERRED_INIT", "1")]).await;
    for path in
        ["events/00000000-0000-4000-8000-000000000000", "session/00000000-0000-4000-8000-000000000000", "bash-events"]
    {
        let refused =
            tokio_tungstenite::connect_async(format!("ws://{}/sockets/{path}", server.address)).await.unwrap_err();
        match refused {
            tokio_tungstenite::tungstenite::Error::Http(answer) => assert_eq!(answer.status(), 403, "{path}"),
            other => panic!("{path}: {other}"),
        }
    }
}

#[tokio::test]
async fn env_reaches_commands_and_the_servers_keys_do_not() {
    let server = start(&[("OH_DEFERRED_INIT", "1")]).await;
    let body = json!({"env": {"GREETING": "hello"}, "secret_key": "hidden"});
    assert_eq!(init(&server, None, body).await.status, 200);
    let ran =
        server.post("/api/bash/execute_bash_command", json!({"command": "echo $GREETING; env | grep -c ^OH_"})).await;
    assert_eq!(ran.body["stdout"], "hello\n0\n", "{ran:?}");
}
