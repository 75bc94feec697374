//! What is particular about Responses, against a scripted model on real sockets.

use openhands_protocol::{Content, LlmConfig, Message, Role, content::CallOrigin};
use openhands_testkit::{ScriptedModel, Turn, llm_config};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{Delta, DeltaSink, LlmError, LlmRequest, LlmResponse, client_for};

fn request() -> LlmRequest {
    LlmRequest {
        messages: vec![
            Message::new(Role::System, vec![Content::text("static"), Content::text("dynamic")]),
            Message::new(Role::User, vec![Content::text("hi")]),
        ],
        tools: Vec::new(),
    }
}

async fn ask(
    model: &ScriptedModel,
    change: impl FnOnce(&mut LlmConfig),
    request: &LlmRequest,
    streamed: bool,
) -> (Result<LlmResponse, LlmError>, Vec<Delta>) {
    let mut config = llm_config(model);
    config.model = "openai/gpt-5".to_owned();
    change(&mut config);
    let client = client_for(&config, &Default::default()).unwrap();
    let mut deltas = Vec::new();
    let mut sink = |delta| deltas.push(delta);
    let sink: Option<DeltaSink<'_>> = if streamed { Some(&mut sink) } else { None };
    let response = client.complete(request, sink, &CancellationToken::new()).await;
    (response, deltas)
}

fn events(events: &[Value]) -> Turn {
    Turn::raw(200, &events.iter().map(|event| format!("event: x\ndata: {event}\n\n")).collect::<String>())
}

#[tokio::test]
async fn requests_are_stateless_and_ask_for_encrypted_reasoning() {
    let model = ScriptedModel::start([Turn::text("a")]).await;
    let change = |config: &mut LlmConfig| {
        config.reasoning_summary = Some("auto".to_owned());
        config.temperature = Some(0.5);
        config.max_output_tokens = Some(1000);
    };
    ask(&model, change, &request(), true).await.0.unwrap();
    assert_eq!(
        model.requests()[0].body,
        json!({
            "model": "gpt-5",
            "instructions": "static\ndynamic",
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
            "max_output_tokens": 1000,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "high", "summary": "auto"},
            "prompt_cache_retention": "24h",
            "stream": true,
        })
    );
}

#[tokio::test]
async fn several_reasoning_items_are_kept_and_sent_back_in_order() {
    let reasoning = |id: &str| {
        json!({"type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": id}],
            "encrypted_content": format!("secret of {id}")})
    };
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "t", "arguments": "{}"});
    let whole = json!({"id": "r", "status": "completed", "output": [reasoning("rs_1"), reasoning("rs_2"), call]});
    let model = ScriptedModel::start([Turn::raw(200, &whole.to_string()), Turn::text("b")]).await;
    let message = ask(&model, |_| {}, &request(), false).await.0.unwrap().message;
    let [kept] = &message.tool_calls.clone().unwrap()[..] else { panic!("one call") };
    assert_eq!((kept.responses_item_id.as_deref(), kept.origin), (Some("fc_1"), CallOrigin::Responses));
    let item = message.responses_reasoning_item.clone().unwrap();
    assert_eq!((&item["id"], &item["summary"]), (&json!("rs_2"), &json!(["rs_2"])));
    let mut again = request();
    let result = Message::new(Role::Tool, vec![Content::text("ok")]);
    again.messages.extend([message, Message { tool_call_id: Some("c".to_owned()), ..result }]);
    ask(&model, |_| {}, &again, false).await.0.unwrap();
    let body = &model.requests()[1].body;
    let sent: Vec<_> = body["input"].as_array().unwrap()[1..].to_vec();
    let mut call = call;
    call.as_object_mut().unwrap().retain(|name, _| name != "status");
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "ok"});
    assert_eq!(sent, [reasoning("rs_1"), reasoning("rs_2"), call, output]);
}

#[tokio::test]
async fn streams_without_pieces_or_without_ends_are_read_too() {
    let item = json!({"type": "message", "id": "m", "role": "assistant",
        "content": [{"type": "output_text", "text": "whole"}]});
    let end = json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}});
    let only_ends = [
        json!({"type": "response.created", "response": {"id": "r", "status": "in_progress"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        end.clone(),
    ];
    let no_ends = [
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "content": []}}),
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "who"}),
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "le"}),
        end,
    ];
    for turn in [events(&only_ends), events(&no_ends)] {
        let model = ScriptedModel::start([turn]).await;
        let (response, deltas) = ask(&model, |_| {}, &request(), true).await;
        let response = response.unwrap();
        assert_eq!((response.id.as_str(), response.message.joined_text().as_str()), ("r", "whole"));
        let said: String = deltas
            .iter()
            .map(|delta| if let Delta::Text(text) = delta { text.as_str() } else { panic!("{delta:?}") })
            .collect();
        assert_eq!(said, "whole");
    }
}

#[tokio::test]
async fn failures_inside_streams_have_their_names() {
    for (event, code) in [
        (
            json!({"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded", "message": "slow"}}}),
            "LLMRateLimitError",
        ),
        (json!({"type": "error", "code": "server_error", "message": "oops"}), "LLMServiceUnavailableError"),
        (
            json!({"type": "error", "error": {"code": "context_length_exceeded", "message": "long"}}),
            "LLMContextWindowExceedError",
        ),
    ] {
        let model = ScriptedModel::start([events(std::slice::from_ref(&event))]).await;
        let error = ask(&model, |config| config.num_retries = 1, &request(), true).await.0.unwrap_err();
        assert_eq!(error.code(), code, "{event}: {error}");
    }
}

#[tokio::test]
async fn cut_off_answers_say_so() {
    for streamed in [false, true] {
        let model = ScriptedModel::start([Turn::text("half").finish_reason(Some("length"))]).await;
        let response = ask(&model, |_| {}, &request(), streamed).await.0.unwrap();
        assert_eq!(response.finish_reason.as_deref(), Some("length"));
    }
}

#[tokio::test]
async fn tools_that_models_know_are_told_by_their_bare_parameters() {
    let model = ScriptedModel::start([Turn::text("a")]).await;
    let offered = |name: &str| crate::OfferedTool {
        name: name.to_owned(),
        description: "d".to_owned(),
        parameters: json!({"type": "object", "properties": {"patch": {"type": "string"}, "summary": {"type": "string"}}}),
    };
    let request = LlmRequest { tools: vec![offered("apply_patch"), offered("other")], ..request() };
    ask(&model, |_| {}, &request, false).await.0.unwrap();
    let bare = json!({"type": "object", "properties": {"patch": {"type": "string"}}, "required": ["patch"]});
    assert_eq!(
        model.requests().first().unwrap().body["tools"],
        json!([
            {"type": "function", "name": "apply_patch", "strict": false, "parameters": bare},
            {"type": "function", "name": "other", "description": "d", "strict": false, "parameters": offered("o").parameters},
        ])
    );
}
