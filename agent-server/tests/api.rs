//! Keys, errors, redirects, CORS and limits over real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod serve;

use serde_json::json;
use serve::{Answer, answer, serve as start, start_body};

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

#[tokio::test]
async fn keys_guard_the_api_and_nothing_else() {
    let server = start(&[("OH_SESSION_API_KEYS_0", "a"), ("OH_SESSION_API_KEYS_1", "b")]).await;
    for path in ["/", "/alive", "/health", "/ready", "/server_info", "/docs", "/redoc", "/openapi.json"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    let unauthorized = Answer { status: 401, body: json!({"detail": "Unauthorized"}) };
    for path in ["/api/conversations/count", "/api/tools/", "/v1/models", "/api/conversations/search?limit=0"] {
        assert_eq!(server.get(path).await, unauthorized, "{path}");
    }
    for key in ["a", "b"] {
        let count = server.request("GET", "/api/conversations/count").header("X-Session-API-Key", key);
        assert_eq!(answer(count).await, Answer { status: 200, body: json!(0) });
    }
    assert_eq!(answer(server.request("GET", "/api/conversations/count").bearer_auth("a")).await, unauthorized);
}

#[tokio::test]
async fn errors_have_the_shapes_of_the_reference() {
    let server = start(&[]).await;
    let not_found = Answer { status: 404, body: json!({"detail": "Not Found"}) };
    assert_eq!(server.get("/nowhere").await, not_found);
    assert_eq!(server.get(&format!("/api/conversations/{UNKNOWN}")).await, not_found);
    let events = server.get(&format!("/api/conversations/{UNKNOWN}/events/search")).await;
    assert_eq!(events, Answer { status: 404, body: json!({"detail": format!("Conversation not found: {UNKNOWN}")}) });
    let method = answer(server.request("PUT", "/api/conversations/count")).await;
    assert_eq!(method, Answer { status: 405, body: json!({"detail": "Method Not Allowed"}) });
    let path = server.get("/api/conversations/not-a-uuid").await;
    assert_eq!((path.status, &path.body["detail"][0]["loc"]), (422, &json!(["path", "conversation_id"])));
    assert_eq!(path.body["detail"][0]["type"], "uuid_parsing");
    let limit = server.get("/api/conversations/search?limit=101&sort_order=UP").await;
    assert_eq!(limit.status, 422);
    assert_eq!(
        limit.body["detail"][0],
        json!({
            "type": "less_than_equal", "loc": ["query", "limit"], "msg": "Input should be less than or equal to 100",
            "input": "101", "ctx": {"le": 100},
        })
    );
    assert_eq!(limit.body["detail"][1]["type"], "enum");
    let broken = server.request("POST", "/api/conversations").header("content-type", "application/json").body("{");
    let broken = answer(broken).await;
    assert_eq!((broken.status, &broken.body["detail"][0]["type"]), (422, &json!("json_invalid")));
    let secret = json!({"agent": {"llm": {"model": "m", "api_key": "sk-secret", "timeout": "never"}}, "workspace": {}});
    let refused = server.post("/api/conversations", secret).await;
    assert_eq!(refused.status, 422);
    assert!(!refused.body.to_string().contains("sk-secret"), "{refused:?}");
    let goal = server.post(&format!("/api/conversations/{UNKNOWN}/goal"), json!({})).await;
    assert_eq!(goal.status, 501);
    assert!(goal.body["detail"].as_str().unwrap().starts_with("not supported: POST "), "{goal:?}");
}

#[tokio::test]
async fn a_slash_too_many_or_too_few_redirects() {
    let server = start(&[]).await;
    for (given, target) in [
        ("/api/tools", "/api/tools/"),
        ("/api/conversations/count/?status=idle", "/api/conversations/count?status=idle"),
    ] {
        let redirect = server.request("GET", given).send().await.unwrap();
        assert_eq!(redirect.status(), 307, "{given}");
        assert_eq!(redirect.headers()["location"], target);
    }
    assert_eq!(server.get("/nowhere/").await.status, 404);
}

#[tokio::test]
async fn origins_are_echoed_or_not() {
    let server = start(&[("OH_ALLOW_CORS_ORIGINS_0", "https://app.example")]).await;
    for (path, origin, allowed) in [
        ("/health", "http://localhost:3000", true),
        ("/health", "https://app.example", true),
        ("/health", "https://evil.example", false),
        ("/api/auth/workspace-session", "https://evil.example", true),
        ("/api/auth/workspace-session", "null", false),
    ] {
        for preflight in [false, true] {
            let mut request = server.request(if preflight { "OPTIONS" } else { "GET" }, path).header("origin", origin);
            if preflight {
                request = request
                    .header("access-control-request-method", "POST")
                    .header("access-control-request-headers", "x-a");
            }
            let got = request.send().await.unwrap();
            let echoed =
                got.headers().get("access-control-allow-origin").map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(echoed.as_deref(), allowed.then_some(origin), "{path} {origin} {preflight}");
            assert_eq!(got.headers()["vary"], "Origin");
            if preflight {
                assert_eq!(got.status(), if allowed { 200 } else { 400 });
                assert_eq!(got.headers()["access-control-allow-headers"], "x-a");
            }
        }
    }
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let server = start(&[("OH_DEFERRED_INIT", "1")]).await;
    let body = vec![b' '; 1024 * 1024 + 1];
    let refused = server.request("POST", "/api/init").body(body).send().await.unwrap();
    assert_eq!(refused.status(), 413);
}

#[tokio::test]
async fn a_conversation_is_created_once_found_changed_and_deleted() {
    let server = start(&[]).await;
    let mut body = start_body(&server);
    body["conversation_id"] = json!(UNKNOWN);
    body["tags"] = json!({"k": "v"});
    let created = server.post("/api/conversations", body.clone()).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!((&created.body["id"], &created.body["execution_status"]), (&json!(UNKNOWN), &json!("idle")));
    assert_eq!(created.body["agent"]["llm"]["api_key"], json!(null));
    let again = server.post("/api/conversations", body).await;
    assert_eq!((again.status, &again.body["id"]), (200, &json!(UNKNOWN)));
    let path = format!("/api/conversations/{UNKNOWN}");
    assert_eq!(server.get(&path).await.body["tags"], json!({"k": "v"}));
    let batch = server.get(&format!("/api/conversations?ids={UNKNOWN}&ids=00000000-0000-4000-8000-000000000001")).await;
    assert_eq!(
        batch.body.as_array().unwrap().iter().map(|item| item["id"].clone()).collect::<Vec<_>>(),
        [json!(UNKNOWN), json!(null)]
    );
    let listed = server.get("/api/conversations/search?status=idle").await;
    assert_eq!((&listed.body["items"][0]["id"], &listed.body["next_page_id"]), (&json!(UNKNOWN), &json!(null)));
    assert_eq!(server.get("/api/conversations/count?status=running").await.body, json!(0));
    let success = Answer { status: 200, body: json!({"success": true}) };
    let patch = server.request("PATCH", &path).json(&json!({"title": " New title "}));
    assert_eq!(answer(patch).await, success);
    assert_eq!(server.get(&path).await.body["title"], "New title");
    assert_eq!(answer(server.request("PATCH", &path).json(&json!({"title": " "}))).await.status, 422);
    assert_eq!(server.get(&format!("{path}/agent_final_response")).await.body, json!({"response": ""}));
    let policy =
        server.post(&format!("{path}/confirmation_policy"), json!({"policy": {"kind": "AlwaysConfirm"}})).await;
    assert_eq!(policy, success);
    assert_eq!(server.get(&path).await.body["confirmation_policy"], json!({"kind": "AlwaysConfirm"}));
    assert_eq!(
        server.post(&format!("{path}/confirmation_policy"), json!({"policy": {"kind": "Perhaps"}})).await.status,
        422
    );
    assert_eq!(server.post(&format!("{path}/secrets"), json!({"secrets": {"A": "b"}})).await, success);
    assert_eq!(answer(server.request("DELETE", &path)).await, success);
    assert_eq!(answer(server.request("DELETE", &path)).await.status, 404);
    assert_eq!(server.get(&path).await.status, 404);
    let left: Vec<_> = std::fs::read_dir(server.folder.path().join("conversations")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn events_are_listed_in_pages_and_filtered() {
    let server = start(&[]).await;
    let id = server.post("/api/conversations", start_body(&server)).await.body["id"].as_str().unwrap().to_owned();
    let base = format!("/api/conversations/{id}/events");
    for text in ["first Needle", "second"] {
        let sent = server.post(&base, json!({"role": "user", "content": [{"type": "text", "text": text}]})).await;
        assert_eq!(sent, Answer { status: 200, body: json!({"success": true}) });
    }
    let all = server.get(&format!("{base}/search")).await.body;
    let ids = |page: &serde_json::Value| {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let every = ids(&all);
    assert_eq!(server.get(&format!("{base}/count")).await.body, json!(every.len()));
    // Pages of one, forwards and backwards, give all.
    for (order, expected) in [("TIMESTAMP", every.clone()), ("TIMESTAMP_DESC", every.iter().rev().cloned().collect())] {
        let mut seen = Vec::new();
        let mut page_id = String::new();
        loop {
            let page = server.get(&format!("{base}/search?limit=1&sort_order={order}&page_id={page_id}")).await.body;
            seen.extend(ids(&page));
            match page["next_page_id"].as_str() {
                Some(next) => page_id = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(seen, expected, "{order}");
    }
    let found = server.get(&format!("{base}/search?body=nEEDLE")).await.body;
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    let messages = server.get(&format!("{base}/count?kind=openhands.sdk.event.MessageEvent&source=user")).await.body;
    assert_eq!(messages, json!(2));
    let stamp = all["items"][1]["timestamp"].as_str().unwrap();
    let before = server.get(&format!("{base}/count?timestamp__lt={stamp}")).await.body;
    let from = server.get(&format!("{base}/count?timestamp__gte={stamp}")).await.body;
    assert_eq!(before.as_u64().unwrap() + from.as_u64().unwrap(), every.len() as u64);
    let one = server.get(&format!("{base}/{}", every[0])).await.body;
    assert_eq!(one["id"], json!(every[0]));
    assert_eq!(server.get(&format!("{base}/{UNKNOWN}")).await.status, 404);
    let batch = answer(server.request("GET", &base).json(&json!([every[0], "nope"]))).await.body;
    assert_eq!((&batch[0]["id"], &batch[1]), (&json!(every[0]), &json!(null)));
    assert_eq!(server.get(&format!("{base}/search?limit=0")).await.status, 422);
    assert_eq!(server.get(&format!("{base}/search?timestamp__gte=never")).await.status, 422);
    let assistant = server.post(&base, json!({"role": "assistant", "content": []})).await;
    assert_eq!(assistant.status, 422, "{assistant:?}");
}
