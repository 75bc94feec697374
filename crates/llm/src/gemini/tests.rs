//! What is particular about generateContent, against a scripted model on real sockets.

use openhands_protocol::{Content, LlmConfig, Message, Role, ToolCall};
use openhands_testkit::{ScriptedModel, SeenRequest, Turn, llm_config};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{Delta, DeltaSink, LlmError, LlmRequest, LlmResponse, client_for};

fn request() -> LlmRequest {
    LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: Vec::new() }
}

async fn ask(
    turns: impl IntoIterator<Item = Turn>,
    change: impl FnOnce(&mut LlmConfig),
    request: &LlmRequest,
    streamed: bool,
) -> (Result<LlmResponse, LlmError>, Vec<SeenRequest>) {
    let model = ScriptedModel::start(turns).await;
    let mut config = llm_config(&model);
    config.model = "gemini/gemini-3.1-pro-preview".to_owned();
    change(&mut config);
    let client = client_for(&config, &Default::default()).unwrap();
    let mut sink = |_: Delta| {};
    let sink: Option<DeltaSink<'_>> = if streamed { Some(&mut sink) } else { None };
    let response = client.complete(request, sink, &CancellationToken::new()).await;
    (response, model.requests())
}

#[tokio::test]
async fn settings_and_thinking_by_generation() {
    let thinking = async |model: &str, effort: &str| {
        let change = |config: &mut LlmConfig| {
            config.model = format!("gemini/{model}");
            config.reasoning_effort = Some(effort.to_owned());
        };
        let (_, seen) = ask([Turn::text("a")], change, &request(), false).await;
        seen[0].body["generationConfig"]["thinkingConfig"].clone()
    };
    assert_eq!(
        thinking("gemini-3.1-pro-preview", "medium").await,
        json!({"thinkingLevel": "medium", "includeThoughts": true})
    );
    assert_eq!(thinking("gemini-3.1-pro-preview", "none").await, Value::Null);
    assert_eq!(thinking("gemini-2.5-pro", "low").await, json!({"thinkingBudget": 1024, "includeThoughts": true}));
    assert_eq!(thinking("gemini-2.5-flash", "none").await, json!({"thinkingBudget": 0, "includeThoughts": false}));
    let change = |config: &mut LlmConfig| {
        (config.temperature, config.top_p, config.top_k, config.seed) = (Some(0.5), Some(0.25), Some(40.0), Some(7));
        config.max_output_tokens = Some(1000);
        let settings = json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]);
        config.safety_settings = serde_json::from_value(settings).unwrap();
    };
    let mut asked = request();
    asked.messages.insert(0, Message::new(Role::System, vec![Content::text("static")]));
    let (_, seen) = ask([Turn::text("a")], change, &asked, true).await;
    assert_eq!(seen[0].query, "alt=sse");
    assert_eq!(
        seen[0].body,
        json!({
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "systemInstruction": {"parts": [{"text": "static"}]},
            "generationConfig": {
                "temperature": 0.5, "topP": 0.25, "topK": 40.0, "maxOutputTokens": 1000, "seed": 7,
                "thinkingConfig": {"thinkingLevel": "high", "includeThoughts": true},
            },
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        })
    );
}

#[tokio::test]
async fn blocked_prompts_and_unwritten_calls() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}});
    let (response, _) = ask([Turn::raw(200, &blocked.to_string())], |_| {}, &request(), false).await;
    assert_eq!(response.unwrap_err().code(), "LLMContentPolicyViolationError");
    let unwritten = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "content": {}}]});
    for (streamed, body) in [(false, unwritten.to_string()), (true, format!("data: {unwritten}\n\n"))] {
        let turns = [Turn::raw(200, &body), Turn::text("again")];
        let (response, _) = ask(turns, |_| {}, &request(), streamed).await;
        assert_eq!(response.unwrap().message.joined_text(), "again");
    }
}

#[tokio::test]
async fn calls_without_ids_keep_their_signatures() {
    let turn = Turn::calls(&[("", "a", json!({})), ("", "b", json!({"k": 1}))]).signed("c2ln");
    let (response, _) = ask([turn], |_| {}, &request(), true).await;
    let message = response.unwrap().message;
    let calls = message.tool_calls.clone().unwrap();
    assert_ne!(calls[0].id, calls[1].id);
    let mut again = request();
    again.messages.push(message);
    let (_, seen) = ask([Turn::text("x")], |_| {}, &again, false).await;
    let parts = &seen[0].body["contents"][1]["parts"];
    assert_eq!((&parts[0]["thoughtSignature"], parts[1].get("thoughtSignature")), (&json!("c2ln"), None));
}

#[tokio::test]
async fn calls_of_other_models_are_told_apart() {
    let call = ToolCall {
        id: "call_x".to_owned(),
        responses_item_id: None,
        name: "t".to_owned(),
        arguments: "{}".to_owned(),
        origin: Default::default(),
    };
    let called = Message {
        tool_calls: Some(vec![call.clone(), ToolCall { id: "call_y".to_owned(), ..call }]),
        ..Message::new(Role::Assistant, vec![])
    };
    let mut asked = request();
    asked.messages.push(called);
    let (_, seen) = ask([Turn::text("x")], |_| {}, &asked, false).await;
    let parts = &seen[0].body["contents"][1]["parts"];
    assert_eq!(parts[0]["thoughtSignature"], "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=");
    assert_eq!(parts[1].get("thoughtSignature"), None);
    let older = |config: &mut LlmConfig| config.model = "gemini/gemini-2.5-pro".to_owned();
    let (_, seen) = ask([Turn::text("x")], older, &asked, false).await;
    assert!(!seen[0].body.to_string().contains("thoughtSignature"));
}

#[tokio::test]
async fn the_wait_is_read_out_of_the_body() {
    let details = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "9999s"}]);
    let body = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow", "details": details}});
    let (response, _) =
        ask([Turn::raw(429, &body.to_string())], |config| config.num_retries = 1, &request(), false).await;
    let LlmError::RateLimit { retry_after, .. } = response.unwrap_err() else { panic!("a rate limit") };
    assert_eq!(retry_after, Some(std::time::Duration::from_secs(9999)));
}
