//! Policies, analyzers, yes and no.

use openhands_protocol::{
    Event, ExecutionStatus,
    policy::{ConfirmationPolicy, SecurityAnalyzer, SecurityRisk},
};
use serde_json::{Map, json};

use super::stage::{Stage, Turn, call, echo, events, finish, status, story, turn};
use crate::{Conversation, NewConversation, SendMessage, UpdateError};

async fn waiting(stage: &Stage, request: NewConversation) -> Conversation {
    let conversation = stage.create(request).await;
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    status(&conversation, ExecutionStatus::WaitingForConfirmation).await;
    conversation
}

fn always(stage: &Stage) -> NewConversation {
    NewConversation { confirmation_policy: ConfirmationPolicy::AlwaysConfirm {}, ..stage.request() }
}

#[tokio::test]
async fn a_rejection_is_told_to_the_model_and_the_next_action_asks_again() {
    let stage = Stage::new(vec![echo("one"), echo("two"), finish("done")]);
    let conversation = waiting(&stage, always(&stage)).await;
    assert_eq!(stage.env.run_permits.available_permits(), 8, "who waits takes no capacity");
    assert_eq!(conversation.report_watch().borrow().pending_actions, 1);
    conversation.respond_to_confirmation(false, Some("not this".to_owned())).await.unwrap();
    assert_eq!(conversation.status(), ExecutionStatus::Idle);
    assert_eq!(conversation.report_watch().borrow().pending_actions, 0);
    assert_eq!(story(&conversation)[3..], ["action echo", "waiting_for_confirmation", "idle", "rejected: not this"]);
    conversation.run().await.unwrap();
    status(&conversation, ExecutionStatus::WaitingForConfirmation).await;
    assert_eq!(stage.last_read(), "Action rejected: not this");
    assert_eq!(stage.started(), [] as [&str; 0]);
    conversation.run().await.unwrap();
    status(&conversation, ExecutionStatus::Finished).await;
    assert_eq!(stage.started(), ["two"], "finish alone asks for nothing");
}

#[tokio::test]
async fn a_batch_is_accepted_as_a_whole() {
    let batch = Turn::Calls(vec![("echo", json!({"text": "a"})), ("finish", json!({"message": "b"}))]);
    let stage = Stage::new(vec![batch]);
    let conversation = waiting(&stage, always(&stage)).await;
    conversation.respond_to_confirmation(true, None).await.unwrap();
    status(&conversation, ExecutionStatus::Finished).await;
    assert_eq!(
        story(&conversation)[4..],
        ["action finish", "waiting_for_confirmation", "running", "result a", "result b", "finished"]
    );
}

#[tokio::test]
async fn risks_come_from_the_call_when_an_analyzer_is_set() {
    let risky = |risk: &str| call("echo", json!({"text": risk, "security_risk": risk}));
    let stage = Stage::new(vec![risky("LOW"), risky("HIGH"), Turn::Say("bye")]);
    let conversation = stage.create(stage.request()).await;
    let analyzer = SecurityAnalyzer { kind: "LLMSecurityAnalyzer".to_owned(), settings: Map::new() };
    conversation.set_security_analyzer(Some(analyzer)).await.unwrap();
    let policy = ConfirmationPolicy::ConfirmRisky { threshold: SecurityRisk::High, confirm_unknown: true };
    conversation.set_confirmation_policy(policy).await.unwrap();
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    status(&conversation, ExecutionStatus::WaitingForConfirmation).await;
    assert_eq!(
        story(&conversation),
        [
            "security_analyzer changed",
            "confirmation_policy changed",
            "system",
            "user: go",
            "running",
            "action echo",
            "SecurityAnalysisEvent",
            "result LOW",
            "action echo",
            "SecurityAnalysisEvent",
            "waiting_for_confirmation"
        ]
    );
    let log = events(&conversation);
    let Some(Event::SecurityAnalysis(analysis)) = log.iter().rev().find(|e| matches!(e, Event::SecurityAnalysis(_)))
    else {
        panic!("an analysis")
    };
    let Some(Event::Action(action)) = log.iter().rev().find(|event| matches!(event, Event::Action(_))) else {
        panic!()
    };
    assert_eq!(action.security_risk, SecurityRisk::High);
    assert_eq!((analysis.analyzer.as_str(), analysis.policy.as_str()), ("LLMSecurityAnalyzer", "ConfirmRisky"));
    assert_eq!(analysis.risks[action.base.id.as_str()], "HIGH");
    conversation.set_confirmation_policy(ConfirmationPolicy::NeverConfirm {}).await.unwrap();
    conversation.run().await.unwrap();
    status(&conversation, ExecutionStatus::Finished).await;
}

#[tokio::test]
async fn a_new_message_while_waiting_approves_nothing() {
    let stage = Stage::new(vec![echo("one"), Turn::Say("bye")]);
    let conversation = waiting(&stage, always(&stage)).await;
    conversation.send_message(SendMessage::text("hm")).await.unwrap();
    assert_eq!(conversation.status(), ExecutionStatus::WaitingForConfirmation);
    assert_eq!(stage.started(), [] as [&str; 0]);
    conversation.run().await.unwrap();
    status(&conversation, ExecutionStatus::Finished).await;
    assert_eq!(stage.last_read(), "hm");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let stage = Stage::new(vec![Turn::Say("bye")]);
    let conversation = stage.create(stage.request()).await;
    let policy = ConfirmationPolicy::ConfirmRisky { threshold: SecurityRisk::Unknown, confirm_unknown: true };
    let refused = conversation.set_confirmation_policy(policy).await;
    assert!(matches!(refused, Err(UpdateError::Invalid { member, .. }) if member == "confirmation_policy.threshold"));
    let analyzer = SecurityAnalyzer { kind: "Foreign".to_owned(), settings: Map::new() };
    let refused = conversation.set_security_analyzer(Some(analyzer)).await;
    assert!(matches!(refused, Err(UpdateError::Invalid { member, .. }) if member == "security_analyzer.kind"));
    let refused = conversation.update_secrets(json!({"A": 7}).as_object().unwrap().clone()).await;
    assert!(matches!(refused, Err(UpdateError::Invalid { member, .. }) if member == "secrets.A"));
    turn(&conversation, "still fine").await;
    assert_eq!(story(&conversation), ["system", "user: still fine", "running", "agent: bye", "finished"]);
}
