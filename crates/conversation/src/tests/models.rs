//! Which model is asked, changing it, and what each usage id has spent.

use std::{collections::BTreeMap, fs, sync::Arc};

use async_trait::async_trait;
use openhands_llm::{DeltaSink, LlmClient, LlmError, LlmRequest, LlmResponse};
use openhands_protocol::{Event, ExecutionStatus, LlmConfig, secret::SecretText};
use serde_json::{Value, json};
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::stage::{Stage, Turn, call, echo, events, finish, status, story, turn};
use crate::{AskError, Conversation, NewConversation, ProfileProblem, Profiles, SendMessage, SwitchError};

/// Model and key of every call, in order.
type Asked = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// The stage's model under the name that it was configured with. `openai/down` answers as its fallback.
struct Named {
    config: LlmConfig,
    inner: Arc<dyn LlmClient>,
    asked: Asked,
}

#[async_trait]
impl LlmClient for Named {
    async fn complete(
        &self,
        request: &LlmRequest,
        deltas: Option<DeltaSink<'_>>,
        cancel: &CancellationToken,
    ) -> Result<LlmResponse, LlmError> {
        let key = self.config.api_key.as_ref().map(|key| key.expose().to_owned());
        self.asked.lock().unwrap().push((self.config.model.clone(), key));
        let mut response = self.inner.complete(request, deltas, cancel).await?;
        let answered_by = if self.config.model == "openai/down" { "openai/spare" } else { &self.config.model };
        response.usage.model = answered_by.to_owned();
        Ok(response)
    }
}

struct Saved(BTreeMap<String, LlmConfig>);

impl Profiles for Saved {
    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn load(&self, name: &str) -> Result<LlmConfig, ProfileProblem> {
        if name.contains('/') {
            return Err(ProfileProblem::Unusable { name: name.to_owned(), reason: "no name".to_owned() });
        }
        self.0.get(name).cloned().ok_or_else(|| ProfileProblem::NotFound { name: name.to_owned(), known: self.names() })
    }
}

fn config(model: &str, key: &str) -> LlmConfig {
    LlmConfig { model: model.to_owned(), api_key: Some(SecretText::new(key)), ..LlmConfig::default() }
}

/// A stage whose models have names, with one saved profile.
fn stage(turns: Vec<Turn>) -> (Stage, Asked) {
    let mut stage = Stage::new(turns);
    let asked = Asked::default();
    let (inner, asked_by): (Arc<dyn LlmClient>, _) = (stage.model.clone(), Arc::clone(&asked));
    let env = Arc::get_mut(&mut stage.env).unwrap();
    env.llm = Arc::new(move |config, _| {
        if config.model.starts_with("nobody/") {
            return Err(LlmError::NotSupported("provider \"nobody\"".to_owned()));
        }
        Ok(Arc::new(Named { config: config.clone(), inner: Arc::clone(&inner), asked: Arc::clone(&asked_by) }))
    });
    let saved = LlmConfig { max_message_chars: 77, ..config("openai/fast", "fast-key-123") };
    env.profiles = Some(Arc::new(Saved([("fast".to_owned(), saved)].into())));
    (stage, asked)
}

fn models(asked: &Asked) -> Vec<String> {
    asked.lock().unwrap().iter().map(|(model, _)| model.clone()).collect()
}

/// Usage id, configured model, cost, and the models that answered.
fn spent(conversation: &Conversation) -> Vec<(String, String, f64, Vec<String>)> {
    let info = conversation.info();
    let by_usage = info["stats"]["usage_to_metrics"].as_object().unwrap();
    by_usage
        .iter()
        .map(|(usage_id, entry)| {
            let answered = entry["token_usages"].as_array().unwrap().iter();
            (
                usage_id.clone(),
                entry["model_name"].as_str().unwrap().to_owned(),
                entry["accumulated_cost"].as_f64().unwrap(),
                answered.map(|usage| usage["model"].as_str().unwrap().to_owned()).collect(),
            )
        })
        .collect()
}

fn row(usage_id: &str, model: &str, cost: f64, answered: &[&str]) -> (String, String, f64, Vec<String>) {
    (usage_id.to_owned(), model.to_owned(), cost, answered.iter().map(|name| (*name).to_owned()).collect())
}

#[tokio::test]
async fn a_model_is_changed_between_turns_and_both_keep_their_sums() {
    let (stage, asked) = stage(vec![echo("x"), finish("one"), finish("two"), finish("three")]);
    let conversation = stage.create(stage.request()).await;
    turn(&conversation, "first").await;
    assert_eq!(conversation.switch_profile("fast").await.unwrap(), "openai/fast");
    let expected =
        [row("agent", "openai/mock", 1.0, &["openai/mock"; 2]), row("profile:fast", "openai/fast", 0.0, &[])];
    assert_eq!(spent(&conversation), expected);
    let info = conversation.info();
    assert_eq!(
        (&info["agent"]["llm"]["model"], &info["agent"]["llm"]["api_key"]),
        (&json!("openai/fast"), &Value::Null)
    );
    let log = events(&conversation);
    let Some(Event::StateUpdate(update)) = log.last() else { panic!("a change is told") };
    assert_eq!(update.key, "agent");
    assert_eq!(
        (&update.value["llm"]["usage_id"], &update.value["llm"]["api_key"]),
        (&json!("profile:fast"), &json!("**********"))
    );
    assert_eq!(update.value["llm"].get("base_url"), None, "no nulls on the wire");

    turn(&conversation, "second").await;
    assert_eq!(models(&asked), ["openai/mock", "openai/mock", "openai/fast"]);
    assert_eq!(asked.lock().unwrap()[2].1.as_deref(), Some("fast-key-123"));
    assert!(stage.requests()[2].messages.len() > 4, "the history goes along");
    let before = events(&conversation).len();
    conversation.switch_profile("fast").await.unwrap();
    assert_eq!(events(&conversation).len(), before, "nothing is told when nothing changes");

    conversation.close().await;
    let base = fs::read_to_string(stage.dir().join("base_state.json")).unwrap();
    assert!(!base.contains("fast-key-123"));
    let again = stage.load().await;
    assert_eq!(again.info()["agent"]["llm"]["model"], "openai/fast");
    turn(&again, "third").await;
    assert_eq!(asked.lock().unwrap()[3], ("openai/fast".to_owned(), Some("fast-key-123".to_owned())));
    let expected = [
        row("agent", "openai/mock", 1.0, &["openai/mock"; 2]),
        row("profile:fast", "openai/fast", 1.0, &["openai/fast"; 2]),
    ];
    assert_eq!(spent(&again), expected, "sums are attached again");
    assert!((again.combined_metrics().snapshot().accumulated_cost - 2.0).abs() < 1e-9);
    assert_eq!(again.metrics_for_usage("profile:fast").unwrap().token_usages().len(), 2);
    assert_eq!(
        again.metrics_for_usage("nobody").unwrap_err().to_string(),
        "nothing was spent under usage id \"nobody\"; there are: agent, profile:fast"
    );
}

#[tokio::test]
async fn a_call_that_is_out_finishes_with_the_old_model() {
    let (stage, asked) = stage(vec![Turn::Held(Box::new(echo("x"))), finish("done")]);
    let conversation = stage.create(stage.request()).await;
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    stage.asked(1).await;
    conversation.switch_llm(LlmConfig { usage_id: "second".to_owned(), ..config("openai/b", "k") }).await.unwrap();
    stage.release_model();
    status(&conversation, ExecutionStatus::Finished).await;
    assert_eq!(models(&asked), ["openai/mock", "openai/b"]);
    let expected = [row("agent", "openai/mock", 0.5, &["openai/mock"]), row("second", "openai/b", 0.5, &["openai/b"])];
    assert_eq!(spent(&conversation), expected);
}

#[tokio::test]
async fn the_agent_changes_its_own_model() {
    let choose = |name: &str| call("switch_llm", json!({"profile_name": name, "reason": "cheaper"}));
    let (stage, asked) = stage(vec![choose("nope"), choose("fast"), finish("done")]);
    let request = stage.request_with(json!({"include_default_tools": ["FinishTool", "SwitchLLMTool"]}));
    let conversation = stage.create(request).await;
    turn(&conversation, "go").await;
    assert_eq!(models(&asked), ["openai/mock", "openai/mock", "openai/fast"]);
    assert_eq!(
        story(&conversation)[3..],
        [
            "action switch_llm",
            "result The model stays as it is: profile \"nope\" does not exist; there are: fast.",
            "action switch_llm",
            "agent changed",
            "result The profile 'fast' is active: openai/fast answers from the next step on.",
            "action finish",
            "result done",
            "finished"
        ]
    );
    let results: Vec<Value> = events(&conversation)
        .iter()
        .filter_map(
            |event| if let Event::Observation(result) = event { Some(result.observation.clone()) } else { None },
        )
        .collect();
    assert_eq!((&results[0]["is_error"], &results[0]["profile_name"]), (&json!(true), &json!("nope")));
    assert_eq!((&results[1]["is_error"], &results[1]["active_model"]), (&json!(false), &json!("openai/fast")));
}

#[tokio::test]
async fn what_cannot_work_leaves_the_old_model() {
    let (stage, asked) = stage(vec![Turn::Say("hi")]);
    let conversation = stage.create(stage.request()).await;
    let refused = async |llm: LlmConfig| match conversation.switch_llm(llm).await {
        Err(SwitchError::Invalid { member, .. }) => member,
        Err(other) => other.to_string(),
        Ok(model) => model,
    };
    assert_eq!(refused(config(" ", "k")).await, "llm.model");
    assert_eq!(refused(config("nobody/x", "k")).await, "llm");
    let elsewhere = LlmConfig { base_url: Some("https://b.example".to_owned()), ..config("openai/x", "**********") };
    assert_eq!(refused(elsewhere).await, "llm.api_key");
    let profile = async |name: &str| conversation.switch_profile(name).await.unwrap_err().to_string();
    assert_eq!(profile("nope").await, "profile \"nope\" does not exist; there are: fast");
    assert_eq!(profile("../x").await, "profile \"../x\": no name");
    turn(&conversation, "go").await;
    assert_eq!(models(&asked), ["openai/mock"]);
    assert_eq!(story(&conversation).iter().filter(|line| *line == "agent changed").count(), 0);
}

#[tokio::test]
async fn a_masked_key_is_kept_for_the_same_address() {
    let (stage, asked) = stage(vec![Turn::Say("hi")]);
    let conversation = stage.create(stage.request()).await;
    conversation.switch_llm(config("openai/other", "**********")).await.unwrap();
    turn(&conversation, "go").await;
    assert_eq!(*asked.lock().unwrap(), [("openai/other".to_owned(), Some("model-key-1".to_owned()))]);
}

#[tokio::test]
async fn a_key_is_not_sent_where_a_changed_state_points() {
    let (stage, asked) = stage(vec![Turn::Say("one"), Turn::Say("two"), Turn::Say("three")]);
    let conversation = stage.create(stage.request()).await;
    turn(&conversation, "go").await;
    conversation.close().await;
    let path = stage.dir().join("base_state.json");
    let mut base: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    base["agent"]["llm"]["base_url"] = json!("https://evil.example/v1");
    fs::write(&path, base.to_string()).unwrap();

    let again = stage.load().await;
    again.send_message(SendMessage { run: true, ..SendMessage::text("more") }).await.unwrap();
    status(&again, ExecutionStatus::Error).await;
    assert_eq!(asked.lock().unwrap().len(), 1, "nobody was asked");
    let log = events(&again);
    let Some(Event::ConversationError(error)) = log.iter().rev().find(|e| matches!(e, Event::ConversationError(_)))
    else {
        panic!("an error")
    };
    assert_eq!(error.code, "LLMAuthenticationError");
    assert!(error.detail.contains("switch_llm"), "{}", error.detail);
    assert!(matches!(again.ask_agent("why?").await, Err(AskError::Model(_))));
    // Not even a restart makes the changed address the right one.
    again.close().await;
    let again = stage.load().await;
    again.run().await.unwrap();
    status(&again, ExecutionStatus::Error).await;
    assert_eq!(asked.lock().unwrap().len(), 1);

    again
        .switch_llm(LlmConfig { usage_id: "agent".to_owned(), ..config("openai/mock", "new-key-12345") })
        .await
        .unwrap();
    turn(&again, "now").await;
    assert_eq!(asked.lock().unwrap()[1], ("openai/mock".to_owned(), Some("new-key-12345".to_owned())));
}

#[tokio::test]
async fn questions_are_answered_beside_the_run() {
    let (stage, asked) =
        stage(vec![echo("x"), Turn::Held(Box::new(finish("done"))), Turn::Say("because"), Turn::Say("again")]);
    let conversation = stage.create(stage.request()).await;
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    stage.asked(2).await;
    let told = story(&conversation);
    assert_eq!(conversation.ask_agent("why?").await.unwrap(), "because");
    assert!(stage.last_read().contains("<question>\nwhy?\n</question>"), "{}", stage.last_read());
    assert_eq!(stage.requests()[2].messages.len(), stage.requests()[1].messages.len() + 1);
    assert_eq!(story(&conversation), told, "nothing of it is recorded");
    stage.release_model();
    status(&conversation, ExecutionStatus::Finished).await;
    conversation.switch_profile("fast").await.unwrap();
    assert_eq!(conversation.ask_agent("and now?").await.unwrap(), "again");
    assert_eq!(models(&asked), ["openai/mock", "openai/mock", "openai/mock", "openai/fast"]);
    let asking = conversation.metrics_for_usage("ask-agent-llm").unwrap();
    let answered: Vec<_> = asking.token_usages().iter().map(|usage| usage.model.as_str()).collect();
    assert_eq!(answered, ["openai/mock", "openai/fast"]);
}

#[tokio::test]
async fn calls_in_the_conversations_name_are_counted_with_it() {
    let (stage, asked) = stage(vec![]);
    let conversation = stage.create(stage.request()).await;
    let request = LlmRequest { messages: Vec::new(), tools: Vec::new() };
    let own = LlmConfig { usage_id: "mine".to_owned(), ..config("openai/mine", "key-of-mine-1") };
    assert_eq!(conversation.complete(own.clone(), request.clone()).await.unwrap().message.joined_text(), "Mock title");
    assert_eq!(models(&asked), ["openai/mine"]);
    assert_eq!(spent(&conversation), [row("mine", "openai/mine", 0.5, &["openai/mine"])]);
    assert_eq!(conversation.metrics_for_usage("mine").unwrap().costs().len(), 1);
    conversation.set_budget(Some(0.5)).await.unwrap();
    let refused = conversation.complete(own, request).await.unwrap_err().to_string();
    assert!(refused.contains("max_budget_per_run"), "{refused}");
}

#[tokio::test]
async fn records_keep_the_model_that_answered() {
    let (stage, _) = stage(vec![Turn::Say("hi")]);
    let conversation =
        stage.create(stage.request_with(json!({"llm": {"model": "openai/down", "usage_id": "agent"}}))).await;
    turn(&conversation, "go").await;
    assert_eq!(spent(&conversation), [row("agent", "openai/down", 0.5, &["openai/spare"])]);
    let info = conversation.info();
    let entry = &info["stats"]["usage_to_metrics"]["agent"];
    assert_eq!(entry["accumulated_token_usage"]["model"], "openai/down");
    assert_eq!(
        (&entry["costs"][0]["model"], &entry["response_latencies"][0]["model"]),
        (&json!("openai/spare"), &json!("openai/spare"))
    );
    // As a crash before the folding leaves it.
    conversation.close().await;
}

#[tokio::test]
async fn a_profile_makes_the_title() {
    let (stage, asked) = stage(vec![Turn::Say("hi")]);
    let extra = json!({"title_llm_profile": "fast"}).as_object().unwrap().clone();
    let conversation = stage.create(NewConversation { autotitle: true, extra, ..stage.request() }).await;
    turn(&conversation, "go").await;
    super::stage::eventually("the title", || conversation.info()["title"] == "Mock title").await;
    assert!(models(&asked).contains(&"openai/fast".to_owned()));
    let title = conversation.metrics_for_usage("title").unwrap();
    assert_eq!(title.token_usages()[0].model, "openai/fast");
}

#[tokio::test]
async fn a_delivered_model_wins_over_the_stored_one_unless_it_is_only_repeated() {
    let (stage, asked) = stage(vec![Turn::Say("1"), Turn::Say("2"), Turn::Say("3")]);
    let delivered = stage.request().agent.members().llm.clone();
    let conversation = stage.create(NewConversation { delivers_llm: true, ..stage.request() }).await;
    conversation.switch_profile("fast").await.unwrap();
    conversation.close().await;
    assert!(!fs::read_to_string(stage.dir().join("meta.json")).unwrap().contains("model-key-1"));

    let again = stage.load().await;
    again.deliver_llm(delivered.clone()).await.unwrap();
    turn(&again, "the user's choice stays").await;
    let rotated = LlmConfig { api_key: Some(SecretText::new("rotated-key-1")), ..delivered };
    again.deliver_llm(rotated.clone()).await.unwrap();
    turn(&again, "a new key wins").await;
    again.close().await;

    // Somebody changes the address on the disk: the repeated delivery puts it right.
    let path = stage.dir().join("base_state.json");
    let mut base: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    base["agent"]["llm"]["base_url"] = json!("https://evil.example/v1");
    fs::write(&path, base.to_string()).unwrap();
    let again = stage.load().await;
    again.deliver_llm(rotated).await.unwrap();
    turn(&again, "and puts right").await;
    let call = |model: &str, key: &str| (model.to_owned(), Some(key.to_owned()));
    let expected = [
        call("openai/fast", "fast-key-123"),
        call("openai/mock", "rotated-key-1"),
        call("openai/mock", "rotated-key-1"),
    ];
    assert_eq!(*asked.lock().unwrap(), expected);
    assert_eq!(again.info()["agent"]["llm"]["base_url"], Value::Null);
}

#[tokio::test]
async fn a_delivery_that_was_refused_is_no_known_one() {
    let (stage, _) = stage(vec![]);
    let conversation = stage.create(NewConversation { delivers_llm: true, ..stage.request() }).await;
    for _ in 0..2 {
        let refused = conversation.deliver_llm(config("nobody/x", "k")).await;
        assert!(matches!(refused, Err(SwitchError::Invalid { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn a_condenser_whose_address_was_changed_is_replaced_with_the_model() {
    let (stage, asked) = stage(vec![Turn::Say("one"), Turn::Say("summary"), Turn::Say("two")]);
    let llm = json!({"model": "openai/small", "api_key": "small-key-123", "usage_id": "condenser"});
    let own = json!({"kind": "LLMSummarizingCondenser", "llm": llm});
    let request = stage.request_with(json!({"condenser": {"kind": "PipelineCondenser", "condensers": [own]}}));
    let conversation = stage.create(request).await;
    turn(&conversation, "go").await;
    conversation.close().await;
    let path = stage.dir().join("base_state.json");
    let mut base: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    base["agent"]["condenser"]["condensers"][0]["llm"]["base_url"] = json!("https://evil.example/v1");
    fs::write(&path, base.to_string()).unwrap();

    let again = stage.load().await;
    assert!(again.condense().await.is_err());
    // The server's own key and the history would go there.
    let new = LlmConfig { usage_id: "agent".to_owned(), ..config("openai/mock", "new-key-12345") };
    again.switch_llm(new).await.unwrap();
    again.condense().await.unwrap();
    assert_eq!(asked.lock().unwrap()[1], ("openai/mock".to_owned(), Some("new-key-12345".to_owned())));
    assert!(!again.info().to_string().contains("evil.example"));
}

#[tokio::test]
async fn the_condenser_follows() {
    let (stage, _) = stage(vec![]);
    let llm = json!({"model": "openai/mock", "api_key": "model-key-1", "usage_id": "condenser"});
    let request = stage.request_with(json!({"condenser": {"kind": "LLMSummarizingCondenser", "llm": llm}}));
    let conversation = stage.create(request).await;
    conversation.switch_profile("fast").await.unwrap();
    let condenser = conversation.info()["agent"]["condenser"]["llm"].clone();
    assert_eq!((&condenser["model"], &condenser["usage_id"]), (&json!("openai/fast"), &json!("condenser")));
}
