//! Bodies of Messages calls.

use openhands_protocol::{LlmConfig, Role, ToolCall, secret::SecretText};

use super::*;
use crate::{endpoint::Endpoint, models::Abilities};

fn rendered(change: impl FnOnce(&mut LlmConfig), request: &LlmRequest) -> Value {
    let mut config = LlmConfig {
        model: "anthropic/claude-opus-4-8".to_owned(),
        api_key: Some(SecretText::new("k")),
        ..LlmConfig::default()
    };
    change(&mut config);
    let endpoint = Endpoint::of(&config, &Default::default()).unwrap();
    let abilities = Abilities::of(&config);
    let attempt = Attempt {
        temperature: config.temperature,
        caching: config.caching_prompt && abilities.cache_marks,
        reasoning: true,
        streamed: false,
    };
    let setup = Setup { config, endpoint, abilities, stop: vec!["END".to_owned()] };
    Rendering { setup: &setup, attempt }.members(request).into()
}

fn image(url: &str) -> Content {
    Content::Image { cache_prompt: false, image_urls: vec![url.to_owned()] }
}

fn call(id: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        responses_item_id: None,
        name: "terminal".to_owned(),
        arguments: arguments.to_owned(),
        origin: Default::default(),
    }
}

fn result(id: &str, content: Vec<Content>) -> Message {
    Message { tool_call_id: Some(id.to_owned()), ..Message::new(Role::Tool, content) }
}

fn conversation() -> LlmRequest {
    LlmRequest {
        messages: vec![
            Message::new(Role::System, vec![Content::text("static"), Content::text("dynamic")]),
            Message::new(Role::User, vec![Content::text("look"), image("data:image/png;base64,AA==")]),
            Message {
                tool_calls: Some(vec![call("toolu_a", r#"{"command":"ls"}"#), call("b.1", "{broken")]),
                thinking_blocks: vec![
                    json!({"type": "thinking", "thinking": "hm", "signature": "sig"}),
                    json!({"type": "redacted_thinking", "data": "secret"}),
                    json!({"type": "thinking", "thinking": "unsigned", "signature": null}),
                ],
                ..Message::new(Role::Assistant, vec![Content::text("I look.\n")])
            },
            result("toolu_a", vec![Content::text("files"), image("https://h/x.png")]),
            result("b.1", vec![Content::text(" ")]),
        ],
        tools: vec![OfferedTool {
            name: "terminal".to_owned(),
            description: "runs".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
        }],
    }
}

#[test]
fn a_conversation_with_thinking_calls_images_and_marks() {
    let body = rendered(|_| {}, &conversation());
    let made = body["messages"][1]["content"][4]["id"].as_str().unwrap().to_owned();
    assert!(made.starts_with("call_"), "{made}");
    assert_eq!(
        body,
        json!({
            "model": "claude-opus-4-8",
            "max_tokens": 128_000,
            "system": [
                {"type": "text", "text": "static", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "dynamic"},
            ],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                ]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "secret"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "toolu_a", "name": "terminal", "input": {"command": "ls"}},
                    {"type": "tool_use", "id": made, "name": "terminal", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_a", "content": [
                        {"type": "text", "text": "files"},
                        {"type": "image", "source": {"type": "url", "url": "https://h/x.png"}},
                    ]},
                    {"type": "tool_result", "tool_use_id": made, "cache_control": {"type": "ephemeral"}},
                ]},
            ],
            "tools": [{"name": "terminal", "description": "runs", "input_schema": {"type": "object", "properties": {}}}],
            "stop_sequences": ["END"],
            "output_config": {"effort": "high"},
            "thinking": {"type": "adaptive", "display": "summarized"},
        })
    );
}

#[test]
fn marks_and_images_can_be_switched_off() {
    let plain =
        rendered(|config| (config.caching_prompt, config.disable_vision) = (false, Some(true)), &conversation());
    let text = plain.to_string();
    assert!(!text.contains("cache_control") && !text.contains("\"image\""), "{text}");
}

#[test]
fn thinking_follows_model_effort_and_history() {
    let thinking = |model: &'static str, effort: &'static str, request: &LlmRequest| {
        let body = rendered(
            |config| {
                config.model = model.to_owned();
                config.reasoning_effort = Some(effort.to_owned());
                config.temperature = Some(0.5);
            },
            request,
        );
        assert_eq!(body.get("temperature"), None, "{model} thinks");
        body.get("thinking").cloned()
    };
    let budget = |tokens: u64| Some(json!({"type": "enabled", "budget_tokens": tokens}));
    let asked = LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: vec![] };
    assert_eq!(thinking("anthropic/claude-sonnet-4-5", "high", &asked), budget(63_999));
    assert_eq!(thinking("anthropic/claude-sonnet-4-5", "none", &asked), None);
    assert_eq!(thinking("anthropic/claude-opus-4-5", "high", &asked), budget(4096));
    assert_eq!(thinking("anthropic/claude-opus-4-5", "low", &asked), budget(1024));
    assert_eq!(thinking("anthropic/claude-opus-4-8", "none", &asked), None);
    // Calls that another model made without thinking: going on with it would be refused.
    let mut unsigned = conversation();
    unsigned.messages[2].thinking_blocks.clear();
    assert_eq!(thinking("anthropic/claude-sonnet-4-5", "high", &unsigned), None);
    assert_eq!(thinking("anthropic/claude-sonnet-4-5", "high", &conversation()), budget(63_999));
    let adaptive = Some(json!({"type": "adaptive", "display": "summarized"}));
    assert_eq!(thinking("anthropic/claude-opus-4-8", "high", &unsigned), adaptive);
}

#[test]
fn sampling_and_limits_of_models_that_take_them() {
    let body = rendered(
        |config| {
            config.model = "anthropic/claude-unknown".to_owned();
            (config.temperature, config.top_p, config.top_k) = (Some(0.5), Some(0.25), Some(40.0));
            config.litellm_extra_body =
                json!({"messages": [], "metadata": {"user_id": "u"}}).as_object().unwrap().clone();
        },
        &LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: vec![] },
    );
    assert_eq!(
        body,
        json!({
            "model": "claude-unknown", "max_tokens": 4096,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            "temperature": 0.5, "top_p": 0.25, "top_k": 40, "stop_sequences": ["END"],
            "metadata": {"user_id": "u"},
        })
    );
}

#[test]
fn the_sides_take_turns_and_nothing_is_empty() {
    let said = |text: &str| Message::new(Role::Assistant, vec![Content::text(text)]);
    let asked = |text: &str| Message::new(Role::User, vec![Content::text(text)]);
    let silent = Message {
        thinking_blocks: vec![json!({"type": "thinking", "thinking": "x", "signature": "s"})],
        ..Message::new(Role::Assistant, vec![])
    };
    let request = LlmRequest {
        messages: vec![said("a"), asked("b"), asked(" "), silent, asked("c"), said("d"), said("e")],
        tools: vec![],
    };
    let body = rendered(|config| config.caching_prompt = false, &request);
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [text("Continue.")]},
            {"role": "assistant", "content": [text("a")]},
            {"role": "user", "content": [text("b"), text("c")]},
            {"role": "assistant", "content": [text("d"), text("e")]},
            {"role": "user", "content": [text("Continue.")]},
        ])
    );
    let mut without_tools = conversation();
    without_tools.tools.clear();
    assert_eq!(rendered(|_| {}, &without_tools)["tool_choice"], json!({"type": "none"}));
}
