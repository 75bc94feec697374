//! Scripted servers as primary and as saved profiles.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use openhands_protocol::{Content, Message, Role};
use openhands_testkit::{ScriptedModel, Turn, llm_config};

use super::*;
use crate::{ClientOptions, client_with};

fn hello() -> LlmRequest {
    LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: Vec::new() }
}

fn error(status: u16) -> Turn {
    Turn::error(status, "some_error", "told so")
}

/// A primary with saved models behind it.
struct Stage {
    primary: ScriptedModel,
    profiles: Arc<Mutex<BTreeMap<String, LlmConfig>>>,
    looked_up: Arc<AtomicUsize>,
}

impl Stage {
    async fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { primary: ScriptedModel::start(turns).await, profiles: Arc::default(), looked_up: Arc::default() }
    }

    async fn profile(&self, name: &str, turns: impl IntoIterator<Item = Turn>) -> ScriptedModel {
        let model = ScriptedModel::start(turns).await;
        let config = LlmConfig { model: format!("openai/{name}"), num_retries: 1, ..llm_config(&model) };
        self.profiles.lock().unwrap().insert(name.to_owned(), config);
        model
    }

    fn client(&self, names: &[&str]) -> Arc<dyn LlmClient> {
        let (profiles, looked_up) = (Arc::clone(&self.profiles), Arc::clone(&self.looked_up));
        let look_up: ProfileLookup = Arc::new(move |name| {
            looked_up.fetch_add(1, Ordering::Relaxed);
            profiles.lock().unwrap().get(name).cloned().ok_or_else(|| format!("there is no profile {name:?}"))
        });
        let strategy = FallbackStrategy {
            fallback_llms: names.iter().map(|name| (*name).to_owned()).collect(),
            profile_store_dir: None,
        };
        let config = LlmConfig {
            model: "openai/primary".to_owned(),
            num_retries: 1,
            fallback_strategy: Some(strategy),
            ..llm_config(&self.primary)
        };
        let options = ClientOptions { profiles: Some(look_up), ..ClientOptions::default() };
        client_with(&config, &Default::default(), &options).unwrap()
    }
}

async fn ask(client: &dyn LlmClient) -> Result<LlmResponse, LlmError> {
    client.complete(&hello(), None, &CancellationToken::new()).await
}

/// Text and model of an answer.
fn told(response: Result<LlmResponse, LlmError>) -> (String, String) {
    let response = response.unwrap();
    (response.message.joined_text(), response.usage.model)
}

fn pair(text: &str, model: &str) -> (String, String) {
    (text.to_owned(), model.to_owned())
}

#[tokio::test]
async fn every_call_begins_with_the_primary() {
    let stage = Stage::new([error(503), Turn::text("first again")]).await;
    let other = stage.profile("other", [Turn::text("instead")]).await;
    let client = stage.client(&["other"]);
    assert_eq!(stage.looked_up.load(Ordering::Relaxed), 0, "profiles are loaded when they are needed");
    assert_eq!(told(ask(&*client).await), pair("instead", "openai/other"));
    assert_eq!(told(ask(&*client).await), pair("first again", "openai/primary"));
    assert_eq!((stage.primary.requests().len(), other.requests().len()), (2, 1));
}

#[tokio::test]
async fn others_are_tried_in_their_order_and_loaded_once() {
    let stage = Stage::new([error(429), error(500)]).await;
    let first = stage.profile("first", [error(503), error(503)]).await;
    let second = stage.profile("second", [Turn::text("a"), Turn::text("b")]).await;
    let third = stage.profile("third", []).await;
    let client = stage.client(&["first", "second", "third"]);
    for text in ["a", "b"] {
        assert_eq!(told(ask(&*client).await), pair(text, "openai/second"));
    }
    assert_eq!((first.requests().len(), second.requests().len(), third.requests().len()), (2, 2, 0));
    assert_eq!(stage.looked_up.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn when_all_fail_the_primarys_error_is_told() {
    let stage = Stage::new([error(429)]).await;
    let other = stage.profile("other", [error(401)]).await;
    let failure = ask(&*stage.client(&["other"])).await.unwrap_err();
    assert_eq!(failure.code(), "LLMRateLimitError");
    assert_eq!(other.requests().len(), 1);
}

#[tokio::test]
async fn only_what_may_heal_goes_to_others() {
    for (turn, code) in [
        (error(400), "LLMBadRequestError"),
        (error(401), "LLMAuthenticationError"),
        (Turn::error(400, "context_length_exceeded", "too long"), "LLMContextWindowExceedError"),
        (Turn::error(429, "budget_exceeded", "ExceededBudget: budget has been exceeded"), "LLMRateLimitError"),
    ] {
        let stage = Stage::new([turn]).await;
        let other = stage.profile("other", [Turn::text("no")]).await;
        assert_eq!(ask(&*stage.client(&["other"])).await.unwrap_err().code(), code);
        assert_eq!(other.requests().len(), 0, "{code}");
    }
    for turn in [error(408), error(429), error(500), error(503), Turn::raw(200, "{}"), Turn::text("x").cut_after(10)] {
        let stage = Stage::new([turn]).await;
        let _other = stage.profile("other", [Turn::text("yes")]).await;
        assert_eq!(told(ask(&*stage.client(&["other"])).await).0, "yes");
    }
}

#[tokio::test]
async fn own_attempts_come_first() {
    let stage = Stage::new([error(503), error(503), Turn::text("third time")]).await;
    let other = stage.profile("other", []).await;
    let strategy = FallbackStrategy { fallback_llms: vec!["other".to_owned()], profile_store_dir: None };
    let config = LlmConfig { num_retries: 3, fallback_strategy: Some(strategy), ..llm_config(&stage.primary) };
    let options =
        ClientOptions { profiles: Some(Arc::new(|_| Err("not needed".to_owned()))), ..ClientOptions::default() };
    let client = client_with(&config, &Default::default(), &options).unwrap();
    assert_eq!(told(ask(&*client).await).0, "third time");
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test]
async fn a_spending_limit_of_a_fallback_ends_the_call() {
    let stage = Stage::new([error(503)]).await;
    let _first = stage.profile("first", [Turn::error(429, "budget_exceeded", "budget has been exceeded")]).await;
    let second = stage.profile("second", [Turn::text("no")]).await;
    assert_eq!(ask(&*stage.client(&["first", "second"])).await.unwrap_err().code(), "LLMRateLimitError");
    assert_eq!(second.requests().len(), 0);
}

#[tokio::test]
async fn fallbacks_of_fallbacks_stay_out() {
    let stage = Stage::new([error(503)]).await;
    let _first = stage.profile("first", [error(503)]).await;
    let nested = stage.profile("nested", [Turn::text("no")]).await;
    let strategy = FallbackStrategy { fallback_llms: vec!["nested".to_owned()], profile_store_dir: None };
    stage.profiles.lock().unwrap().get_mut("first").unwrap().fallback_strategy = Some(strategy);
    assert_eq!(ask(&*stage.client(&["first"])).await.unwrap_err().code(), "LLMServiceUnavailableError");
    assert_eq!(nested.requests().len(), 0);
}

#[tokio::test]
async fn missing_and_broken_profiles_are_skipped_until_they_are_repaired() {
    let stage = Stage::new([error(503), error(503)]).await;
    let good = stage.profile("good", [Turn::text("good")]).await;
    let broken = LlmConfig { model: "sagemaker/x".to_owned(), ..LlmConfig::default() };
    stage.profiles.lock().unwrap().insert("broken".to_owned(), broken);
    let client = stage.client(&["missing", "broken", "good"]);
    assert_eq!(told(ask(&*client).await).0, "good");
    let _late = stage.profile("missing", [Turn::text("repaired")]).await;
    assert_eq!(told(ask(&*client).await).0, "repaired");
    assert_eq!(good.requests().len(), 1);
}

#[tokio::test]
async fn pieces_of_failed_attempts_are_taken_back() {
    let long = || Turn::text("a text that is long enough to be cut somewhere in its middle, wherever that may be");
    let stage = Stage::new([long().cut_after(900), long().cut_after(900)]).await;
    let _first = stage.profile("first", [long().cut_after(900), long().cut_after(900)]).await;
    let _second = stage.profile("second", [Turn::text("whole"), error(503)]).await;
    let client = stage.client(&["first", "second"]);
    let mut deltas = Vec::new();
    let mut sink = |delta| deltas.push(delta);
    let response = client.complete(&hello(), Some(&mut sink), &CancellationToken::new()).await.unwrap();
    assert_eq!(response.message.joined_text(), "whole");
    let restarts = deltas.iter().filter(|delta| **delta == Delta::Restart).count();
    assert_eq!(restarts, 2);
    let last = deltas.iter().rposition(|delta| *delta == Delta::Restart).unwrap();
    let kept: String = deltas[last..]
        .iter()
        .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(kept, "whole");
    // Nothing stays when nobody answers.
    deltas.clear();
    let mut sink = |delta| deltas.push(delta);
    client.complete(&hello(), Some(&mut sink), &CancellationToken::new()).await.unwrap_err();
    assert_eq!(deltas.last(), Some(&Delta::Restart));
}

#[tokio::test]
async fn cancelling_ends_everything_at_once() {
    let stage = Stage::new([error(503)]).await;
    let other = stage.profile("other", [Turn::text("never").delay(Duration::from_secs(600))]).await;
    let next = stage.profile("next", [Turn::text("no")]).await;
    let (client, cancel) = (stage.client(&["other", "next"]), CancellationToken::new());
    let (request, asked) = (hello(), cancel.clone());
    let call = tokio::spawn(async move { client.complete(&request, None, &asked).await });
    other.answering().await;
    cancel.cancel();
    assert!(matches!(call.await.unwrap(), Err(LlmError::Cancelled)));
    other.idle().await;
    assert_eq!(next.requests().len(), 0);
}

#[tokio::test]
async fn wrong_strategies_are_named() {
    let stage = Stage::new([]).await;
    let made = |strategy: FallbackStrategy, profiles: Option<ProfileLookup>| {
        let config = LlmConfig { fallback_strategy: Some(strategy), ..llm_config(&stage.primary) };
        let options = ClientOptions { profiles, ..ClientOptions::default() };
        client_with(&config, &Default::default(), &options).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let none: ProfileLookup = Arc::new(|_| Err(String::new()));
    let names = |count: usize| FallbackStrategy { fallback_llms: vec!["x".to_owned(); count], profile_store_dir: None };
    assert!(made(names(1), None).contains("llm.fallback_strategy"));
    assert_eq!(made(names(0), None), "");
    assert!(made(names(17), Some(Arc::clone(&none))).contains("fallback_llms has 17 names, at most 16"));
    let elsewhere = FallbackStrategy { profile_store_dir: Some("/etc".to_owned()), ..names(1) };
    assert!(made(elsewhere, Some(none)).contains("not supported: llm.fallback_strategy.profile_store_dir"));
}
