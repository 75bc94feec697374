//! Documents of whole calls against a scripted model, and their bounds.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use openhands_protocol::{Content, Message, Role, secret::SecretText};
use openhands_testkit::{ScriptedModel, Turn, llm_config};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{CallObserver, ClientOptions, LlmRequest, LlmResponse, OfferedTool, client_for, client_with};

#[derive(Default)]
struct Logs(Mutex<Vec<CompletionLog>>);

impl CallObserver for Logs {
    fn wants_body(&self, _: &LlmConfig) -> bool {
        true
    }

    fn finished(&self, trace: &CallTrace<'_>) {
        self.0.lock().unwrap().push(CompletionLog::of(trace));
    }
}

fn request() -> LlmRequest {
    LlmRequest {
        messages: vec![
            Message::new(Role::System, vec![Content::text("be brief")]),
            Message::new(Role::User, vec![Content::text("hi, my key is sk-very-secret")]),
        ],
        tools: vec![OfferedTool {
            name: "terminal".to_owned(),
            description: "runs".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
        }],
    }
}

async fn logged(
    turns: impl IntoIterator<Item = Turn>,
    change: impl FnOnce(&mut LlmConfig),
) -> (CompletionLog, Result<LlmResponse, LlmError>) {
    let model = ScriptedModel::start(turns).await;
    let mut config = LlmConfig {
        api_key: Some(SecretText::new("sk-very-secret")),
        num_retries: 2,
        retry_min_wait: 0,
        retry_max_wait: 0,
        ..llm_config(&model)
    };
    change(&mut config);
    let logs = Arc::new(Logs::default());
    let observer: Arc<dyn CallObserver> = Arc::<Logs>::clone(&logs);
    let options = ClientOptions { observer: Some(observer), ..Default::default() };
    let client = client_with(&config, &Default::default(), &options).unwrap();
    let result = client.complete(&request(), None, &CancellationToken::new()).await;
    let log = logs.0.lock().unwrap().pop().unwrap();
    (log, result)
}

/// Takes out what differs from run to run.
fn steady(mut log: CompletionLog) -> Value {
    for pointer in ["/timestamp", "/latency_sec", "/response/created", "/response/id", "/response/created_at"] {
        if let Some(place) = log.data.pointer_mut(pointer) {
            assert!(!place.is_null(), "{pointer}");
            *place = json!("?");
        }
    }
    for attempt in log.data["attempts"].as_array_mut().unwrap() {
        attempt["began_sec"] = json!("?");
        attempt["latency_sec"] = json!("?");
    }
    log.data
}

const TOOLS: &str = r#"[{"type": "function", "function": {"name": "terminal", "description": "runs",
    "parameters": {"type": "object", "properties": {}}}}]"#;

#[tokio::test]
async fn a_chat_call_looks_as_the_reference_logs_it() {
    let turn = Turn::calls(&[("call_1", "terminal", json!({"command": "ls"}))])
        .saying("Looking.")
        .usage(Some(json!({"prompt_tokens": 10, "completion_tokens": 5})));
    let (log, _) = logged([Turn::error(429, "rate_limit", "slow"), turn], |config| {
        config.input_cost_per_token = Some(0.5);
        config.output_cost_per_token = Some(1.0);
    })
    .await;
    let [model, time, mark] = log.filename.split('-').collect::<Vec<_>>()[..] else { panic!("{}", log.filename) };
    assert_eq!(model, "openai__scripted");
    assert_eq!(time.split('.').map(str::len).collect::<Vec<_>>(), [10, 3]);
    assert_eq!(mark.len(), "abcd.json".len());
    let data = steady(log);
    let kwargs = data["kwargs"].as_object().unwrap();
    assert_eq!(kwargs.get("model"), Some(&json!("scripted")));
    assert!(!kwargs.contains_key("messages") && !kwargs.contains_key("tools"));
    let mut data = data;
    data.as_object_mut().unwrap().remove("kwargs");
    let expected = json!({
        "context_window": 0,
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hi, my key is **********"},
        ],
        "tools": serde_json::from_str::<Value>(TOOLS).unwrap(),
        "response": {
            "id": "?", "object": "chat.completion", "created": "?", "model": "openai/scripted",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": "Looking.",
                "tool_calls": [{"id": "call_1", "type": "function",
                    "function": {"name": "terminal", "arguments": "{\"command\":\"ls\"}"}}],
            }}],
            "usage": {
                "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": 0, "cache_creation_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0},
            },
        },
        "cost": 10.0,
        "usage_summary": {"prompt_tokens": 10, "completion_tokens": 5, "reasoning_tokens": 0, "cache_read_tokens": 0},
        "timestamp": "?",
        "latency_sec": "?",
        "attempts": [
            {"began_sec": "?", "latency_sec": "?", "failure": "LLMRateLimitError"},
            {"began_sec": "?", "latency_sec": "?", "failure": null},
        ],
    });
    assert_eq!(data, expected);
}

#[tokio::test]
async fn other_interfaces_have_messages_and_tools_too() {
    let (log, _) =
        logged([Turn::text("hello")], |config| config.model = "anthropic/claude-sonnet-4-5".to_owned()).await;
    let data = steady(log);
    assert_eq!(data["messages"][0], json!({"role": "system", "content": "be brief"}));
    assert_eq!(data["tools"], serde_json::from_str::<Value>(TOOLS).unwrap());
    assert_eq!(data["response"]["choices"][0]["message"], json!({"role": "assistant", "content": "hello"}));
    assert_eq!(data["kwargs"]["model"], json!("claude-sonnet-4-5"));
    assert!(data["kwargs"].get("system").is_none());

    let (log, _) = logged([Turn::text("hello")], |config| config.api_mode = "responses".to_owned()).await;
    let data = steady(log);
    assert_eq!(data["llm_path"], "responses");
    assert_eq!(data["instructions"], "be brief");
    assert_eq!(data["input"][0]["role"], "user");
    assert_eq!(data["response"]["output"][0]["content"][0]["text"], "hello");
}

#[tokio::test]
async fn a_failure_says_what_was_sent_and_what_came() {
    let (log, result) = logged([Turn::error(400, "bad", "sk-very-secret is not welcome")], |_| {}).await;
    result.unwrap_err();
    assert!(log.filename.ends_with("-error.json"), "{}", log.filename);
    let data = steady(log);
    assert_eq!(data["error"]["type"], "LLMBadRequestError");
    assert_eq!(data["cost"], 0.0);
    assert_eq!(data["messages"][0]["content"], "be brief");
    assert_eq!(data["attempts"][0]["failure"], "LLMBadRequestError");
    assert!(!data.to_string().contains("sk-very-secret"), "{data}");
}

#[test]
fn names_stay_in_their_folder() {
    for model in ["../../etc/passwd", "a\\b:c\n", "/abs", "."] {
        let name = filename(model, 1.0, false);
        assert!(!name.contains(['/', '\\', '\n', ':']), "{name}");
        assert!(name.ends_with(".json"));
    }
    assert!(filename(&"ä".repeat(500), 1.0, true).len() < 160);
}

#[test]
fn large_documents_lose_long_texts_and_old_messages() {
    let messages: Vec<_> = (0..20).map(|number| json!({"content": number.to_string().repeat(40_000)})).collect();
    let log = CompletionLog { filename: String::new(), data: json!({"messages": messages, "cost": 1.0}) };
    assert!(log.text(usize::MAX).unwrap().len() > 800_000);
    let shorter: Value = serde_json::from_str(&log.text(100_000).unwrap()).unwrap();
    assert_eq!(shorter["messages_omitted"], 12);
    assert_eq!(shorter["messages"][7]["content"], "<80000 bytes left out>");
    assert_eq!(log.text(100), None);
}

#[tokio::test]
async fn without_an_observer_the_folder_gets_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let model = ScriptedModel::start([Turn::text("hello"), Turn::text("hello")]).await;
    let mut config = LlmConfig {
        log_completions: true,
        log_completions_folder: folder.path().join("logs").display().to_string(),
        ..llm_config(&model)
    };
    let ask = async |config: &LlmConfig| {
        client_for(config, &Default::default()).unwrap().complete(&request(), None, &CancellationToken::new()).await
    };
    ask(&config).await.unwrap();
    let written = || -> Option<Value> {
        let path = std::fs::read_dir(folder.path().join("logs")).ok()?.next()?.ok()?.path();
        serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
    };
    let document = tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            if let Some(document) = written() {
                return document;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert_eq!(document.await.unwrap()["response"]["choices"][0]["message"]["content"], "hello");
    // A folder that cannot be made fails no call.
    config.log_completions_folder = "/proc/nowhere/logs".to_owned();
    ask(&config).await.unwrap();
}
