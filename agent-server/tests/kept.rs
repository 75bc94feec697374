//! What a user keeps on a server, over the whole router: profiles, settings, secrets, provider connections, and conversations that
//! start from them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod serve;

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use openhands_testkit::{ScriptedModel, Turn};
use serde_json::{Value, json};
use serve::{Answer, Server, answer, serve as start};

const SECRET_KEY: &[(&str, &str)] = &[("OH_SECRET_KEY", "a secret key")];
const MASK: &str = "**********";

async fn send(server: &Server, method: &str, path: &str, body: Value) -> Answer {
    answer(server.request(method, path).json(&body)).await
}

async fn exposed(server: &Server, path: &str, how: &str) -> Answer {
    answer(server.request("GET", path).header("X-Expose-Secrets", how)).await
}

fn ok(body: Value) -> Answer {
    Answer { status: 200, body }
}

fn kept(server: &Server, file: &str) -> PathBuf {
    server.folder.path().join("persistence").join(file)
}

fn text(server: &Server, file: &str) -> String {
    fs::read_to_string(kept(server, file)).unwrap()
}

fn llm(key: &str, base_url: &str) -> Value {
    json!({"model": "openai/m", "api_key": key, "base_url": base_url, "num_retries": 1})
}

async fn save(server: &Server, name: &str, llm: Value) -> u16 {
    server.post(&format!("/api/profiles/{name}"), json!({ "llm": llm })).await.status
}

#[tokio::test]
async fn profiles_are_saved_shown_renamed_activated_and_deleted() {
    let server = start(SECRET_KEY).await;
    assert_eq!(server.get("/api/profiles").await, ok(json!({"profiles": [], "active_profile": null})));
    let saved = server.post("/api/profiles/fast", json!({"llm": llm("sk-profile", "http://127.0.0.1:9/v1")})).await;
    assert_eq!((saved.status, &saved.body["name"], saved.body["message"].is_string()), (201, &json!("fast"), true));
    let file = text(&server, "profiles/fast.json");
    assert!(!file.contains("sk-profile") && file.contains("gAAAAA"), "{file}");
    let mode = |file: &str| fs::metadata(kept(&server, file)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("profiles/fast.json"), mode("profiles")), (0o600, 0o700));
    let listed = json!({
        "name": "fast", "model": "openai/m", "base_url": "http://127.0.0.1:9/v1", "provider_connection_id": null,
        "provider_connection_broken": false, "api_key_set": true,
    });
    assert_eq!(server.get("/api/profiles").await.body, json!({"profiles": [listed], "active_profile": null}));

    let shown = server.get("/api/profiles/fast").await.body;
    assert_eq!((&shown["config"]["api_key"], &shown["api_key_set"]), (&Value::Null, &json!(true)));
    assert_eq!((&shown["config"]["timeout"], &shown["config"]["num_retries"]), (&json!(300), &json!(1)));
    let plain = exposed(&server, "/api/profiles/fast", "plaintext").await.body;
    assert_eq!(plain["config"]["api_key"], "sk-profile");
    let sealed = exposed(&server, "/api/profiles/fast", "encrypted").await.body;
    assert!(sealed["config"]["api_key"].as_str().unwrap().starts_with("gAAAAA"));
    assert_eq!(exposed(&server, "/api/profiles/fast", "x").await.status, 400);

    let renamed = send(&server, "POST", "/api/profiles/fast/rename", json!({"new_name": "quick"})).await;
    assert_eq!((renamed.status, &renamed.body["name"]), (200, &json!("quick")));
    assert_eq!(server.get("/api/profiles/fast").await.status, 404);
    let activated = answer(server.request("POST", "/api/profiles/quick/activate")).await;
    assert_eq!((activated.status, &activated.body["llm_applied"]), (200, &json!(true)));
    assert_eq!(server.get("/api/profiles").await.body["active_profile"], "quick");
    let settings = exposed(&server, "/api/settings", "plaintext").await.body;
    assert_eq!(settings["agent_settings"]["llm"]["api_key"], "sk-profile");
    send(&server, "POST", "/api/profiles/quick/rename", json!({"new_name": "fast"})).await;
    assert_eq!(server.get("/api/settings").await.body["active_profile"], "fast");

    for _ in 0..2 {
        assert_eq!(answer(server.request("DELETE", "/api/profiles/fast")).await.status, 200);
    }
    assert_eq!(server.get("/api/profiles").await, ok(json!({"profiles": [], "active_profile": null})));
}

#[tokio::test]
async fn wrong_profiles_are_refused_by_name() {
    let server = start(SECRET_KEY).await;
    save(&server, "a", llm("k", "http://a")).await;
    save(&server, "b", llm("k", "http://a")).await;
    let place = |answer: &Answer| (answer.status, answer.body["detail"][0]["loc"].clone());
    let get = server.get("/api/profiles/no%20good").await;
    assert_eq!(place(&get), (422, json!(["path", "name"])));
    for (body, loc) in [
        (json!({}), json!(["body", "llm"])),
        (json!({"llm": {"api_key": "k"}}), json!(["body", "llm", "model"])),
        (json!({"llm": {"model": "m", "temperature": "hot"}}), json!(["body", "llm", "temperature"])),
        (json!({"llm": {"model": "m", "top_p": 2}}), json!(["body", "llm", "top_p"])),
    ] {
        let refused = send(&server, "POST", "/api/profiles/a", body).await;
        assert_eq!(place(&refused), (422, loc), "{refused:?}");
    }
    let rename = |to: &'static str| send(&server, "POST", "/api/profiles/a/rename", json!({ "new_name": to }));
    assert_eq!(rename("b").await.status, 409);
    assert_eq!(place(&rename("../b").await), (422, json!(["body", "new_name"])));
    let missing = server.get("/api/profiles/x").await;
    assert_eq!(
        missing,
        Answer { status: 404, body: json!({"detail": "profile \"x\" does not exist; there are: a, b"}) }
    );
    for path in ["/api/profiles/x/activate", "/api/profiles/x/rename"] {
        assert_eq!(send(&server, "POST", path, json!({"new_name": "y"})).await.status, 404);
    }
    fs::write(kept(&server, "profiles/a.json"), "{").unwrap();
    assert_eq!(server.get("/api/profiles/a").await.status, 400);
    for number in 0..openhands_settings::MAX_PROFILES {
        save(&server, &format!("p{number}"), llm("k", "http://a")).await;
    }
    assert_eq!(save(&server, "last", llm("k", "http://a")).await, 409);
}

#[tokio::test]
async fn a_profile_is_tried_out() {
    let server = start(SECRET_KEY).await;
    let model = ScriptedModel::start([
        Turn::text("yes"),
        Turn::error(401, "invalid_api_key", "wrong key"),
        Turn::error(429, "rate_limit", "slow down"),
        Turn::error(404, "model_not_found", "no such model"),
    ])
    .await;
    let validate = |llm: Value| send(&server, "POST", "/api/profiles/new/validate", json!({ "llm": llm }));
    let config = || llm("sk-try", &model.base_url());
    assert_eq!(validate(config()).await, ok(json!({"valid": true, "error": null})));
    let asked = &model.requests()[0];
    assert_eq!(asked.headers["authorization"], "Bearer sk-try");
    let refused = validate(config()).await.body;
    assert_eq!((&refused["valid"], &refused["error"]["type"]), (&json!(false), &json!("LLMAuthenticationError")));
    assert_eq!(validate(config()).await.body["valid"], true, "busy is no mistake");
    assert_eq!(validate(config()).await.body["valid"], false);
    let nowhere = validate(llm("sk-try", "http://127.0.0.1:9/v1")).await;
    assert_eq!(nowhere.body["error"]["type"], "LLMServiceUnavailableError");
    assert!(!nowhere.body.to_string().contains("sk-try"));
    assert_eq!(validate(json!({"model": "openai/m", "provider_connection_id": "gone"})).await.status, 422);
    assert_eq!(server.get("/api/profiles/new").await.status, 404, "nothing is saved");
}

#[tokio::test]
async fn settings_are_changed_and_secrets_shown_on_request() {
    let server = start(SECRET_KEY).await;
    let settings = server.get("/api/settings").await.body;
    assert_eq!(
        (&settings["agent_settings"]["agent_kind"], &settings["llm_api_key_is_set"]),
        (&json!("openhands"), &json!(false))
    );
    let patch = |body: Value| send(&server, "PATCH", "/api/settings", body);
    let changed = patch(json!({
        "agent_settings_diff": {"llm": {"model": "openai/m", "api_key": "sk-settings"}},
        "conversation_settings_diff": {"max_iterations": 7}, "misc_settings_diff": {"theme": {"dark": true}},
    }))
    .await;
    assert_eq!((changed.status, changed.body.to_string().contains("sk-settings")), (200, false));
    assert_eq!(server.get("/api/settings").await.body, changed.body);
    assert_eq!(
        (&changed.body["agent_settings"]["llm"]["api_key"], &changed.body["llm_api_key_is_set"]),
        (&json!(MASK), &json!(true))
    );
    assert_eq!(
        exposed(&server, "/api/settings", "plaintext").await.body["agent_settings"]["llm"]["api_key"],
        "sk-settings"
    );
    let sealed = exposed(&server, "/api/settings", "encrypted").await.body["agent_settings"]["llm"]["api_key"].clone();
    assert!(sealed.as_str().unwrap().starts_with("gAAAAA"));
    assert!(!text(&server, "settings.json").contains("sk-settings"));
    // What a form sends back unchanged is kept, for the same address only.
    let key = |body: Value| {
        let server = &server;
        async move {
            assert_eq!(send(server, "PATCH", "/api/settings", body).await.status, 200);
            exposed(server, "/api/settings", "plaintext").await.body["agent_settings"]["llm"]["api_key"].clone()
        }
    };
    assert_eq!(key(json!({"agent_settings_diff": {"llm": {"api_key": MASK}}})).await, "sk-settings");
    assert_eq!(
        key(json!({"agent_settings_diff": {"llm": {"api_key": sealed, "temperature": 1}}})).await,
        "sk-settings"
    );
    assert_eq!(key(json!({"agent_settings_diff": {"llm": {"base_url": "http://evil"}}})).await, Value::Null);
    assert_eq!(
        key(json!({"agent_settings_diff": {"llm": {"api_key": sealed}}})).await,
        Value::Null,
        "sealed for another place"
    );
    assert_eq!(key(json!({"agent_settings_diff": {"llm": {"api_key": "sk-2"}}})).await, "sk-2");

    for (body, status) in [
        (json!({}), 400),
        (json!({"agent_settings_diff": []}), 422),
        (json!({"agent_settings_diff": {"llm": {"temperature": "sk-2"}}}), 422),
        (json!({"conversation_settings_diff": {"confirmation_mode": null}}), 422),
        (json!({"agent_settings_diff": {"agent_kind": "acp"}}), 501),
        (json!({"active_profile": "gone"}), 404),
    ] {
        let refused = patch(body).await;
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(!refused.body.to_string().contains("sk-2"));
    }
    let file = text(&server, "settings.json");
    fs::write(kept(&server, "settings.json"), file.replace("http://evil", "http://more-evil")).unwrap();
    assert_eq!(exposed(&server, "/api/settings", "plaintext").await.status, 422);
    assert_eq!(server.get("/api/settings").await.body["llm_api_key_is_set"], false);
    fs::write(kept(&server, "settings.json"), "{").unwrap();
    assert_eq!(server.get("/api/settings").await.body["llm_api_key_is_set"], false);
    assert_eq!(patch(json!({"misc_settings_diff": {"a": 1}})).await.status, 409);
}

#[tokio::test]
async fn forms_are_described() {
    let server = start(&[]).await;
    for (path, model) in [("agent-schema", "AgentSettings"), ("conversation-schema", "ConversationSettings")] {
        let schema = server.get(&format!("/api/settings/{path}")).await;
        assert_eq!((schema.status, &schema.body["model_name"]), (200, &json!(model)));
    }
    let providers = server.get("/api/llm/providers").await.body;
    assert!(providers["providers"].as_array().unwrap().contains(&json!("anthropic")));
    let all = server.get("/api/llm/models").await.body["models"].as_array().unwrap().len();
    let some = server.get("/api/llm/models?provider=anthropic").await.body["models"].as_array().unwrap().len();
    assert!(some > 0 && some < all, "{some} of {all}");
    assert!(server.get("/api/llm/models/verified").await.body["models"]["anthropic"].is_array());
}

#[tokio::test]
async fn secrets_go_in_by_name_and_come_out_one_at_a_time() {
    let server = start(SECRET_KEY).await;
    let put = |body: Value| send(&server, "PUT", "/api/settings/secrets", body);
    assert_eq!(
        put(json!({"name": "TOKEN", "value": "v-1", "description": "d"})).await,
        ok(json!({"name": "TOKEN", "description": "d"}))
    );
    assert_eq!(
        server.get("/api/settings/secrets").await.body,
        json!({"secrets": [{"name": "TOKEN", "description": "d"}]})
    );
    assert_eq!(server.get("/api/settings/secrets/TOKEN").await, ok(json!("v-1")));
    assert!(!text(&server, "secrets.json").contains("v-1"));
    for body in [
        json!({"name": "bad name!", "value": "x"}),
        json!({"name": "A", "value": " "}),
        json!({"name": "A", "value": MASK}),
        json!({"name": "A"}),
    ] {
        assert_eq!(put(body).await.status, 422);
    }
    assert_eq!(answer(server.request("DELETE", "/api/settings/secrets/TOKEN")).await, ok(json!({"deleted": true})));
    for (method, path, status) in [
        ("GET", "/api/settings/secrets/TOKEN", 404),
        ("DELETE", "/api/settings/secrets/TOKEN", 404),
        ("GET", "/api/settings/secrets/a%20b", 422),
    ] {
        assert_eq!(answer(server.request(method, path)).await.status, status, "{method} {path}");
    }
}

#[tokio::test]
async fn connections_are_kept_and_their_keys_stay_with_their_addresses() {
    let server = start(SECRET_KEY).await;
    let path = "/api/llm/provider-connections";
    for body in [
        json!({}),
        json!({"display_name": "d", "api_key": " "}),
        json!({"display_name": "d", "api_key": MASK}),
        json!({"display_name": "", "api_key": "k"}),
        json!({"display_name": "d", "api_key": "k", "more": 1}),
    ] {
        assert_eq!(send(&server, "POST", path, body).await.status, 422);
    }
    let made =
        send(&server, "POST", path, json!({"display_name": "d", "api_key": "sk-c", "base_url": "http://a"})).await;
    let id = made.body["id"].as_str().unwrap().to_owned();
    let names: Vec<_> = made.body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        (made.status, names),
        (201, vec!["id", "display_name", "provider", "base_url", "created_at", "updated_at", "api_key_set"])
    );
    assert_eq!(server.get(path).await.body, json!([made.body]));
    let one = format!("{path}/{id}");
    for body in [json!({}), json!({"display_name": null}), json!({"api_key": null})] {
        assert_eq!(send(&server, "PATCH", &one, body).await.status, 422);
    }
    let patched = |body: Value| {
        let (server, one) = (&server, &one);
        async move { send(server, "PATCH", one, body).await.body["api_key_set"].clone() }
    };
    assert_eq!(patched(json!({"display_name": "e"})).await, true);
    assert_eq!(patched(json!({"base_url": "http://evil"})).await, false);
    assert_eq!(patched(json!({"base_url": "http://b", "api_key": "sk-d"})).await, true);
    assert_eq!(send(&server, "PATCH", &format!("{path}/zz"), json!({"display_name": "e"})).await.status, 404);

    save(&server, "linked", json!({"model": "openai/m", "provider_connection_id": id})).await;
    let plain = exposed(&server, "/api/profiles/linked", "plaintext").await.body;
    assert_eq!((&plain["config"]["api_key"], &plain["config"]["base_url"]), (&json!("sk-d"), &json!("http://b")));
    assert_eq!(server.get("/api/profiles/linked").await.body["config"]["base_url"], Value::Null);
    let refused = answer(server.request("DELETE", &one)).await;
    assert_eq!((refused.status, refused.body["detail"].as_str().unwrap().contains("linked")), (409, true));
    answer(server.request("DELETE", "/api/profiles/linked")).await;
    let gone = answer(server.request("DELETE", &one)).await;
    assert_eq!((gone.status, &gone.body["api_key_set"]), (200, &json!(false)));
    assert_eq!(answer(server.request("DELETE", &one)).await.status, 404);
}

#[tokio::test]
async fn without_a_secret_key_nothing_secret_is_written() {
    let server = start(&[]).await;
    assert_eq!(save(&server, "p", llm("sk-p", "http://a")).await, 201);
    assert_eq!(server.get("/api/profiles/p").await.body["api_key_set"], false);
    send(&server, "PATCH", "/api/settings", json!({"agent_settings_diff": {"llm": {"api_key": "sk-s"}}})).await;
    assert_eq!(server.get("/api/settings").await.body["llm_api_key_is_set"], false);
    for (method, path, body) in [
        ("PUT", "/api/settings/secrets", json!({"name": "A", "value": "v"})),
        ("POST", "/api/llm/provider-connections", json!({"display_name": "d", "api_key": "k"})),
    ] {
        assert_eq!(send(&server, method, path, body).await.status, 503, "{path}");
    }
    for file in ["profiles/p.json", "settings.json"] {
        assert!(!text(&server, file).contains("sk-"), "{file}");
    }
    for path in ["/api/settings", "/api/profiles/p"] {
        assert_eq!(exposed(&server, path, "encrypted").await.status, 503, "{path}");
    }
}

#[tokio::test]
async fn an_initialised_server_encrypts() {
    let server = start(&[("OH_DEFERRED_INIT", "1")]).await;
    assert_eq!(server.get("/api/settings").await.status, 503);
    let folder = server.folder.path().join("of-this-pod");
    let body = json!({"secret_key": "of this conversation", "env": {"OH_PERSISTENCE_DIR": folder}});
    assert_eq!(server.post("/api/init", body).await.status, 200);
    assert_eq!(save(&server, "p", llm("sk-p", "http://a")).await, 201);
    let file = fs::read_to_string(folder.join("profiles/p.json")).unwrap();
    assert!(!file.contains("sk-p") && file.contains("gAAAAA"), "{file}");
    assert!(!server.folder.path().join("persistence").exists());
}

/// A start request whose first message runs at once.
fn start_request(server: &Server, source: Value) -> Value {
    let mut body = json!({
        "workspace": {"kind": "LocalWorkspace", "working_dir": server.folder.path().join("work")},
        "initial_message": {"role": "user", "content": [{"type": "text", "text": "hello"}]}, "autotitle": false,
    });
    body.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    body
}

async fn key_seen(model: &ScriptedModel) -> String {
    let asked = async {
        loop {
            if let Some(request) = model.requests().pop() {
                return request.headers.get("authorization").unwrap().to_str().unwrap().to_owned();
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), asked).await.unwrap()
}

#[tokio::test]
async fn conversations_start_from_settings_connections_and_sealed_keys() {
    let server = start(SECRET_KEY).await;
    let connection = |url: String| json!({"display_name": "d", "api_key": "sk-connection", "base_url": url});

    // Settings of the request.
    let model = ScriptedModel::start([Turn::text("done")]).await;
    let request = start_request(&server, json!({"agent_settings": {"llm": llm("sk-sent", &model.base_url())}}));
    let made = server.post("/api/conversations", request).await;
    assert_eq!(made.status, 201, "{made:?}");
    let tools: Vec<_> =
        made.body["agent"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(tools, ["terminal", "file_editor", "task_tracker"]);
    assert_eq!(made.body["agent"]["condenser"]["kind"], "LLMSummarizingCondenser");
    assert_eq!(key_seen(&model).await, "Bearer sk-sent");

    // The stored model, for settings that bring none.
    let model = ScriptedModel::start([Turn::text("done")]).await;
    let stored = llm("sk-stored", &model.base_url());
    send(&server, "PATCH", "/api/settings", json!({"agent_settings_diff": {"llm": stored}})).await;
    let made =
        server.post("/api/conversations", start_request(&server, json!({"agent_settings": {"tools": []}}))).await;
    assert_eq!((made.status, &made.body["agent"]["llm"]["model"]), (201, &json!("openai/m")));
    assert_eq!(key_seen(&model).await, "Bearer sk-stored");

    // Settings as a frontend got them, keys sealed.
    let model = ScriptedModel::start([Turn::text("done")]).await;
    send(
        &server,
        "PATCH",
        "/api/settings",
        json!({"agent_settings_diff": {"llm": llm("sk-sealed", &model.base_url())}}),
    )
    .await;
    let mut sealed = exposed(&server, "/api/settings", "encrypted").await.body["agent_settings"].clone();
    let request = start_request(&server, json!({"agent_settings": sealed, "secrets_encrypted": true}));
    assert_eq!(server.post("/api/conversations", request).await.status, 201);
    assert_eq!(key_seen(&model).await, "Bearer sk-sealed");
    let mut agent = json!({"kind": "Agent", "llm": sealed["llm"].take(), "tools": []});
    agent["llm"]["base_url"] = json!("http://127.0.0.1:9/v1");
    let refused = server.post("/api/conversations", start_request(&server, json!({ "agent": agent }))).await;
    assert_eq!((refused.status, &refused.body["detail"][0]["loc"]), (422, &json!(["body", "agent", "llm", "api_key"])));

    // A connection.
    let model = ScriptedModel::start([Turn::text("done")]).await;
    let id =
        send(&server, "POST", "/api/llm/provider-connections", connection(model.base_url())).await.body["id"].clone();
    let agent = |id: &Value| json!({"agent": {"llm": {"model": "openai/m", "provider_connection_id": id, "num_retries": 1}, "tools": []}});
    let made = server.post("/api/conversations", start_request(&server, agent(&id))).await;
    assert_eq!((made.status, &made.body["agent"]["llm"]["base_url"]), (201, &json!(model.base_url())));
    assert_eq!(key_seen(&model).await, "Bearer sk-connection");
    let (live, linked) = (made.body["id"].as_str().unwrap(), ScriptedModel::start([]).await);
    let other =
        send(&server, "POST", "/api/llm/provider-connections", connection(linked.base_url())).await.body["id"].clone();
    let switch = json!({"llm": {"model": "openai/m", "provider_connection_id": other}});
    assert_eq!(server.post(&format!("/api/conversations/{live}/switch_llm"), switch).await.status, 200);
    let shown = server.get(&format!("/api/conversations/{live}")).await.body;
    assert_eq!(shown["agent"]["llm"]["base_url"], linked.base_url());
    let refused = server.post("/api/conversations", start_request(&server, agent(&json!("gone")))).await;
    assert_eq!((refused.status, refused.body["detail"].as_str().unwrap().contains("gone")), (422, true));
    for (source, status) in [
        (json!({"agent_settings": {"agent_kind": "acp"}}), 501),
        (json!({"agent_settings": {"llm": {"top_p": 2}}}), 422),
        (json!({"agent_settings": {"verification": {"critic_enabled": true, "critic_api_key": "k"}}}), 422),
        (json!({"agent_profile_id": "00000000-0000-4000-8000-000000000000"}), 501),
        (json!({}), 422),
    ] {
        let refused = server.post("/api/conversations", start_request(&server, source)).await;
        assert_eq!(refused.status, status, "{refused:?}");
    }
}

#[tokio::test]
async fn a_live_conversation_changes_to_a_profile() {
    let server = start(SECRET_KEY).await;
    let model = ScriptedModel::start([Turn::text("one")]).await;
    let request = start_request(&server, json!({"agent": {"llm": llm("sk-first", &model.base_url()), "tools": []}}));
    let id = server.post("/api/conversations", request).await.body["id"].as_str().unwrap().to_owned();
    assert_eq!(key_seen(&model).await, "Bearer sk-first");
    let other = ScriptedModel::start([Turn::text("two")]).await;
    save(&server, "other", llm("sk-other", &other.base_url())).await;
    let switch = |name: &'static str| {
        let (server, path) = (&server, format!("/api/conversations/{id}/switch_profile"));
        async move { send(server, "POST", &path, json!({ "profile_name": name })).await.status }
    };
    assert_eq!(switch("gone").await, 404);
    assert_eq!(switch("other").await, 200);
    let message = json!({"role": "user", "content": [{"type": "text", "text": "go on"}], "run": true});
    let path = format!("/api/conversations/{id}/events");
    let sent = async {
        // The first run may still be ending.
        while server.post(&path, message.clone()).await.status != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), sent).await.unwrap();
    assert_eq!(key_seen(&other).await, "Bearer sk-other");
}
