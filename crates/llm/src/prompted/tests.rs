//! Tools by prompt, against a scripted model on real sockets.

use openhands_protocol::{Message, Role};
use openhands_testkit::{ScriptedModel, Turn, llm_config};
use serde_json::json;

use super::*;
use crate::{OfferedTool, client_for};

fn tools() -> Vec<OfferedTool> {
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "What to run."},
            "times": {"type": "integer"},
            "quiet": {"type": "boolean"},
        },
        "required": ["command"],
    });
    vec![OfferedTool { name: "terminal".to_owned(), description: "Runs a command.".to_owned(), parameters }]
}

const ANSWER: &str = "I look < here.\n\n<function=terminal>\n<parameter=command>\nls -l\necho '<x>'\n</parameter>\n\
    <parameter=times>3</parameter>\n<parameter=quiet>True</parameter>\n";
const ARGUMENTS: &str = r#"{"command":"ls -l\necho '<x>'","times":3,"quiet":true}"#;

async fn ask(model: &ScriptedModel, request: &LlmRequest, streamed: bool) -> (LlmResponse, Vec<Delta>) {
    let mut config = llm_config(model);
    config.native_tool_calling = false;
    let client = client_for(&config, &Default::default()).unwrap();
    let mut deltas = Vec::new();
    let mut sink = |delta| deltas.push(delta);
    let sink: Option<DeltaSink<'_>> = if streamed { Some(&mut sink) } else { None };
    let response = client.complete(request, sink, &CancellationToken::new()).await.unwrap();
    (response, deltas)
}

#[tokio::test]
async fn calls_by_prompt_are_read_whole_and_streamed() {
    let asked = Message::new(Role::User, vec![Content::text("hi")]);
    let request = LlmRequest { messages: vec![asked], tools: tools() };
    for streamed in [false, true] {
        let model = ScriptedModel::start([Turn::text(ANSWER)]).await;
        let (response, deltas) = ask(&model, &request, streamed).await;
        assert_eq!(response.message.joined_text(), "I look < here.");
        let [call] = &response.message.tool_calls.unwrap()[..] else { panic!("one call") };
        assert_eq!((call.name.as_str(), call.arguments.as_str()), ("terminal", ARGUMENTS));
        assert_eq!(response.finish_reason.as_deref(), Some("tool_calls"));
        let shown: String = deltas
            .iter()
            .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
            .collect();
        assert_eq!(shown.trim_end(), if streamed { "I look < here." } else { "" });
        let body = &model.requests()[0].body;
        assert_eq!((&body["stop"], body.get("tools")), (&json!(["</function"]), None));
        let system = body["messages"][0]["content"].as_str().unwrap();
        assert!(system.contains("## terminal") && system.contains("- command (string, required): What to run."));
    }
}

#[tokio::test]
async fn earlier_calls_are_told_as_text() {
    let call = ToolCall {
        id: "a".to_owned(),
        responses_item_id: None,
        name: "terminal".to_owned(),
        arguments: ARGUMENTS.to_owned(),
        origin: Default::default(),
    };
    let called =
        Message { tool_calls: Some(vec![call]), ..Message::new(Role::Assistant, vec![Content::text("Look.")]) };
    let result =
        Message { tool_call_id: Some("a".to_owned()), ..Message::new(Role::Tool, vec![Content::text("files")]) };
    let request = LlmRequest {
        messages: vec![Message::new(Role::User, vec![Content::text("hi")]), called, result],
        tools: Vec::new(),
    };
    let model = ScriptedModel::start([Turn::text("plain answer")]).await;
    let (response, _) = ask(&model, &request, false).await;
    assert_eq!((response.message.joined_text().as_str(), response.message.tool_calls), ("plain answer", None));
    let told = "Look.\n\n<function=terminal>\n<parameter=command>\nls -l\necho '<x>'\n</parameter>\n\
        <parameter=times>3</parameter>\n<parameter=quiet>true</parameter>\n</function>";
    assert_eq!(
        model.requests()[0].body["messages"],
        json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": told},
            {"role": "user", "content": "Result of terminal:\nfiles"},
        ])
    );
}

#[test]
fn what_may_begin_a_call_is_held_back() {
    let pieces = ["a <fun", "ny> b <", "function=x>c", " d"];
    let mut filter = Filter::default();
    let shown: Vec<_> = pieces.iter().map(|piece| filter.push(piece)).collect();
    assert_eq!(shown, ["a ", "<funny> b ", "", ""]);
    let mut open = Filter::default();
    assert_eq!((open.push("ä <func"), open.rest()), ("ä ".to_owned(), "<func".to_owned()));
}
