//! The models of conversations over REST: changing them, asking beside the work, and that a key stays with its address.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod serve;

use std::time::{Duration, Instant};

use openhands_testkit::{ScriptedModel, Turn};
use serde_json::{Value, json};
use serve::{Server, answer, serve as start};

const LIMIT: Duration = Duration::from_secs(30);

fn llm(model: &ScriptedModel, name: &str, key: &str) -> Value {
    json!({
        "model": name, "base_url": model.base_url(), "api_key": key, "usage_id": "agent",
        "num_retries": 1, "retry_min_wait": 0, "retry_max_wait": 0, "timeout": 60,
    })
}

async fn create(server: &Server, llm: Value, more: Value) -> String {
    let directory = server.folder.path().join("work");
    let mut body = json!({
        "agent": {"kind": "Agent", "llm": llm, "tools": [{"name": "terminal"}]},
        "workspace": {"kind": "LocalWorkspace", "working_dir": directory.to_str().unwrap()}, "autotitle": false,
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let created = server.post("/api/conversations", body).await;
    assert_eq!(created.status, 201, "{created:?}");
    format!("/api/conversations/{}", created.body["id"].as_str().unwrap())
}

/// Says something and waits for the end of the run; the conversation as it is then.
async fn run(server: &Server, conversation: &str, text: &str) -> Value {
    let message = json!({"role": "user", "content": [{"type": "text", "text": text}], "run": true});
    let sent = server.post(&format!("{conversation}/events"), message).await;
    assert_eq!(sent.status, 200, "{sent:?}");
    let began = Instant::now();
    loop {
        let info = server.get(conversation).await.body;
        if info["execution_status"] != "running" {
            return info;
        }
        assert!(began.elapsed() < LIMIT, "the run does not end: {info}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn finish(message: &str) -> Turn {
    Turn::calls(&[("f", "finish", json!({"message": message}))])
}

fn keys(model: &ScriptedModel) -> Vec<String> {
    let key = |headers: &http::HeaderMap| headers["authorization"].to_str().unwrap().to_owned();
    model.requests().iter().map(|request| key(&request.headers)).collect()
}

async fn last_event(server: &Server, conversation: &str) -> Value {
    let found = server.get(&format!("{conversation}/events/search?limit=100")).await.body;
    found["items"].as_array().unwrap().last().unwrap().clone()
}

async fn last_error(server: &Server, conversation: &str) -> Value {
    let found = server.get(&format!("{conversation}/events/search?limit=100")).await.body;
    let items = found["items"].as_array().unwrap().clone();
    items.into_iter().rev().find(|event| event["kind"] == "ConversationErrorEvent").unwrap()
}

#[tokio::test]
async fn a_conversation_goes_on_with_another_model() {
    let server = start(&[]).await;
    let (first, second) = (ScriptedModel::start([finish("one")]).await, ScriptedModel::start([finish("two")]).await);
    let conversation = create(&server, llm(&first, "openai/first", "key-of-first"), json!({})).await;
    run(&server, &conversation, "go").await;
    let mut other = llm(&second, "openai/second", "key-of-second");
    other["usage_id"] = json!("second");
    let switched = server.post(&format!("{conversation}/switch_llm"), json!({ "llm": other })).await;
    assert_eq!((switched.status, switched.body), (200, json!({"success": true})));
    let info = run(&server, &conversation, "more").await;
    assert_eq!(info["execution_status"], "finished");
    assert_eq!(
        (keys(&first), keys(&second)),
        (vec!["Bearer key-of-first".to_owned()], vec!["Bearer key-of-second".to_owned()])
    );
    let spent: Vec<_> = info["stats"]["usage_to_metrics"].as_object().unwrap().keys().collect();
    assert_eq!(spent, ["agent", "second"]);
    assert_eq!(second.requests()[0].body["messages"].as_array().unwrap().len(), 5, "system, go, finish, result, more");

    second.push([Turn::text("because")]);
    let asked = server.post(&format!("{conversation}/ask_agent"), json!({"question": "why?"})).await;
    assert_eq!((asked.status, asked.body), (200, json!({"response": "because"})));
}

#[tokio::test]
async fn mistakes_are_answered_as_the_reference_does() {
    let server = start(&[]).await;
    let model = ScriptedModel::start([]).await;
    let conversation = create(&server, llm(&model, "openai/m", "key-of-model"), json!({})).await;
    let unknown = "/api/conversations/00000000-0000-4000-8000-000000000000";
    let masked = json!({"model": "openai/m", "base_url": "http://127.0.0.1:9/v1", "api_key": "**********"});
    for (path, body, status, detail) in [
        (format!("{conversation}/switch_llm"), json!({}), 422, json!(["body", "llm"])),
        (format!("{conversation}/switch_llm"), json!({"llm": 7}), 422, json!(["body", "llm"])),
        (format!("{conversation}/switch_llm"), json!({"llm": {"model": ""}}), 422, json!(["body", "llm", "model"])),
        (
            format!("{conversation}/switch_llm"),
            json!({"llm": {"model": "m", "temperature": "hot"}}),
            422,
            json!(["body", "llm", "temperature"]),
        ),
        (format!("{conversation}/switch_llm"), json!({"llm": {"usage_id": "x"}}), 422, json!(["body", "llm", "model"])),
        (
            format!("{conversation}/switch_llm"),
            json!({"llm": {"model": "m", "auth_type": "x"}}),
            422,
            json!(["body", "llm", "auth_type"]),
        ),
        (format!("{conversation}/switch_llm"), json!({ "llm": masked }), 422, json!(["body", "llm", "api_key"])),
        (format!("{conversation}/switch_profile"), json!({}), 422, json!(["body", "profile_name"])),
        (
            format!("{conversation}/switch_profile"),
            json!({"profile_name": "nope"}),
            404,
            json!("Profile 'nope' not found"),
        ),
        (format!("{conversation}/ask_agent"), json!({}), 422, json!(["body", "question"])),
        (format!("{unknown}/switch_llm"), json!({"llm": {"model": "openai/m"}}), 404, json!("Not Found")),
        (format!("{unknown}/switch_profile"), json!({"profile_name": "x"}), 404, json!("Not Found")),
        (format!("{unknown}/ask_agent"), json!({"question": "x"}), 404, json!("Not Found")),
    ] {
        let found = server.post(&path, body.clone()).await;
        let place = if status == 422 { &found.body["detail"][0]["loc"] } else { &found.body["detail"] };
        assert_eq!((found.status, place), (status, &detail), "{path} {body}");
    }
    assert_eq!(server.get(&conversation).await.body["agent"]["llm"]["model"], "openai/m");
}

#[tokio::test]
async fn models_of_a_start_request_are_checked_as_saved_ones_are() {
    let server = start(&[]).await;
    let directory = server.folder.path().join("work");
    let start = |llm: Value, condenser: Value| {
        json!({
            "agent": {"kind": "Agent", "llm": llm, "condenser": condenser},
            "workspace": {"kind": "LocalWorkspace", "working_dir": directory.to_str().unwrap()},
        })
    };
    let good = json!({"model": "openai/m"});
    let summarising = |llm: Value| json!({"kind": "LLMSummarizingCondenser", "llm": llm});
    for (body, place) in [
        (start(json!({}), Value::Null), json!(["body", "agent", "llm", "model"])),
        (start(json!({"model": "m", "top_p": 2}), Value::Null), json!(["body", "agent", "llm", "top_p"])),
        (
            start(good.clone(), summarising(json!({"model": "m", "temperature": -1}))),
            json!(["body", "agent", "condenser", "llm", "temperature"]),
        ),
        (
            start(good.clone(), json!({"kind": "PipelineCondenser", "condensers": [summarising(json!({}))]})),
            json!(["body", "agent", "condenser", "condensers", "0", "llm", "model"]),
        ),
    ] {
        let found = server.post("/api/conversations", body).await;
        assert_eq!((found.status, &found.body["detail"][0]["loc"]), (422, &place));
    }
    let lenient = json!({"model": "openai/m", "num_retries": "2", "stream": "true", "timeout": 60});
    let made = server.post("/api/conversations", start(lenient, Value::Null)).await;
    let llm = &made.body["agent"]["llm"];
    let found = (&llm["num_retries"], &llm["stream"], &llm["stream_idle_timeout"]);
    assert_eq!((made.status, found), (201, (&json!(2), &json!(true), &json!(60.0))));
}

#[tokio::test]
async fn a_budget_is_set_and_lifted() {
    let server = start(&[]).await;
    let call = || Turn::calls(&[("t", "terminal", json!({"command": "true"}))]);
    let model = ScriptedModel::start([call(), call(), finish("done")]).await;
    let mut priced = llm(&model, "openai/m", "key-of-model");
    priced["input_cost_per_token"] = json!(0.01);
    priced["output_cost_per_token"] = json!(0.01);
    let conversation = create(&server, priced, json!({"max_budget_per_run": 0.05})).await;
    let info = run(&server, &conversation, "go").await;
    assert_eq!(info["execution_status"], "error");
    let sums = &info["stats"]["usage_to_metrics"]["agent"];
    assert!(sums["accumulated_cost"].as_f64().unwrap() >= 0.05, "{sums}");
    assert_eq!(sums["max_budget_per_task"], 0.05);
    assert_eq!(last_error(&server, &conversation).await["code"], "MaxBudgetReached");
    let patched = answer(server.request("PATCH", &conversation).json(&json!({"max_budget_per_run": null}))).await;
    assert_eq!(patched.status, 200, "{patched:?}");
    model.push([finish("done")]);
    assert_eq!(run(&server, &conversation, "more").await["execution_status"], "finished");
    let refused = answer(server.request("PATCH", &conversation).json(&json!({"max_budget_per_run": -1}))).await;
    assert_eq!((refused.status, &refused.body["detail"][0]["loc"]), (422, &json!(["body", "max_budget_per_run"])));
}

#[tokio::test]
async fn a_saved_model_answers_when_the_first_one_cannot() {
    let server = start(&[("OH_SECRET_KEY", "a secret key of the server")]).await;
    let (first, spare) = (
        ScriptedModel::start([Turn::error(503, "overloaded", "try later")]).await,
        ScriptedModel::start([finish("spare")]).await,
    );
    let profile = json!({"llm": llm(&spare, "openai/spare", "key-of-spare-123"), "include_secrets": true});
    let saved = server.post("/api/profiles/spare", profile).await;
    assert_eq!(saved.status, 201, "{saved:?}");
    let mut primary = llm(&first, "openai/first", "key-of-first-123");
    primary["fallback_strategy"] = json!({"fallback_llms": ["gone", "spare"]});
    let conversation = create(&server, primary, json!({})).await;
    let info = run(&server, &conversation, "go").await;
    assert_eq!(info["execution_status"], "finished", "{}", last_event(&server, &conversation).await);
    assert_eq!(keys(&spare), ["Bearer key-of-spare-123"]);
    let sums = &info["stats"]["usage_to_metrics"];
    assert_eq!(sums.as_object().unwrap().len(), 1, "{sums}");
    assert_eq!(sums["agent"]["model_name"], "openai/first");
    assert_eq!(sums["agent"]["token_usages"][0]["model"], "openai/spare");

    first.push([finish("back")]);
    assert_eq!(run(&server, &conversation, "more").await["execution_status"], "finished");
    assert_eq!(keys(&spare).len(), 1, "every call begins with the first one");

    // A profile by name, and back by name of another.
    spare.push([finish("by name")]);
    let switched = server.post(&format!("{conversation}/switch_profile"), json!({"profile_name": "spare"})).await;
    assert_eq!((switched.status, switched.body), (200, json!({"success": true})));
    let info = run(&server, &conversation, "again").await;
    assert_eq!(info["agent"]["llm"]["usage_id"], "profile:spare");
    assert_eq!(info["stats"]["usage_to_metrics"]["profile:spare"]["token_usages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_router_spreads_calls_and_each_model_has_its_sums() {
    let server = start(&[]).await;
    let (sees, reads) = (ScriptedModel::start([]).await, ScriptedModel::start([finish("text")]).await);
    let routed = |model: &ScriptedModel, name: &str, usage_id: &str| {
        let mut llm = llm(model, name, "key-of-routed-123");
        llm["usage_id"] = json!(usage_id);
        llm
    };
    let router = json!({
        "model": "router", "usage_id": "agent", "router_name": "multimodal_router",
        "llms_for_routing": {"primary": routed(&sees, "openai/sees", "sees"), "secondary": routed(&reads, "openai/reads", "reads")},
    });
    let conversation = create(&server, router, json!({})).await;
    let info = run(&server, &conversation, "no image here").await;
    assert_eq!(info["execution_status"], "finished", "{}", last_event(&server, &conversation).await);
    assert_eq!((sees.requests().len(), reads.requests().len()), (0, 1));
    assert_eq!(info["stats"]["usage_to_metrics"]["reads"]["model_name"], "openai/reads");
    assert!(!info.to_string().contains("key-of-routed-123"));
}

/// An agent that edits its own stored state gets no key out of the server.
#[tokio::test]
async fn a_key_is_never_sent_where_a_tool_pointed_it() {
    let folder = tempfile::tempdir().unwrap();
    let conversations = folder.path().join("conversations").to_str().unwrap().to_owned();
    let variables: [(&str, &str); 2] =
        [("OH_CONVERSATIONS_PATH", &conversations), ("OH_SECRET_KEY", "a secret key of the server")];
    let (good, evil) = (ScriptedModel::start([]).await, ScriptedModel::start([finish("evil"), finish("evil")]).await);

    let server = start(&variables).await;
    let conversation = create(&server, llm(&good, "openai/m", "key-of-model-123"), json!({})).await;
    let hex = conversation.rsplit('/').next().unwrap().replace('-', "");
    let state = format!("{conversations}/{hex}/base_state.json");
    let (from, to) = (good.base_url(), evil.base_url());
    let edit = format!("sed -i 's#{from}#{to}#g' {state} && grep -c '{to}' {state}");
    good.push([Turn::calls(&[("t", "terminal", json!({ "command": edit }))]), finish("done")]);
    run(&server, &conversation, "go").await;
    server.state.app().unwrap().drain(Duration::from_secs(10)).await;
    drop(server);
    // Whatever the agent left running could write after the last save.
    let text = std::fs::read_to_string(&state).unwrap();
    std::fs::write(&state, text.replace(&from, &to)).unwrap();
    assert!(!text.contains("key-of-model-123"));

    let server = start(&variables).await;
    let info = run(&server, &conversation, "more").await;
    assert_eq!(info["execution_status"], "error");
    let error = last_error(&server, &conversation).await;
    assert_eq!(error["code"], "LLMAuthenticationError");
    assert!(error["detail"].as_str().unwrap().contains("switch_llm"), "{error}");
    assert!(evil.requests().is_empty(), "{:?}", evil.requests());

    good.push([finish("again")]);
    let switched = server
        .post(&format!("{conversation}/switch_llm"), json!({"llm": llm(&good, "openai/m", "key-of-model-123")}))
        .await;
    assert_eq!(switched.status, 200, "{switched:?}");
    assert_eq!(run(&server, &conversation, "now").await["execution_status"], "finished");
    assert!(evil.requests().is_empty());
}
