//! What goes to the backend of plans, and how its answers and refusals are met, on real sockets.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use openhands_protocol::{Content, LlmConfig, Message, Role, ToolCall, content::CallOrigin, secret::SecretText};
use openhands_testkit::{ScriptedModel, Turn, llm_config};
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{ClientOptions, Credentials, LlmError, LlmRequest, LlmResponse, OfferedTool, TokenSource, client_with};

/// Numbered tokens: each renewal gives the next.
struct Numbered {
    base: Url,
    number: AtomicUsize,
}

impl Numbered {
    fn token(&self) -> Credentials {
        let token = format!("token-{}", self.number.load(Ordering::SeqCst));
        let headers = vec![(HeaderName::from_static("chatgpt-account-id"), HeaderValue::from_static("acct-1"))];
        Credentials::Bearer { token: SecretText::new(token), headers }
    }
}

#[async_trait]
impl TokenSource for Numbered {
    fn base_url(&self) -> Option<Url> {
        Some(self.base.clone())
    }

    async fn current(&self) -> Result<Credentials, LlmError> {
        Ok(self.token())
    }

    async fn renewed(&self, refused: &Credentials) -> Result<Credentials, LlmError> {
        assert_eq!(refused, &self.token());
        self.number.fetch_add(1, Ordering::SeqCst);
        Ok(self.token())
    }
}

fn config(model: &ScriptedModel) -> LlmConfig {
    LlmConfig {
        model: "openai/gpt-5.2-codex".to_owned(),
        auth_type: "subscription".to_owned(),
        // A client may write what it likes: the token decides where it goes.
        base_url: Some("http://127.0.0.1:1/elsewhere".to_owned()),
        api_key: Some(SecretText::new("never-sent")),
        temperature: Some(0.5),
        top_p: Some(0.5),
        max_output_tokens: Some(1000),
        ..llm_config(model)
    }
}

async fn ask(model: &ScriptedModel, config: &LlmConfig, request: &LlmRequest) -> Result<LlmResponse, LlmError> {
    let base = Url::parse(&model.base_url().replace("/v1", "/codex")).unwrap();
    let source = Arc::new(Numbered { base, number: AtomicUsize::new(1) });
    let options = ClientOptions { credentials: Some(source), ..ClientOptions::default() };
    let client = client_with(config, &Default::default(), &options)?;
    client.complete(request, None, &CancellationToken::new()).await
}

fn request() -> LlmRequest {
    let call = ToolCall {
        id: "call_1".to_owned(),
        responses_item_id: Some("fc_1".to_owned()),
        name: "run".to_owned(),
        arguments: "{}".to_owned(),
        origin: CallOrigin::Responses,
    };
    let reasoning =
        json!({"id": "rs_1", "summary": ["s"], "content": null, "encrypted_content": "enc", "status": null});
    LlmRequest {
        messages: vec![
            Message::new(Role::System, vec![Content::text("static"), Content::text("dynamic")]),
            Message::new(Role::User, vec![Content::text("look")]),
            Message {
                tool_calls: Some(vec![call]),
                responses_reasoning_item: Some(reasoning),
                ..Message::new(Role::Assistant, vec![Content::text("I look.")])
            },
            Message {
                tool_call_id: Some("call_1".to_owned()),
                ..Message::new(Role::Tool, vec![Content::text("files")])
            },
        ],
        tools: vec![OfferedTool {
            name: "run".to_owned(),
            description: "runs".to_owned(),
            parameters: json!({"type": "object"}),
        }],
    }
}

/// The backend sends items one by one and ends with an empty output.
fn answer(text: &str) -> Turn {
    let item =
        json!({"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
    let events = [
        json!({"type": "response.created", "response": {"id": "r", "status": "in_progress"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [],
            "usage": {"input_tokens": 7, "output_tokens": 3}}}),
    ];
    Turn::raw(200, &events.map(|event| format!("event: x\ndata: {event}\n\n")).concat())
}

#[tokio::test]
async fn requests_have_only_what_the_backend_takes() {
    let model = ScriptedModel::start([answer("done")]).await;
    let mut config = config(&model);
    config.litellm_extra_body.insert("store".to_owned(), true.into());
    config.litellm_extra_body.insert("service_tier".to_owned(), "flex".into());
    // Nobody listens, and it is streamed all the same.
    let response = ask(&model, &config, &request()).await.unwrap();
    assert_eq!((response.message.joined_text().as_str(), response.usage.prompt_tokens), ("done", 7));
    let [seen] = &model.requests()[..] else { panic!("one request") };
    assert_eq!(seen.path, "/codex/responses");
    let header = |name: &str| seen.headers.get(name).map(|value| value.to_str().unwrap());
    assert_eq!(header("authorization"), Some("Bearer token-1"));
    assert_eq!(header("chatgpt-account-id"), Some("acct-1"));
    assert_eq!(header("originator"), Some("codex_cli_rs"));
    assert_eq!(header("openai-beta"), Some("responses=experimental"));
    let text = |text: &str| json!({"type": "input_text", "text": text});
    assert_eq!(
        seen.body,
        json!({
            "model": "gpt-5.2-codex",
            "instructions": super::INSTRUCTIONS,
            "input": [
                {"role": "user", "content": [text("The rules that you work by:\nstatic\ndynamic\n\n"), text("look")]},
                {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_1", "output": "files"},
            ],
            "tools": [{"type": "function", "name": "run", "description": "runs", "parameters": {"type": "object"}, "strict": false}],
            "tool_choice": "auto",
            "store": false,
            "stream": true,
            "service_tier": "flex",
        })
    );
}

#[tokio::test]
async fn a_system_text_alone_becomes_a_message() {
    let model = ScriptedModel::start([answer("a")]).await;
    let only = |role, text: &str| Message::new(role, vec![Content::text(text)]);
    let request =
        LlmRequest { messages: vec![only(Role::System, "rules"), only(Role::Assistant, "hi")], tools: Vec::new() };
    ask(&model, &config(&model), &request).await.unwrap();
    let first = &model.requests()[0].body["input"][0];
    assert_eq!(
        first,
        &json!({"role": "user", "content": [{"type": "input_text", "text": "The rules that you work by:\nrules\n\n"}]})
    );
}

#[tokio::test]
async fn a_refused_token_is_renewed_once() {
    let refusal =
        || Turn::raw(401, &json!({"error": {"message": "token token-1 expired", "code": "token_expired"}}).to_string());
    let model = ScriptedModel::start([refusal(), answer("after")]).await;
    let response = ask(&model, &config(&model), &request()).await.unwrap();
    assert_eq!(response.message.joined_text(), "after");
    let sent: Vec<_> =
        model.requests().iter().map(|seen| seen.headers["authorization"].to_str().unwrap().to_owned()).collect();
    assert_eq!(sent, ["Bearer token-1", "Bearer token-2"]);

    let model = ScriptedModel::start([refusal(), refusal(), answer("never")]).await;
    let error = ask(&model, &config(&model), &request()).await.unwrap_err();
    assert_eq!((error.code(), model.requests().len()), ("LLMAuthenticationError", 2));
}

#[tokio::test]
async fn a_used_up_plan_is_a_rate_limit_that_waiting_does_not_mend() {
    let used_up = json!({"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_in_seconds": 3600}});
    let model = ScriptedModel::start([Turn::raw(429, &used_up.to_string()), answer("never")]).await;
    let error = ask(&model, &config(&model), &request()).await.unwrap_err();
    assert_eq!((error.code(), model.requests().len()), ("LLMRateLimitError", 1), "{error}");
}

#[tokio::test]
async fn what_cannot_work_is_refused_by_name() {
    let model = ScriptedModel::start([]).await;
    let without = |change: &dyn Fn(&mut LlmConfig)| {
        let mut config = config(&model);
        change(&mut config);
        let error = client_with(&config, &Default::default(), &ClientOptions::default()).err().unwrap();
        (error.code(), error.to_string())
    };
    let (code, text) = without(&|_| {});
    assert!(code == "LLMAuthenticationError" && text.contains("signed in"), "{text}");
    let (_, text) = without(&|config| config.subscription_vendor = Some("acme".to_owned()));
    assert!(text.contains("llm.subscription_vendor \"acme\""), "{text}");
    let (_, text) = without(&|config| config.model = "openai/gpt-4o".to_owned());
    assert!(text.contains("\"gpt-4o\"") && text.contains("gpt-5.2-codex"), "{text}");
    let (_, text) = without(&|config| config.api_mode = "chat".to_owned());
    assert!(text.contains("llm.api_mode"), "{text}");
    let flagged: Value = serde_json::from_value(json!({"is_subscription": true})).unwrap();
    let config: LlmConfig = serde_json::from_value(flagged).unwrap();
    assert!(crate::plan::is_paid_by_plan(&config));
}
