//! Any stored history makes a valid request, for every provider.

use openhands_protocol::{Content, LlmConfig, Message, Role, ToolCall, content::CallOrigin, secret::SecretText};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{cases::Case, validity};
use crate::{
    LlmRequest,
    adapter::{Adapter, Attempt, Setup},
    anthropic::Anthropic,
    bedrock::Bedrock,
    endpoint::{Endpoint, Mode},
    gemini::Gemini,
    models::Abilities,
    openai::OpenAi,
    providers::Interface,
    responses::Responses,
};

/// The body that a request becomes.
pub(super) fn body(model: &str, request: &LlmRequest) -> Value {
    let config = LlmConfig {
        model: model.to_owned(),
        api_key: Some(SecretText::new("k")),
        base_url: Some("http://127.0.0.1:9".to_owned()),
        extra: super::cases::project(),
        ..LlmConfig::default()
    };
    let none = Default::default();
    let endpoint = Endpoint::of(&config, &none).unwrap();
    let abilities = Abilities::of(&config);
    let attempt = Attempt { temperature: None, caching: abilities.cache_marks, reasoning: true, streamed: false };
    let (interface, mode) = (endpoint.provider.interface, endpoint.mode);
    let setup = Setup { config, endpoint, abilities, stop: Vec::new() };
    let body = match (interface, mode) {
        (Interface::OpenAi | Interface::Azure, Mode::Chat) => OpenAi::new(setup).body(request, attempt),
        (Interface::OpenAi | Interface::Azure, Mode::Responses) => Responses::new(setup).body(request, attempt),
        (Interface::Anthropic, _) => Anthropic::new(setup).body(request, attempt),
        (Interface::Gemini, _) => Gemini::new(setup).body(request, attempt),
        (Interface::Bedrock, _) => Bedrock::new(setup).body(request, attempt),
        (Interface::Other, _) => panic!("no adapter"),
    };
    body.unwrap().into()
}

fn id() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "", "call.with:signs", "an id with spaces"]).prop_map(ToOwned::to_owned)
}

fn content() -> impl Strategy<Value = Vec<Content>> {
    let text = prop::sample::select(vec!["", " ", "text", "größe\n"]).prop_map(Content::text);
    let image = prop::sample::select(vec!["data:image/png;base64,AA==", "https://h/x.png"])
        .prop_map(|url| Content::Image { cache_prompt: false, image_urls: vec![url.to_owned()] });
    prop::collection::vec(prop_oneof![3 => text, 1 => image], 0..3)
}

fn call() -> impl Strategy<Value = ToolCall> {
    let name = prop::sample::select(vec!["terminal", "made.up name", "x"]);
    let arguments = prop::sample::select(vec!["{}", r#"{"a": [1]}"#, "{broken", "[]", "", "null"]);
    (id(), name, arguments, prop::option::of(Just("fc_1"))).prop_map(|(id, name, arguments, item)| ToolCall {
        id,
        responses_item_id: item.map(ToOwned::to_owned),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        origin: if item.is_some() { CallOrigin::Responses } else { CallOrigin::Completion },
    })
}

fn blocks() -> impl Strategy<Value = Vec<Value>> {
    prop::sample::subsequence(
        vec![
            json!({"type": "thinking", "thinking": "t", "signature": "s"}),
            json!({"type": "thinking", "thinking": "t", "signature": null}),
            json!({"type": "redacted_thinking", "data": "d"}),
            json!({"type": "thinking", "thinking": "", "signature": "g", "gemini": {"of": "a"}}),
            json!({"type": "thinking", "thinking": "", "signature": null, "openrouter": {"type": "reasoning.text"}}),
            json!("no block"),
        ],
        0..=3,
    )
}

fn message() -> impl Strategy<Value = Message> {
    let item = json!({"id": "rs_1", "summary": ["s"], "content": null, "encrypted_content": "e", "status": null});
    let said = (content(), prop::collection::vec(call(), 0..4), blocks(), prop::option::of(Just(item)));
    let said = said.prop_map(|(content, calls, thinking_blocks, item)| Message {
        tool_calls: (!calls.is_empty()).then_some(calls),
        thinking_blocks,
        responses_reasoning_item: item,
        ..Message::new(Role::Assistant, content)
    });
    let result = (content(), id())
        .prop_map(|(content, id)| Message { tool_call_id: Some(id), ..Message::new(Role::Tool, content) });
    prop_oneof![
        1 => content().prop_map(|content| Message::new(Role::System, content)),
        3 => content().prop_map(|content| Message::new(Role::User, content)),
        5 => said,
        6 => result,
    ]
}

pub(super) fn any_is_valid(case: &Case) {
    let config = ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&prop::collection::vec(message(), 0..12), |messages| {
            let body = body(case.model, &LlmRequest { messages, tools: Vec::new() });
            let faults = validity::faults(case, &body);
            prop_assert!(faults.is_empty(), "{faults:?}\n{body}");
            Ok(())
        })
        .unwrap();
}
