//! What goes wrong with models and tools, and that the conversation survives it.

use openhands_llm::LlmError;
use openhands_protocol::{Event, ExecutionStatus, error::Classification};
use serde_json::json;

use super::stage::{Stage, Turn, call, echo, events, finish, status, story, turn};
use crate::{Conversation, CreateError, NewConversation, SendMessage};

async fn fails(conversation: &Conversation, wanted: ExecutionStatus) {
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    status(conversation, wanted).await;
}

#[tokio::test]
async fn a_model_error_ends_the_run_and_the_next_message_goes_on() {
    let stage =
        Stage::new(vec![Turn::Fail(LlmError::Authentication("bad key model-key-1".to_owned())), Turn::Say("fine")]);
    let conversation = stage.create(stage.request()).await;
    fails(&conversation, ExecutionStatus::Error).await;
    assert_eq!(story(&conversation)[2..], ["running", "error", "failed: LLMAuthenticationError"]);
    let log = events(&conversation);
    let Some(Event::ConversationError(error)) = log.iter().find(|e| matches!(e, Event::ConversationError(_))) else {
        panic!("an error")
    };
    assert_eq!(error.detail, "bad key **********", "the key is not shown");
    let told = || conversation.report_watch().borrow().error.clone();
    assert_eq!(told().as_deref(), Some("LLMAuthenticationError: bad key **********"));
    assert_eq!(error.classification, Some(Classification::new("auth", false, "settings")));
    turn(&conversation, "again").await;
    assert_eq!((stage.last_read().as_str(), told()), ("go\nagain", None));
}

#[tokio::test]
async fn bad_calls_and_broken_tools_are_told_to_the_model() {
    let stage = Stage::new(vec![
        call("nope", json!({})),
        call("echo", json!({"typo": 1})),
        call("echo", json!("{broken")),
        call("fail", json!({"text": "do it"})),
        call("crash", json!({"text": "x"})),
        finish("done"),
    ]);
    let request = NewConversation { stuck_detection: false, ..stage.request() };
    let conversation = stage.create(request).await;
    turn(&conversation, "go").await;
    assert_eq!(
        story(&conversation)[3..],
        [
            "call nope",
            "error nope",
            "call echo",
            "error echo",
            "call echo",
            "error echo",
            "action fail",
            "error fail",
            "action crash",
            "error crash",
            "action finish",
            "result done",
            "finished"
        ]
    );
    let errors: Vec<String> = events(&conversation)
        .iter()
        .filter_map(|event| if let Event::AgentError(error) = event { Some(error.error.clone()) } else { None })
        .collect();
    assert!(errors[0].starts_with("Tool 'nope' not found. Available: ['echo', "), "{errors:?}");
    assert!(errors[1].contains("['typo']"), "{errors:?}");
    assert_eq!(errors[3], "Error executing tool 'fail': cannot do it");
    assert!(errors[4].contains("broke down"), "{errors:?}");
}

#[tokio::test]
async fn a_run_has_a_limit() {
    let stage = Stage::new((0..5).map(|n| echo(&n.to_string())).collect());
    let request = NewConversation { max_iterations: 3, ..stage.request() };
    let conversation = stage.create(request).await;
    fails(&conversation, ExecutionStatus::Error).await;
    assert_eq!(story(&conversation).last().unwrap(), "failed: MaxIterationsReached");
    assert_eq!(stage.requests().len(), 3);
    conversation.run().await.unwrap();
    status(&conversation, ExecutionStatus::Finished).await;
    assert_eq!(stage.requests().len(), 6, "a new run has its own limit");
}

#[tokio::test]
async fn loops_end_the_run() {
    let stage = Stage::new((0..9).map(|_| echo("same")).collect());
    let conversation = stage.create(stage.request()).await;
    fails(&conversation, ExecutionStatus::Stuck).await;
    assert_eq!(stage.requests().len(), 4);
    assert_eq!(story(&conversation).last().unwrap(), "stuck");
}

#[tokio::test]
async fn failing_calls_are_nudged_about_before_they_are_a_loop() {
    let stage = Stage::new((0..9).map(|_| call("nope", json!({}))).collect());
    let conversation = stage.create(stage.request()).await;
    fails(&conversation, ExecutionStatus::Stuck).await;
    assert_eq!(stage.requests().len(), 4);
    assert_eq!(story(&conversation).iter().filter(|line| *line == "nudge").count(), 1);
}

#[tokio::test]
async fn requests_that_cannot_be_done_leave_nothing_behind() {
    let stage = Stage::new(vec![]);
    let refused =
        async |request: NewConversation| match Conversation::create(stage.env.clone(), &stage.dir(), request).await {
            Err(CreateError::Invalid { member, .. }) => member,
            Err(other) => other.to_string(),
            Ok(_) => "created".to_owned(),
        };
    assert_eq!(refused(stage.request_with(json!({"tools": [{"name": "nope"}]}))).await, "agent.tools");
    assert_eq!(refused(stage.request_with(json!({"mcp_config": {"x": {}}}))).await, "agent.mcp_config");
    assert_eq!(refused(stage.request_with(json!({"filter_tools_regex": "("}))).await, "agent.filter_tools_regex");
    assert_eq!(
        refused(stage.request_with(json!({"system_prompt_filename": "own.j2"}))).await,
        "agent.system_prompt_filename"
    );
    let clash = json!({"name": "echo", "description": "d"});
    assert_eq!(refused(NewConversation { client_tools: vec![clash], ..stage.request() }).await, "client_tools.0");
    assert_eq!(refused(NewConversation { workspace: json!({}), ..stage.request() }).await, "workspace.working_dir");
    let secrets = json!({"A": 7}).as_object().unwrap().clone();
    assert_eq!(refused(NewConversation { secrets, ..stage.request() }).await, "secrets.A");
    assert!(!stage.dir().exists());
    let conversation = stage.create(stage.request()).await;
    assert_eq!(refused(stage.request()).await, "the conversation exists already");
    drop(conversation);
}
