//! Scripted servers behind the routers.

use indexmap::IndexMap;
use openhands_protocol::{Message, Role};
use openhands_testkit::{ScriptedModel, Turn, llm_config};

use super::*;
use crate::{Delta, client_for};

fn said(text: &str) -> LlmRequest {
    LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text(text)])], tools: Vec::new() }
}

fn shown() -> LlmRequest {
    let image = Content::Image { cache_prompt: false, image_urls: vec!["data:image/png;base64,AA==".to_owned()] };
    let mut request = said("look");
    request.messages.insert(0, Message::new(Role::Tool, vec![image]));
    request
}

fn slot(model: &ScriptedModel, name: &str) -> LlmConfig {
    LlmConfig { model: format!("openai/{name}"), usage_id: format!("use-{name}"), ..llm_config(model) }
}

fn config(router: Option<&str>, models: &[(&str, LlmConfig)]) -> LlmConfig {
    LlmConfig {
        model: "router".to_owned(),
        router_name: router.map(ToOwned::to_owned),
        llms_for_routing: models.iter().map(|(name, model)| ((*name).to_owned(), model.clone())).collect(),
        ..LlmConfig::default()
    }
}

async fn ask(client: &dyn LlmClient, request: &LlmRequest) -> LlmResponse {
    client.complete(request, None, &CancellationToken::new()).await.unwrap()
}

#[tokio::test]
async fn images_and_long_prompts_go_to_the_primary() {
    let (seeing, cheap) =
        (ScriptedModel::start([Turn::text("p"), Turn::text("p")]).await, ScriptedModel::start([Turn::text("s")]).await);
    let secondary = LlmConfig { max_input_tokens: Some(20_000), ..slot(&cheap, "cheap") };
    let config = config(Some("multimodal_router"), &[("primary", slot(&seeing, "seeing")), ("secondary", secondary)]);
    let client = client_for(&config, &Default::default()).unwrap();
    for (request, text, model, usage_id) in [
        (said("hi"), "s", "openai/cheap", "use-cheap"),
        (shown(), "p", "openai/seeing", "use-seeing"),
        (said(&"word ".repeat(21_000)), "p", "openai/seeing", "use-seeing"),
    ] {
        let response = ask(&*client, &request).await;
        assert_eq!(response.message.joined_text(), text);
        assert_eq!((response.usage.model.as_str(), response.usage_id.as_deref()), (model, Some(usage_id)));
    }
    assert_eq!((seeing.requests().len(), cheap.requests().len()), (2, 1));
}

#[tokio::test]
async fn any_of_them_answers_at_random() {
    let models = [
        ScriptedModel::start((0..64).map(|_| Turn::text("a"))).await,
        ScriptedModel::start((0..64).map(|_| Turn::text("b"))).await,
    ];
    let config = config(Some("random_router"), &[("a", slot(&models[0], "a")), ("b", slot(&models[1], "b"))]);
    let client = client_for(&config, &Default::default()).unwrap();
    for _ in 0..64 {
        ask(&*client, &said("hi")).await;
    }
    // Both stay out once in 2^63 runs.
    assert!(models.iter().all(|model| !model.requests().is_empty()));
}

#[tokio::test]
async fn a_router_is_a_client_with_streams_and_cancellation() {
    let model = ScriptedModel::start([Turn::text("streamed")]).await;
    let config = config(Some("random_router"), &[("only", slot(&model, "only"))]);
    let client = client_for(&config, &Default::default()).unwrap();
    let mut text = String::new();
    let mut sink = |delta| {
        if let Delta::Text(piece) = delta {
            text.push_str(&piece);
        }
    };
    client.complete(&said("hi"), Some(&mut sink), &CancellationToken::new()).await.unwrap();
    assert_eq!(text, "streamed");
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    assert!(matches!(client.complete(&said("hi"), None, &cancelled).await, Err(LlmError::Cancelled)));
}

#[tokio::test]
async fn wrong_routers_are_named() {
    let server = ScriptedModel::start([]).await;
    let model = || slot(&server, "m");
    let refused = |router: Option<&str>, models: &[(&str, LlmConfig)]| {
        client_for(&config(router, models), &Default::default())
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    for (router, models, expected) in [
        (
            Some("multimodal_router"),
            vec![],
            "llm.llms_for_routing is empty, multimodal_router needs at least one model",
        ),
        (
            Some("multimodal_router"),
            vec![("secondary", model())],
            "llm.llms_for_routing has no model called \"primary\", which multimodal_router needs",
        ),
        (
            Some("multimodal_router"),
            vec![("primary", model())],
            "llm.llms_for_routing has no model called \"secondary\", which multimodal_router needs",
        ),
        (
            Some("mine"),
            vec![("a", model())],
            "not supported: llm.router_name \"mine\"; there are \"multimodal_router\" and \"random_router\"",
        ),
        (
            None,
            vec![("a", model())],
            "llm.llms_for_routing is set, llm.router_name is not: set it to \"multimodal_router\" or \"random_router\"",
        ),
    ] {
        assert_eq!(refused(router, &models), expected);
    }
    let nested = config(Some("random_router"), &[("a", model())]);
    assert!(refused(Some("random_router"), &[("nested", nested)]).contains("a router among them"));
    let bad = LlmConfig { model: "sagemaker/x".to_owned(), ..model() };
    assert!(refused(Some("random_router"), &[("a", model()), ("bad", bad)]).contains("sagemaker"));
}

/// Long ones here, short ones there, and now and then nonsense.
struct ByLength;

impl Router for ByLength {
    fn name(&self) -> &str {
        "by_length"
    }

    fn select(&self, request: &LlmRequest, _models: &RoutedModels) -> String {
        match request.messages[0].joined_text().len() {
            0 => "nobody".to_owned(),
            1..10 => "short".to_owned(),
            _ => "long".to_owned(),
        }
    }
}

#[tokio::test]
async fn own_routers_choose_too() {
    let server = ScriptedModel::start([Turn::text("1"), Turn::text("2")]).await;
    let model = |name: &str| {
        let config = slot(&server, name);
        let client = client_for(&config, &Default::default()).unwrap();
        (name.to_owned(), RoutedModel::new(config, client))
    };
    let routed = Routed::new(Box::new(ByLength), vec![model("short"), model("long")]).unwrap();
    assert_eq!(ask(&routed, &said("hi")).await.usage.model, "openai/short");
    assert_eq!(ask(&routed, &said("a longer text")).await.usage.model, "openai/long");
    let error = routed.complete(&said(""), None, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "by_length chose the model \"nobody\", which is not in llm.llms_for_routing; there are: short, long"
    );
    assert!(
        Routed::new(Box::new(ByLength), vec![model("a"), model("a")])
            .err()
            .unwrap()
            .to_string()
            .contains("two models called \"a\"")
    );
}

#[test]
fn keys_of_routed_models_are_masked() {
    let config = LlmConfig {
        llms_for_routing: IndexMap::from([(
            "a".to_owned(),
            LlmConfig { api_key: Some(openhands_protocol::secret::SecretText::new("hidden")), ..LlmConfig::default() },
        )]),
        ..LlmConfig::default()
    };
    assert!(!serde_json::to_string(&config).unwrap().contains("hidden") && !format!("{config:?}").contains("hidden"));
}
