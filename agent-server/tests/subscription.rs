//! Signing in with a plan over REST, and a conversation whose model the plan pays for, against a vendor that is as strict as the
//! public flow.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod serve;

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use openhands_testkit::{PlanService, Turn};
use serde_json::{Value, json};
use serve::{Answer, Server, serve as start};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};

const LIMIT: Duration = Duration::from_secs(30);
const ROOT: &str = "/api/llm/subscription/openai";

async fn server(service: &PlanService) -> Server {
    start(&[
        ("OH_SUBSCRIPTION_ISSUER_URL", &service.issuer_url()),
        ("OH_SUBSCRIPTION_BACKEND_URL", &service.backend_url()),
    ])
    .await
}

async fn post(server: &Server, path: &str) -> Answer {
    server.post(&format!("{ROOT}/{path}"), json!({})).await
}

async fn poll(server: &Server, code: &Value) -> Answer {
    server.post(&format!("{ROOT}/device/poll"), json!({"device_code": code})).await
}

async fn status(server: &Server) -> Value {
    let answer = server.get(&format!("{ROOT}/status")).await;
    assert_eq!(answer.status, 200);
    answer.body
}

fn signed_out() -> Value {
    json!({"vendor": "openai", "connected": false, "account_email": null, "expires_at": null})
}

async fn sign_in(server: &Server, service: &PlanService) {
    let started = post(server, "device/start").await;
    assert_eq!(started.status, 200, "{started:?}");
    service.enter_code();
    let done = poll(server, &started.body["device_code"]).await;
    assert_eq!((done.status, &done.body["connected"]), (200, &json!(true)), "{done:?}");
}

async fn converse(server: &Server, llm: Value) -> (String, Value) {
    let directory = server.folder.path().join("work");
    let body = json!({
        "agent": {"kind": "Agent", "llm": llm, "tools": [{"name": "terminal"}]},
        "workspace": {"kind": "LocalWorkspace", "working_dir": directory.to_str().unwrap()}, "autotitle": false,
        "initial_message": {"role": "user", "content": [{"type": "text", "text": "go"}], "run": true},
    });
    let created = server.post("/api/conversations", body).await;
    assert_eq!(created.status, 201, "{created:?}");
    let conversation = format!("/api/conversations/{}", created.body["id"].as_str().unwrap());
    (conversation.clone(), ended(server, &conversation).await)
}

async fn ended(server: &Server, conversation: &str) -> Value {
    let began = Instant::now();
    loop {
        let info = server.get(conversation).await.body;
        if info["execution_status"] != "running" && info["execution_status"] != "idle" {
            return info;
        }
        assert!(began.elapsed() < LIMIT, "the run does not end: {info}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn llm() -> Value {
    json!({"model": "openai/gpt-5.2-codex", "auth_type": "subscription", "subscription_vendor": "openai", "num_retries": 1})
}

async fn events(server: &Server, conversation: &str) -> String {
    server.get(&format!("{conversation}/events/search?limit=100")).await.body.to_string()
}

#[tokio::test]
async fn from_a_code_to_a_conversation_that_finishes() {
    let service = PlanService::start([
        Turn::calls(&[("t", "terminal", json!({"command": "echo from the plan"}))]),
        Turn::calls(&[("f", "finish", json!({"message": "done"}))]),
    ])
    .await;
    let server = server(&service).await;
    let models = server.get(&format!("{ROOT}/models")).await.body;
    assert_eq!(models["vendor"], "openai");
    assert!(models["models"].as_array().unwrap().contains(&json!("gpt-5.2-codex")));
    assert_eq!(status(&server).await, signed_out());

    let started = post(&server, "device/start").await.body;
    assert_eq!(started["verification_uri"], format!("{}/codex/device", service.issuer_url()));
    assert_eq!((&started["verification_uri_complete"], &started["interval_seconds"]), (&Value::Null, &json!(1)));
    assert!(started["user_code"].as_str().unwrap().starts_with("CODE"));
    let remaining = started["expires_at"].as_i64().unwrap() - jiff::Timestamp::now().as_millisecond();
    assert!((890_000..=900_000).contains(&remaining), "{remaining}");
    let pending = poll(&server, &started["device_code"]).await;
    assert_eq!((pending.status, pending.body), (200, signed_out()));
    service.enter_code();
    let began = Instant::now();
    let done = loop {
        let done = poll(&server, &started["device_code"]).await.body;
        if done["connected"] == true {
            break done;
        }
        assert!(began.elapsed() < LIMIT);
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(done["account_email"], service.account().email);
    assert_eq!(status(&server).await, done);

    let (conversation, info) = converse(&server, llm()).await;
    assert_eq!(info["execution_status"], "finished", "{}", events(&server, &conversation).await);
    assert!(events(&server, &conversation).await.contains("from the plan"));
    let [first, second] = &service.calls()[..] else { panic!("two calls") };
    assert_eq!(first.path, "/backend/codex/responses");
    assert_eq!(first.body["model"], "gpt-5.2-codex");
    assert_eq!(first.headers["chatgpt-account-id"].to_str().unwrap(), service.account().id);
    assert!(second.body["input"].to_string().contains("from the plan"));
}

#[tokio::test]
async fn no_answer_and_no_stored_conversation_holds_a_token() {
    let service = PlanService::start([Turn::calls(&[("f", "finish", json!({"message": "done"}))])]).await;
    let server = server(&service).await;
    sign_in(&server, &service).await;
    let (conversation, info) = converse(&server, llm()).await;
    assert_eq!(info["execution_status"], "finished");
    let tokens = stored(&server);
    let mut shown = vec![info.to_string(), events(&server, &conversation).await, status(&server).await.to_string()];
    for entry in walk(&server.folder.path().join("conversations")) {
        shown.push(String::from_utf8_lossy(&std::fs::read(entry).unwrap()).into_owned());
    }
    assert!(shown.len() > 4);
    for text in shown {
        assert!(!tokens.iter().any(|token| text.contains(token.as_str())), "{text}");
    }
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => files.extend(walk(&path)),
            path => files.push(path),
        }
    }
    files
}

#[tokio::test]
async fn tokens_are_renewed_in_a_conversation_and_a_sign_out_ends_it() {
    let finish = || Turn::calls(&[("f", "finish", json!({"message": "done"}))]);
    let service = PlanService::start([finish(), finish()]).await;
    let server = server(&service).await;
    service.sell_for(30);
    sign_in(&server, &service).await;
    service.sell_for(3600);
    let (conversation, info) = converse(&server, llm()).await;
    assert_eq!((&info["execution_status"], service.renewed()), (&json!("finished"), 1));
    service.revoke_access();
    let again = json!({"role": "user", "content": [{"type": "text", "text": "more"}], "run": true});
    server.post(&format!("{conversation}/events"), again.clone()).await;
    let began = Instant::now();
    while service.calls().len() < 2 {
        assert!(began.elapsed() < LIMIT);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(ended(&server, &conversation).await["execution_status"], "finished");
    assert_eq!(service.renewed(), 2);

    let out = post(&server, "logout").await;
    assert_eq!((out.status, out.body), (200, signed_out()));
    assert_eq!(status(&server).await, signed_out());
    server.post(&format!("{conversation}/events"), again).await;
    let began = Instant::now();
    while !events(&server, &conversation).await.contains("not signed in") {
        assert!(began.elapsed() < LIMIT);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(ended(&server, &conversation).await["execution_status"], "error");
}

#[tokio::test]
async fn tokens_that_a_tool_prints_are_hidden_after_a_renewal_too() {
    let look = || Turn::calls(&[("t", "terminal", json!({"command": "cat ../persistence/auth/openai_oauth.json"}))]);
    let finish = || Turn::calls(&[("f", "finish", json!({"message": "done"}))]);
    let service = PlanService::start([look(), finish(), look(), finish()]).await;
    let server = server(&service).await;
    sign_in(&server, &service).await;
    let (conversation, info) = converse(&server, llm()).await;
    assert_eq!(info["execution_status"], "finished", "{}", events(&server, &conversation).await);
    let first = stored(&server);
    // The next call is refused, so that other tokens lie there when the tool looks again.
    service.revoke_access();
    let message = json!({"role": "user", "content": [{"type": "text", "text": "again"}], "run": true});
    server.post(&format!("{conversation}/events"), message).await;
    let began = Instant::now();
    while service.calls().len() < 4 {
        assert!(began.elapsed() < LIMIT, "{}", events(&server, &conversation).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        (ended(&server, &conversation).await["execution_status"].clone(), service.renewed()),
        (json!("finished"), 1)
    );
    let shown: String = events(&server, &conversation).await.replace("\\n", "").split_whitespace().collect();
    assert_eq!(shown.matches("\\\"access_token\\\"").count(), 2, "{shown}");
    for token in [first, stored(&server)].concat() {
        let (_, end) = token.split_at(token.len() / 2);
        assert!(!shown.contains(end), "{shown}");
    }
}

/// The tokens in the server's file.
fn stored(server: &Server) -> Vec<String> {
    let file = std::fs::read_to_string(server.folder.path().join("persistence/auth/openai_oauth.json")).unwrap();
    let stored: Value = serde_json::from_str(&file).unwrap();
    ["access_token", "refresh_token"].map(|name| stored[name].as_str().unwrap().to_owned()).into()
}

#[tokio::test]
async fn a_client_cannot_send_the_token_elsewhere() {
    let (service, elsewhere) = (PlanService::start([]).await, PlanService::start([]).await);
    service.push([Turn::calls(&[("f", "finish", json!({"message": "done"}))])]);
    let server = server(&service).await;
    sign_in(&server, &service).await;
    let mut config = llm();
    config["base_url"] = json!(elsewhere.backend_url());
    config["extra_headers"] = json!({"chatgpt-account-id": "someone-else", "authorization": "Bearer mine"});
    config["is_subscription"] = json!(true);
    let (_, info) = converse(&server, config).await;
    assert_eq!(info["execution_status"], "finished");
    assert_eq!((service.calls().len(), elsewhere.calls().len()), (1, 0));
}

#[tokio::test]
async fn what_cannot_be_done_is_told() {
    let service = PlanService::start([]).await;
    let server = server(&service).await;
    let unknown = poll(&server, &json!("nothing")).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(server.post(&format!("{ROOT}/device/poll"), json!({})).await.status, 422);
    service.fail_next("usercode", 404, "");
    assert_eq!(post(&server, "device/start").await.status, 501);
    service.fail_next("usercode", 500, "");
    assert_eq!(post(&server, "device/start").await.status, 503);
    let started = post(&server, "device/start").await.body;
    service.deny_code();
    let denied = poll(&server, &started["device_code"]).await;
    assert_eq!(denied.status, 400);
    assert!(denied.body["detail"].as_str().unwrap().contains("denied"));
    assert_eq!(poll(&server, &started["device_code"]).await.status, 404);
    for _ in 0..16 {
        assert_eq!(post(&server, "device/start").await.status, 200);
    }
    assert_eq!(post(&server, "device/start").await.status, 429);

    let (conversation, info) = converse(&server, llm()).await;
    assert_eq!(info["execution_status"], "error");
    assert!(events(&server, &conversation).await.contains("not signed in to OpenAI"));
    let mut other = llm();
    other["model"] = json!("openai/gpt-4o");
    let (conversation, info) = converse(&server, other).await;
    assert_eq!(info["execution_status"], "error");
    assert!(events(&server, &conversation).await.contains("is not available with a subscription"));
}

/// The program with a command, as the user of this folder.
fn program(service: &PlanService, folder: &std::path::Path, arguments: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_openhands-agent-server"));
    command
        .arg("subscription")
        .args(arguments)
        .env("OH_PERSISTENCE_DIR", folder)
        .env("OH_SUBSCRIPTION_ISSUER_URL", service.issuer_url())
        .env("OH_SUBSCRIPTION_BACKEND_URL", service.backend_url())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn said(service: &PlanService, folder: &std::path::Path, arguments: &[&str]) -> (bool, String) {
    let output = tokio::time::timeout(LIMIT, program(service, folder, arguments).output()).await.unwrap().unwrap();
    let text = [output.stderr, output.stdout].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test]
async fn the_command_signs_in_says_so_and_signs_out() {
    let (service, folder) = (PlanService::start([]).await, tempfile::tempdir().unwrap());
    let (is_done, text) = said(&service, folder.path(), &["status"]).await;
    assert!(!is_done && text.contains("not signed in"), "{text}");
    // Nobody is at a terminal, and nobody has agreed before.
    let (is_done, text) = said(&service, folder.path(), &["login", "--device"]).await;
    assert!(!is_done && text.contains("terms-of-use") && text.contains("--accept-terms"), "{text}");

    let mut login = program(&service, folder.path(), &["login", "--device", "--accept-terms"]).spawn().unwrap();
    let mut lines = BufReader::new(login.stderr.take().unwrap()).lines();
    let next = async |lines: &mut Lines<_>| tokio::time::timeout(LIMIT, lines.next_line()).await.unwrap().unwrap();
    let shown = next(&mut lines).await.unwrap();
    assert!(shown.contains("/issuer/codex/device") && shown.contains("CODE-number"), "{shown}");
    service.enter_code();
    let mut rest = String::new();
    while let Some(line) = next(&mut lines).await {
        rest.push_str(&line);
    }
    let output = login.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{rest}");
    rest.push_str(&String::from_utf8_lossy(&output.stdout));
    assert!(rest.contains(&format!("Signed in as {}", service.account().email)), "{rest}");

    let (is_done, text) = said(&service, folder.path(), &["status"]).await;
    assert!(is_done && text.contains("Signed in as"), "{text}");
    assert_eq!(said(&service, folder.path(), &["logout"]).await, (true, "Signed out.\n".to_owned()));
    assert_eq!(said(&service, folder.path(), &["logout"]).await, (true, "Nobody was signed in.\n".to_owned()));
    let (is_done, text) = said(&service, folder.path(), &["models"]).await;
    assert!(is_done && text.lines().any(|line| line == "gpt-5.2-codex"), "{text}");
}

#[tokio::test]
async fn one_address_without_the_other_keeps_the_server_from_starting() {
    let config = openhands_agent_server::config::Config {
        subscription_issuer_url: Some("https://example.com".to_owned()),
        ..Default::default()
    };
    let error = openhands_agent_server::sign_in::SignIns::new(std::path::Path::new("/nowhere"), &config).err().unwrap();
    assert!(error.to_string().contains("OH_SUBSCRIPTION_BACKEND_URL"), "{error}");
}
