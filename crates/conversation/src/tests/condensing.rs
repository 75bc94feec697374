//! Histories that grow too long.

use openhands_llm::LlmError;
use openhands_protocol::{Event, ExecutionStatus, policy::ConfirmationPolicy};
use serde_json::{Value, json};

use super::stage::{Stage, Turn, echo, events, eventually, finish, status, story, turn};
use crate::{CondenseError, Conversation, CreateError, NewConversation};

fn condenser(max_size: usize) -> Value {
    json!({"kind": "LLMSummarizingCondenser", "max_size": max_size, "keep_first": 2,
        "llm": {"model": "openai/small", "api_key": "condenser-key-2", "usage_id": "condenser", "stream": true}})
}

fn condensing(stage: &Stage, max_size: usize) -> NewConversation {
    stage.request_with(json!({ "condenser": condenser(max_size) }))
}

fn too_long() -> Turn {
    Turn::Fail(LlmError::ContextWindowExceeded("prompt is too long".to_owned()))
}

fn condensations(conversation: &Conversation) -> Vec<(usize, String, Option<usize>)> {
    let all = events(conversation);
    let condensations = all.iter().filter_map(|event| match event {
        Event::Condensation(event) => {
            Some((event.forgotten_event_ids.len(), event.summary.clone().unwrap_or_default(), event.summary_offset))
        }
        _ => None,
    });
    condensations.collect()
}

/// The messages of a request, in short form.
fn read(stage: &Stage, request: usize) -> Vec<String> {
    stage.requests()[request].messages.iter().map(|message| message.joined_text()).collect()
}

#[tokio::test]
async fn older_events_are_summarised_when_there_are_too_many() {
    let stage = Stage::new(vec![
        echo("one"),
        echo("two"),
        echo("three"),
        echo("four"),
        Turn::Say("the summary"),
        finish("done"),
    ]);
    let conversation = stage.create(condensing(&stage, 8)).await;
    turn(&conversation, "task").await;
    // System prompt, task and four calls with results are ten events, eight are allowed, half of that stays with the summary.
    assert_eq!(condensations(&conversation), [(8, "the summary".to_owned(), Some(2))]);
    assert_eq!(read(&stage, 5)[1..], ["task\nthe summary"]);
    let summary = &stage.requests()[4];
    assert!(summary.messages[0].joined_text().contains("TASK_TRACKING"));
    assert!(summary.messages[1].joined_text().contains("echo answers (call call-0-0):\none"));
    let info = conversation.info();
    let spent = &info["stats"]["usage_to_metrics"]["condenser"];
    assert_eq!((&spent["accumulated_cost"], &spent["model_name"]), (&json!(0.5), &json!("openai/small")));

    // After a restart the model sees the same history.
    stage.add_turns(vec![Turn::Say("again")]);
    conversation.close().await;
    let conversation = stage.load().await;
    turn(&conversation, "more").await;
    let messages = read(&stage, 6);
    assert_eq!(messages.last().map(String::as_str), Some("more"));
    assert!(messages.contains(&"task\nthe summary".to_owned()), "{messages:?}");
}

#[tokio::test]
async fn a_refused_history_is_summarised_and_sent_again() {
    let stage = Stage::new(vec![echo("one"), echo("two"), too_long(), Turn::Say("short"), finish("done")]);
    let conversation = stage.create(condensing(&stage, 100)).await;
    turn(&conversation, "task").await;
    let story = story(&conversation);
    let place = |what: &str| story.iter().position(|line| line == what).unwrap_or(usize::MAX);
    assert!(place("CondensationRequest") < place("Condensation"), "{story:?}");
    assert!(!story.iter().any(|line| line.starts_with("failed")), "{story:?}");
    assert_eq!(condensations(&conversation).len(), 1);
}

#[tokio::test]
async fn everything_is_summarised_when_a_part_is_not_enough() {
    // There is only the task, which belongs to the kept beginning; single events become shorter until the summary fits.
    let stage = Stage::new(vec![too_long(), too_long(), Turn::Say("all of it"), finish("done")]);
    let conversation = stage.create(condensing(&stage, 100)).await;
    turn(&conversation, &"a long task ".repeat(100)).await;
    assert_eq!(condensations(&conversation), [(1, "all of it".to_owned(), Some(1))]);
    assert!(read(&stage, 2)[1].contains("characters left out"));
    assert_eq!(read(&stage, 3)[1..], ["all of it"]);
}

#[tokio::test]
async fn a_history_that_stays_too_long_ends_the_run() {
    let turns = (0..4).flat_map(|_| [too_long(), Turn::Say("still long")]).collect();
    let stage = Stage::new(turns);
    let conversation = stage.create(condensing(&stage, 100)).await;
    super::stage::send(&conversation, "task").await;
    status(&conversation, ExecutionStatus::Error).await;
    let story = story(&conversation);
    assert_eq!(story.iter().filter(|line| *line == "Condensation").count(), 3, "{story:?}");
    assert!(story.contains(&"failed: LLMContextWindowExceedError".to_owned()), "{story:?}");
}

#[tokio::test]
async fn a_summary_that_is_not_necessary_may_fail() {
    let fail = || Turn::Fail(LlmError::ServiceUnavailable("down".to_owned()));
    let stage = Stage::new(vec![echo("1"), echo("2"), echo("3"), echo("4"), fail(), finish("done")]);
    let conversation = stage.create(condensing(&stage, 8)).await;
    turn(&conversation, "task").await;
    assert_eq!(condensations(&conversation), []);
    assert_eq!(stage.requests().len(), 6, "it is not tried before every call");
}

#[tokio::test]
async fn clients_may_ask_for_it() {
    let stage = Stage::new(vec![echo("one"), echo("two"), finish("done"), Turn::Say("on demand"), Turn::Say("next")]);
    let conversation = stage.create(condensing(&stage, 100)).await;
    turn(&conversation, "task").await;
    conversation.condense().await.unwrap();
    assert_eq!(conversation.status(), ExecutionStatus::Finished, "it is no run");
    assert_eq!(condensations(&conversation).len(), 1);
    turn(&conversation, "more").await;
    assert!(read(&stage, 4)[1].contains("on demand"));

    let stage = Stage::new(Vec::new());
    let conversation = stage.create(stage.request()).await;
    assert!(matches!(conversation.condense().await, Err(CondenseError::NoCondenser)));
}

#[tokio::test]
async fn a_condensation_on_demand_that_fails_is_told_and_forgotten() {
    let fail = Turn::Fail(LlmError::Authentication("key condenser-key-2 is wrong".to_owned()));
    let stage = Stage::new(vec![echo("one"), finish("done"), fail, Turn::Say("next")]);
    let conversation = stage.create(condensing(&stage, 100)).await;
    turn(&conversation, "task").await;
    let error = conversation.condense().await.unwrap_err().to_string();
    assert!(error.contains("is wrong") && !error.contains("condenser-key-2"), "{error}");
    turn(&conversation, "more").await;
    assert_eq!(condensations(&conversation), []);
}

#[tokio::test]
async fn what_is_said_meanwhile_is_not_lost() {
    let held = Turn::Held(Box::new(Turn::Say("slow summary")));
    let stage = Stage::new(vec![echo("one"), echo("two"), finish("done"), held, Turn::Say("hello")]);
    let conversation = stage.create(condensing(&stage, 100)).await;
    turn(&conversation, "task").await;
    let asking = conversation.clone();
    let condensed = tokio::spawn(async move { asking.condense().await });
    stage.asked(4).await;
    // The message and its run wait for the summary.
    super::stage::send(&conversation, "are you there?").await;
    assert_eq!(conversation.status(), ExecutionStatus::Running);
    stage.release_model();
    condensed.await.unwrap().unwrap();
    status(&conversation, ExecutionStatus::Finished).await;
    let messages = read(&stage, 4);
    assert!(messages.iter().any(|text| text.contains("slow summary")), "{messages:?}");
    assert!(messages.last().is_some_and(|text| text.ends_with("are you there?")), "{messages:?}");
}

#[tokio::test]
async fn an_interrupt_ends_a_condensation() {
    let held = Turn::Held(Box::new(Turn::Say("never")));
    let stage = Stage::new(vec![echo("1"), echo("2"), echo("3"), echo("4"), held, finish("done")]);
    let conversation = stage.create(condensing(&stage, 8)).await;
    super::stage::send(&conversation, "task").await;
    stage.asked(5).await;
    conversation.interrupt().await.unwrap();
    assert_eq!(conversation.status(), ExecutionStatus::Paused);
    assert_eq!(condensations(&conversation), []);
    eventually("the permit", || stage.env.run_permits.available_permits() == 8).await;
}

#[tokio::test]
async fn condensers_that_cannot_work_are_refused() {
    let stage = Stage::new(Vec::new());
    let wrong = |condenser: Value| stage.request_with(json!({ "condenser": condenser }));
    for (condenser, member) in [
        (json!({"kind": "Mine"}), "agent.condenser.kind"),
        (condenser(4), "agent.condenser.keep_first"),
        (json!({"kind": "PipelineCondenser", "condensers": [{"kind": "Mine"}]}), "agent.condenser.condensers.0.kind"),
    ] {
        let made = Conversation::create(std::sync::Arc::clone(&stage.env), &stage.dir(), wrong(condenser)).await;
        match made {
            Err(CreateError::Invalid { member: named, .. }) => assert_eq!(named, member),
            other => panic!("{member}: {:?}", other.map(drop)),
        }
    }
}

#[tokio::test]
async fn a_no_is_heard_during_a_condensation() {
    let held = Turn::Held(Box::new(Turn::Say("summary")));
    let stage = Stage::new(vec![echo("one"), held, finish("done")]);
    let policy = ConfirmationPolicy::AlwaysConfirm {};
    let conversation = stage.create(NewConversation { confirmation_policy: policy, ..condensing(&stage, 100) }).await;
    super::stage::send(&conversation, "task").await;
    status(&conversation, ExecutionStatus::WaitingForConfirmation).await;
    let asking = conversation.clone();
    let condensed = tokio::spawn(async move { asking.condense().await });
    stage.asked(2).await;
    conversation.respond_to_confirmation(false, Some("not this".to_owned())).await.unwrap();
    stage.release_model();
    condensed.await.unwrap().unwrap();
    assert!(story(&conversation).contains(&"rejected: not this".to_owned()), "{:?}", story(&conversation));
    assert_eq!(conversation.status(), ExecutionStatus::Idle);
}

#[tokio::test]
async fn a_condensation_on_demand_without_money_changes_nothing() {
    let stage = Stage::new(vec![finish("done")]);
    let conversation = stage.create(NewConversation { max_budget: Some(0.4), ..condensing(&stage, 100) }).await;
    turn(&conversation, "task").await;
    let error = conversation.condense().await.unwrap_err();
    assert!(matches!(&error, CondenseError::Model(why) if why.contains("max_budget_per_run")), "{error}");
    assert_eq!(conversation.status(), ExecutionStatus::Finished, "it is no run");
}
