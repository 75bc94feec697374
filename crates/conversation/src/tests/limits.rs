//! Budgets, and the failures of models that do not simply end a run.

use openhands_llm::LlmError;
use openhands_protocol::{Event, ExecutionStatus, error::Classification};
use serde_json::{Value, json};

use super::stage::{Stage, Turn, call, echo, events, finish, status, story, turn};
use crate::{Conversation, NewConversation, SendMessage, UpdateError};

async fn go(conversation: &Conversation, wanted: ExecutionStatus) {
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    status(conversation, wanted).await;
}

fn last_error(conversation: &Conversation) -> (String, String, Option<Classification>) {
    let error = |event: &Event| match event {
        Event::ConversationError(error) => {
            Some((error.code.clone(), error.detail.clone(), error.classification.clone()))
        }
        _ => None,
    };
    events(conversation).iter().rev().find_map(error).unwrap()
}

#[tokio::test]
async fn a_budget_ends_the_run_and_can_be_raised() {
    // Each call costs 0.5.
    let stage = Stage::new((0..9).map(|n| echo(&n.to_string())).collect());
    let conversation = stage.create(NewConversation { max_budget: Some(1.0), ..stage.request() }).await;
    go(&conversation, ExecutionStatus::Error).await;
    assert_eq!(stage.requests().len(), 2);
    let expected = "The run was ended: $1.0000 of the $1.0000 that max_budget_per_run allows are spent.";
    let quota = Classification::new("quota", false, "settings");
    assert_eq!(last_error(&conversation), ("MaxBudgetReached".to_owned(), expected.to_owned(), Some(quota)));
    let budget = |conversation: &Conversation| {
        conversation.info()["stats"]["usage_to_metrics"]["agent"]["max_budget_per_task"].clone()
    };
    assert_eq!(budget(&conversation), 1.0);
    conversation.close().await;

    let again = stage.load().await;
    assert_eq!(budget(&again), 1.0);
    again.run().await.unwrap();
    status(&again, ExecutionStatus::Error).await;
    assert_eq!(stage.requests().len(), 2, "nothing more is spent");
    assert!(
        matches!(again.set_budget(Some(0.0)).await, Err(UpdateError::Invalid { member, .. }) if member == "max_budget_per_run")
    );
    again.set_budget(Some(1.5)).await.unwrap();
    again.run().await.unwrap();
    super::stage::eventually("one more call", || stage.requests().len() == 3).await;
    status(&again, ExecutionStatus::Error).await;
    again.set_budget(None).await.unwrap();
    assert_eq!(budget(&again), Value::Null);
}

#[tokio::test]
async fn a_turn_that_ends_within_its_last_money_is_finished() {
    let stage = Stage::new(vec![echo("x"), finish("done")]);
    let conversation = stage.create(NewConversation { max_budget: Some(1.0), ..stage.request() }).await;
    turn(&conversation, "go").await;
}

#[tokio::test]
async fn a_content_filter_is_told_to_the_model_a_few_times() {
    let filtered = || Turn::Fail(LlmError::ContentPolicy("blocked".to_owned()));
    let stage = Stage::new(vec![filtered(), filtered(), finish("done")]);
    let conversation = stage.create(stage.request()).await;
    turn(&conversation, "go").await;
    assert_eq!(story(&conversation)[2..], ["running", "nudge", "nudge", "action finish", "result done", "finished"]);
    assert!(stage.last_read().contains("content filter"), "{}", stage.last_read());

    stage.add_turns((0..9).map(|_| filtered()).collect());
    go(&conversation, ExecutionStatus::Error).await;
    assert_eq!(last_error(&conversation).0, "LLMContentPolicyViolationError");
    assert_eq!(stage.requests().len(), 3 + 4);
}

#[tokio::test]
async fn every_failure_has_the_name_that_clients_know() {
    let text = || "why".to_owned();
    for (error, code) in [
        (LlmError::Authentication(text()), "LLMAuthenticationError"),
        (LlmError::RateLimit { message: text(), retry_after: None }, "LLMRateLimitError"),
        (LlmError::ServiceUnavailable(text()), "LLMServiceUnavailableError"),
        (LlmError::Timeout(text()), "LLMTimeoutError"),
        (LlmError::BadRequest(text()), "LLMBadRequestError"),
        (LlmError::ContextWindowExceeded(text()), "LLMContextWindowExceedError"),
        (LlmError::MalformedHistory(text()), "LLMMalformedConversationHistoryError"),
        (LlmError::ContextWindowTooSmall(text()), "LLMContextWindowTooSmallError"),
        (LlmError::Internal(text()), "LLMServiceUnavailableError"),
        (LlmError::NoResponse(text()), "LLMNoResponseError"),
        (LlmError::NotSupported(text()), "LLMBadRequestError"),
    ] {
        let stage = Stage::new(vec![Turn::Fail(error)]);
        let conversation = stage.create(stage.request()).await;
        go(&conversation, ExecutionStatus::Error).await;
        let (found, detail, _) = last_error(&conversation);
        assert_eq!(found, code);
        assert!(detail.ends_with("why"), "{detail}");
    }
}

#[tokio::test]
async fn malformed_calls_carry_the_models_own_string() {
    let stage = Stage::new(vec![call("echo", json!("{\"text\": \"cut of")), finish("done")]);
    let conversation = stage.create(stage.request()).await;
    turn(&conversation, "go").await;
    let error = events(&conversation)
        .iter()
        .find_map(|event| if let Event::AgentError(error) = event { Some(error.error.clone()) } else { None })
        .unwrap();
    assert!(error.contains("{\"text\": \"cut of"), "{error}");
}
