use openhands_protocol::{Content, Message, Role};
use openhands_testkit::{ScriptedModel, Turn, llm_config};
use serde_json::json;

use super::*;
use crate::client_for;

fn slot(model: &ScriptedModel, usage_id: &str) -> Slot {
    let config = LlmConfig { usage_id: usage_id.to_owned(), ..llm_config(model) };
    let client = client_for(&config, &Default::default()).unwrap();
    Slot::new(config, client)
}

fn hello() -> LlmRequest {
    LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: Vec::new() }
}

#[tokio::test]
async fn slots_are_found_by_usage_id_and_count_what_they_spend() {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 2});
    let model =
        ScriptedModel::start([Turn::text("a").usage(Some(usage.clone())), Turn::text("b").usage(Some(usage))]).await;
    let mut registry = LlmRegistry::default();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    registry.subscribe(Box::new(move |slot| heard.lock().unwrap().push(slot.usage_id().to_owned())));
    registry.add(slot(&model, "agent")).unwrap();
    registry.add(slot(&model, "condenser")).unwrap();
    assert_eq!(*told.lock().unwrap(), ["agent", "condenser"]);
    assert_eq!(registry.list_usage_ids().collect::<Vec<_>>(), ["agent", "condenser"]);
    assert_eq!(registry.slots().len(), 2);

    let agent = registry.get("agent").unwrap();
    let response = agent.complete(&hello(), None, &CancellationToken::new()).await.unwrap();
    assert_eq!(response.message.content, [Content::text("a")]);
    agent.complete(&hello(), None, &CancellationToken::new()).await.unwrap();
    let metrics = registry.get("agent").unwrap().metrics();
    assert_eq!((metrics.token_usages().len(), metrics.costs().len(), metrics.response_latencies().len()), (2, 2, 2));
    assert_eq!(metrics.snapshot().accumulated_token_usage.as_ref().unwrap().prompt_tokens, 14);
    assert_eq!(registry.get("condenser").unwrap().metrics(), Metrics::new("openai/scripted"));
    // A failed call is not counted.
    registry.get("agent").unwrap().complete(&hello(), None, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(registry.get("agent").unwrap().metrics(), metrics);
}

#[tokio::test]
async fn a_stream_that_nobody_listens_to_comes_whole() {
    let model = ScriptedModel::start([Turn::text("a"), Turn::text("b")]).await;
    let config = LlmConfig { stream: true, ..llm_config(&model) };
    let client = client_for(&config, &Default::default()).unwrap();
    let slot = Slot::new(config, client);
    slot.complete(&hello(), None, &CancellationToken::new()).await.unwrap();
    let mut pieces = 0;
    slot.complete(&hello(), Some(&mut |_| pieces += 1), &CancellationToken::new()).await.unwrap();
    let streamed: Vec<_> = model.requests().iter().map(|seen| seen.body["stream"] == true).collect();
    assert_eq!(streamed, [false, true]);
    assert!(pieces > 0);
}

#[tokio::test]
async fn errors_name_the_usage_id() {
    let model = ScriptedModel::start([]).await;
    let mut registry = LlmRegistry::default();
    registry.add(slot(&model, "agent")).unwrap();
    assert_eq!(registry.add(slot(&model, "agent")).unwrap_err(), RegistryError::Taken("agent".to_owned()));
    let unknown = registry.get("other").unwrap_err();
    assert_eq!(unknown.to_string(), r#"usage id "other" is not registered; there are: agent"#);
    assert!(registry.remove("other").is_none());
    assert!(registry.remove("agent").is_some() && registry.list_usage_ids().next().is_none());
    registry.add(slot(&model, "agent")).unwrap();
    for number in 1..SLOTS_LIMIT {
        registry.add(slot(&model, &number.to_string())).unwrap();
    }
    assert_eq!(registry.add(slot(&model, "one more")).unwrap_err(), RegistryError::Full);
    assert_ne!(registry.id(), LlmRegistry::default().id());
}

#[tokio::test]
async fn clones_share_metrics_until_they_are_parted() {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 1});
    let model = ScriptedModel::start((0..3).map(|_| Turn::text("a").usage(Some(usage.clone())))).await;
    let agent = slot(&model, "agent");
    let calls = |slot: &Slot| slot.metrics().token_usages().len();
    let mut copy = agent.clone();
    copy.complete(&hello(), None, &CancellationToken::new()).await.unwrap();
    assert_eq!((calls(&agent), calls(&copy)), (1, 1));
    copy.reset_metrics();
    assert_eq!((calls(&agent), calls(&copy)), (1, 0));
    copy.restore_metrics(agent.metrics());
    copy.complete(&hello(), None, &CancellationToken::new()).await.unwrap();
    assert_eq!((calls(&agent), calls(&copy)), (1, 2));
    // A registry parts them by itself.
    let mut registry = LlmRegistry::default();
    let mut other = agent.clone();
    other.config = Arc::new(LlmConfig { usage_id: "condenser".to_owned(), ..agent.config().clone() });
    registry.add(agent).unwrap();
    registry.add(other).unwrap();
    assert_eq!((calls(registry.get("agent").unwrap()), calls(registry.get("condenser").unwrap())), (1, 0));
    registry.get_mut("condenser").unwrap().restore_metrics(Metrics::new("stored"));
    assert_eq!(registry.get("condenser").unwrap().metrics().snapshot().model_name, "stored");
}
