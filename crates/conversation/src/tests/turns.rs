//! What a run does, step by step.

use openhands_protocol::{Event, ExecutionStatus, Role, tool::ToolAnnotations};
use serde_json::{Value, json};

use super::stage::{Stage, Turn, call, echo, events, eventually, finish, frames, status, story, turn};
use crate::{Audience, NewConversation, SendMessage};

#[tokio::test]
async fn a_turn_in_the_order_that_clients_see() {
    let stage = Stage::new(vec![echo("hello"), finish("done")]);
    let conversation = stage.create(stage.request()).await;
    assert_eq!(conversation.status(), ExecutionStatus::Idle);
    assert!(conversation.events().is_empty(), "nothing is in the log before the first message");
    let mut subscription = conversation.subscribe(Audience::Events, 50).unwrap();
    conversation.send_message(SendMessage::text("hi")).await.unwrap();
    conversation.run().await.unwrap();
    assert_eq!(
        frames(&mut subscription).await,
        [
            "system",
            "user: hi",
            "last user",
            "running",
            "action echo",
            "result hello",
            "stats",
            "action finish",
            "result done",
            "finished",
            "stats",
            "full_state finished"
        ]
    );
    assert_eq!(conversation.agent_final_response(), "done");
    let report = conversation.report_watch().borrow().clone();
    assert_eq!(report.execution_status, ExecutionStatus::Finished);
    assert_eq!((report.usage.cost.as_str(), report.usage.prompt_tokens), ("1", 20));
    assert_eq!(report.final_message.as_deref(), Some("done"));
    assert!(report.idle_since.is_some());
}

#[tokio::test]
async fn the_tree_and_the_batch_are_right() {
    let stage = Stage::new(vec![
        Turn::Calls(vec![("echo", json!({"text": "a"})), ("echo", json!({"text": "b"}))]),
        Turn::Say("bye"),
    ]);
    let conversation = stage.create(stage.request()).await;
    turn(&conversation, "hi").await;
    let events = events(&conversation);
    // Every event's parent is the latest tree event before it; the first has none.
    let mut head = None;
    for event in &events {
        assert_eq!(event.base().parent_id, head, "{event:?}");
        if event.moves_head() {
            head = Some(event.id().clone());
        }
    }
    let actions: Vec<_> =
        events.iter().filter_map(|event| if let Event::Action(action) = event { Some(action) } else { None }).collect();
    assert_eq!(actions[0].llm_response_id, actions[1].llm_response_id);
    assert_eq!(actions[0].summary.as_deref(), Some("echo: {\"text\": \"a\"}"));
    assert_eq!(conversation.info()["leaf_event_id"], json!(head));
    assert_eq!(conversation.agent_final_response(), "bye");
}

#[tokio::test]
async fn the_first_parent_of_a_changed_conversation_is_the_root() {
    let stage = Stage::new(vec![Turn::Say("bye")]);
    let conversation = stage.create(stage.request()).await;
    let policy = openhands_protocol::policy::ConfirmationPolicy::AlwaysConfirm {};
    conversation.set_confirmation_policy(policy).await.unwrap();
    turn(&conversation, "hi").await;
    let parents: Vec<Option<String>> = events(&conversation)
        .iter()
        .take(2)
        .map(|event| event.base().parent_id.as_ref().map(ToString::to_string))
        .collect();
    assert_eq!(parents, [None, Some("__root__".to_owned())]);
}

#[tokio::test]
async fn the_model_is_offered_the_tools_and_reads_the_history() {
    let stage = Stage::new(vec![echo("x"), Turn::Say("bye"), Turn::Say("again")]);
    let request = stage.request_with(
        json!({"agent_context": {"system_message_suffix": "Be brief.", "user_message_suffix": "(politely)"}}),
    );
    let conversation = stage.create(request).await;
    turn(&conversation, "hi").await;
    turn(&conversation, "more").await;
    let requests = stage.requests();
    let tools: Vec<&str> = requests[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["echo", "hold", "read", "fail", "crash", "finish", "think"]);
    let parameters = |index: usize| -> Vec<&str> {
        requests[0].tools[index].parameters["properties"].as_object().unwrap().keys().map(String::as_str).collect()
    };
    assert_eq!(parameters(0), ["security_risk", "summary", "text"]);
    assert_eq!(parameters(2), ["summary", "text"], "read-only tools are not asked for a risk");
    let roles = |index: usize| requests[index].messages.iter().map(|message| message.role).collect::<Vec<_>>();
    use Role::{Assistant, System, Tool, User};
    assert_eq!(roles(0), [System, User]);
    assert_eq!(roles(1), [System, User, Assistant, Tool]);
    assert_eq!(roles(2), [System, User, Assistant, Tool, Assistant, User]);
    let system = requests[0].messages[0].joined_text();
    assert!(system.contains("Working directory: ") && system.ends_with("Be brief."), "{system}");
    assert_eq!(requests[0].messages[1].joined_text(), "hi\n(politely)");
    let Event::Message(message) = &events(&conversation)[1] else { panic!("a message") };
    assert_eq!(message.llm_message.joined_text(), "hi", "the user's own text stays as it was");
}

#[tokio::test]
async fn tools_run_side_by_side_and_answer_in_call_order() {
    let batch = Turn::Calls(vec![
        ("read", json!({"text": "1"})),
        ("read", json!({"text": "2"})),
        ("hold", json!({"text": "3"})),
        ("hold", json!({"text": "4"})),
    ]);
    let stage = Stage::new(vec![batch, Turn::Say("bye")]);
    let conversation = stage.create(stage.request_with(json!({"tool_concurrency_limit": 4}))).await;
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    stage.acting(3).await;
    let mut started = stage.started();
    started.sort();
    assert_eq!(started, ["1", "2", "3"], "the second call of a tool with effects waits for the first");
    stage.release("2");
    stage.release("3");
    stage.acting(4).await;
    assert_eq!(story(&conversation).len(), 7, "no result before the first one: {:?}", story(&conversation));
    stage.release("4");
    stage.release("1");
    status(&conversation, ExecutionStatus::Finished).await;
    let results: Vec<String> = story(&conversation).into_iter().filter(|line| line.starts_with("result")).collect();
    assert_eq!(results, ["result 1", "result 2", "result 3", "result 4"]);
}

#[tokio::test]
async fn one_tool_at_a_time_by_default() {
    let batch = Turn::Calls(vec![("read", json!({"text": "1"})), ("read", json!({"text": "2"}))]);
    let stage = Stage::new(vec![batch, Turn::Say("bye")]);
    let conversation = stage.create(stage.request()).await;
    conversation.send_message(SendMessage { run: true, ..SendMessage::text("go") }).await.unwrap();
    stage.acting(1).await;
    assert_eq!(stage.started(), ["1"]);
    stage.release("1");
    stage.acting(2).await;
    stage.release("2");
    status(&conversation, ExecutionStatus::Finished).await;
}

#[tokio::test]
async fn empty_answers_are_nudged() {
    let stage = Stage::new(vec![Turn::Muse("hm"), Turn::Say("bye")]);
    let conversation = stage.create(stage.request()).await;
    turn(&conversation, "hi").await;
    assert_eq!(story(&conversation), ["system", "user: hi", "running", "agent: ", "nudge", "agent: bye", "finished"]);
}

#[tokio::test]
async fn deltas_are_published_but_not_stored() {
    let stage = Stage::new(vec![Turn::Say("streamed")]);
    let llm = json!({"model": "openai/mock", "stream": true});
    let conversation = stage.create(stage.request_with(json!({"llm": llm}))).await;
    let mut subscription = conversation.subscribe(Audience::Events, 1).unwrap();
    turn(&conversation, "hi").await;
    assert_eq!(
        frames(&mut subscription).await,
        [
            "system",
            "user: hi",
            "last user",
            "running",
            "delta stre",
            "delta amed",
            "agent: streamed",
            "finished",
            "stats",
            "full_state finished"
        ]
    );
    assert!(story(&conversation).iter().all(|line| !line.contains("delta")));
}

#[tokio::test]
async fn a_title_is_made_beside_the_run() {
    let stage = Stage::new(vec![Turn::Say("bye"), Turn::Say("bye")]);
    let conversation = stage.create(NewConversation { autotitle: true, ..stage.request() }).await;
    assert_eq!(conversation.info()["title"], Value::Null);
    turn(&conversation, "please name me").await;
    eventually("the title", || conversation.info()["title"] == "Mock title").await;
    assert_eq!(stage.requests().len(), 1, "the title is not part of the run");
    let agent = &conversation.info()["stats"]["usage_to_metrics"]["agent"];
    assert_eq!(agent["accumulated_token_usage"]["prompt_tokens"], 20, "but it is counted");
    conversation.update(Some(" Mine ".to_owned()), None).await.unwrap();
    turn(&conversation, "more").await;
    assert_eq!(conversation.info()["title"], "Mine");
}

#[tokio::test]
async fn without_the_model_the_message_is_the_title() {
    let stage = Stage::new(vec![Turn::Say("bye")]);
    stage.no_titles();
    let conversation = stage.create(NewConversation { autotitle: true, ..stage.request() }).await;
    turn(&conversation, "fix the build\nplease").await;
    eventually("the title", || conversation.info()["title"] == "fix the build").await;
}

#[tokio::test]
async fn client_tools_are_acknowledged_at_once() {
    let stage =
        Stage::new(vec![call("show", json!({"what": "x"})), call("show", json!({"what": 7})), Turn::Say("bye")]);
    let tool = json!({"name": "show", "description": "d", "annotations": ToolAnnotations::default(), "parameters": {
        "type": "object", "properties": {"what": {"type": "string"}}}});
    let conversation = stage.create(NewConversation { client_tools: vec![tool.clone()], ..stage.request() }).await;
    turn(&conversation, "show it").await;
    let log = events(&conversation);
    let Some(Event::Action(action)) = log.iter().find(|event| matches!(event, Event::Action(_))) else { panic!() };
    assert_eq!(action.action, Some(json!({"what": "x", "kind": "ClientAction_show"})));
    let Some(Event::Observation(result)) = log.iter().find(|event| matches!(event, Event::Observation(_))) else {
        panic!()
    };
    assert_eq!(result.observation["kind"], "ClientToolObservation");
    assert!(story(&conversation).contains(&"error show".to_owned()), "wrong arguments are an error");
    assert_eq!(conversation.info()["client_tools"], json!([tool]));
}

#[tokio::test]
async fn an_initial_message_runs_at_once() {
    let stage = Stage::new(vec![Turn::Held(Box::new(Turn::Say("bye")))]);
    let request = NewConversation { initial_message: Some(SendMessage::text("go")), ..stage.request() };
    let conversation = stage.create(request).await;
    assert_eq!(conversation.status(), ExecutionStatus::Running);
    let message = &events(&conversation)[1];
    assert_eq!(*message.id(), openhands_protocol::EventId::derived(stage.id, "initial-message"));
    stage.release_model();
    status(&conversation, ExecutionStatus::Finished).await;
    assert_eq!(story(&conversation), ["system", "user: go", "running", "agent: bye", "finished"]);
}

#[tokio::test]
async fn secrets_reach_tools_and_never_the_log() {
    let stage = Stage::new(vec![echo("TOKEN"), Turn::Say("it is s3cr3t-value")]);
    let conversation = stage.create(stage.request()).await;
    let secrets = json!({"TOKEN": {"kind": "StaticSecret", "value": "s3cr3t-value", "description": "for tests"}});
    conversation.update_secrets(secrets.as_object().unwrap().clone()).await.unwrap();
    turn(&conversation, "use it").await;
    let whole: String = events(&conversation).iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    assert!(!whole.contains("s3cr3t-value"), "{whole}");
    assert!(story(&conversation).contains(&"result TOKEN=<secret-hidden>".to_owned()), "{:?}", story(&conversation));
    let system = stage.requests()[0].messages[0].joined_text();
    assert!(system.contains("- $TOKEN: for tests"), "{system}");
    assert!(!conversation.info().to_string().contains("s3cr3t-value"));
    assert!(!String::from_utf8(conversation.snapshot_event().to_vec()).unwrap().contains("s3cr3t-value"));
}

#[tokio::test]
async fn the_models_key_never_reaches_the_log_even_without_secrets() {
    let mut stage = Stage::new(vec![echo("it is server-key-123456"), finish("server-key-123456")]);
    std::sync::Arc::get_mut(&mut stage.env).unwrap().own_keys =
        vec![openhands_protocol::secret::SecretText::new("server-key-123456")];
    let conversation = stage.create(stage.request()).await;
    turn(&conversation, "go").await;
    let story = story(&conversation);
    assert!(story.contains(&"result it is <secret-hidden>".to_owned()), "{story:?}");
}
