//! Tests of [`super`]: one helper, many answers.

use openhands_protocol::{content::CallOrigin, tool::ToolSpec};
use serde_json::{Value, json};

use super::*;
use crate::actions::Refusal;

struct Tools(Vec<ToolSpec>);

impl Toolset for Tools {
    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|spec| spec.name.as_str()).collect()
    }

    fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.0.iter().find(|spec| spec.name == name)
    }

    fn action(&self, name: &str, arguments: Value) -> Result<Value, Refusal> {
        let mut body = arguments.as_object().unwrap().clone();
        if !body.contains_key("command") {
            return Err(Refusal("command: is missing.".to_owned()));
        }
        body.insert("kind".to_owned(), format!("{name}-action").into());
        Ok(body.into())
    }
}

fn tools() -> Tools {
    let spec = |name: &str| ToolSpec {
        name: name.to_owned(),
        kind: String::new(),
        action_kind: String::new(),
        observation_kind: String::new(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": {"command": {"type": "string"}, "n": {"type": "integer"}}}),
        annotations: None,
    };
    Tools(vec![spec("terminal"), spec("editor")])
}

fn calling(text: &str, calls: &[(&str, &str, &str)]) -> Message {
    let call = |(id, name, arguments): &(&str, &str, &str)| ToolCall {
        id: (*id).to_owned(),
        responses_item_id: None,
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
        origin: CallOrigin::Completion,
    };
    Message {
        tool_calls: Some(calls.iter().map(call).collect()),
        reasoning_content: Some("because".to_owned()),
        thinking_blocks: vec![json!({"type": "thinking"})],
        ..Message::new(Role::Assistant, if text.is_empty() { vec![] } else { vec![Content::text(text)] })
    }
}

fn read(message: Message, rate: bool) -> Answer {
    Answer::read(message, "resp", &tools(), rate)
}

#[test]
fn calls_become_actions_and_only_the_first_carries_what_was_said() {
    let answer = read(
        calling(
            "First.",
            &[
                ("c1", "terminal", r#"{"security_risk": "LOW", "command": "ls", "n": "3"}"#),
                ("c2", "editor", r#"{"summary": "look", "command": "view"}"#),
            ],
        ),
        true,
    );
    assert_eq!(answer.kind, AnswerKind::Calls);
    let [Event::Action(first), Event::Action(second)] = &answer.events[..] else { panic!("two actions") };
    assert_eq!(first.thought, [TextContent::new("First.")]);
    assert_eq!(first.reasoning_content.as_deref(), Some("because"));
    assert_eq!(first.thinking_blocks.len(), 1);
    assert_eq!(first.action, Some(json!({"command": "ls", "n": 3, "kind": "terminal-action"})));
    assert_eq!(first.security_risk, SecurityRisk::Low);
    assert_eq!(first.summary.as_deref(), Some(r#"terminal: {"command": "ls", "n": 3}"#));
    assert_eq!(first.tool_call.arguments, r#"{"security_risk": "LOW", "command": "ls", "n": "3"}"#);
    assert_eq!(second.thought, []);
    assert_eq!(second.reasoning_content, None);
    assert_eq!(second.thinking_blocks, [] as [Value; 0]);
    assert_eq!(second.summary.as_deref(), Some("look"));
    assert_eq!((first.llm_response_id.as_str(), second.llm_response_id.as_str()), ("resp", "resp"));
}

#[test]
fn risks_count_only_with_an_analyzer() {
    let answer = read(calling("", &[("c", "terminal", r#"{"security_risk": "HIGH", "command": "ls"}"#)]), false);
    let [Event::Action(action)] = &answer.events[..] else { panic!("one action") };
    assert_eq!(action.security_risk, SecurityRisk::Unknown);
    assert_eq!(action.thought, []);
}

/// The error of a bad call, and the arguments that stay in the history.
fn refused(name: &str, arguments: &str) -> (String, String) {
    let answer = read(calling("", &[("c", name, arguments)]), false);
    assert_eq!(answer.kind, AnswerKind::Calls);
    let [Event::Action(action), Event::AgentError(error)] = &answer.events[..] else {
        panic!("an action and an error")
    };
    assert_eq!((&action.action, &action.summary), (&None, &None));
    assert_eq!((action.tool_name.as_str(), action.tool_call_id.as_str()), (name, "c"));
    assert_eq!((error.tool_name.as_str(), error.tool_call_id.as_str()), (name, "c"));
    assert_eq!(error.base.source, Source::Agent);
    assert_eq!(error.classification, Some(Classification::new("agent_action", true, "retry")));
    (error.error.clone(), action.tool_call.arguments.clone())
}

#[test]
fn bad_calls_become_errors_and_the_history_stays_valid() {
    let (error, arguments) = refused("nope", r#"{"a": 1}"#);
    assert_eq!(error, "Tool 'nope' not found. Available: ['terminal', 'editor']");
    assert_eq!(arguments, r#"{"a": 1}"#);
    let (error, _) = refused("terminal", r#"{"cmd_typo": "x"}"#);
    assert_eq!(error, "Error validating tool 'terminal': command: is missing. Parameters provided: ['cmd_typo']");
    let (error, arguments) = refused("terminal", "{broken");
    assert!(error.starts_with("Error validating tool 'terminal': the arguments are no valid JSON"), "{error}");
    assert!(serde_json::from_str::<Value>(&arguments).unwrap().is_object());
    let (error, arguments) = refused("terminal", "[1]");
    assert!(error.contains("not an object"), "{error}");
    assert!(serde_json::from_str::<Value>(&arguments).unwrap().is_object());
}

#[test]
fn a_bad_call_does_not_spoil_its_batch() {
    let answer =
        read(calling("", &[("c", "nope", "{}"), ("c", "terminal", r#"{"command": "ls"}"#), ("", "nope", "{}")]), false);
    let kinds: Vec<&str> = answer.events.iter().map(Event::kind).collect();
    assert_eq!(kinds, ["ActionEvent", "AgentErrorEvent", "ActionEvent", "ActionEvent", "AgentErrorEvent"]);
    let ids: Vec<&str> = answer
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Action(action) => Some(action.tool_call_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(ids, ["c", "c-2", "call"], "ids are unique within an answer");
}

#[test]
fn text_ends_the_turn_and_nothing_is_nudged() {
    let answer = read(Message::new(Role::Assistant, vec![Content::text("done")]), false);
    assert_eq!(answer.kind, AnswerKind::Text);
    let [Event::Message(said)] = &answer.events[..] else { panic!("a message") };
    assert_eq!(said.base.source, Source::Agent);
    assert_eq!(said.llm_response_id.as_deref(), Some("resp"));
    for empty in [vec![], vec![Content::text(" \n")]] {
        let message = Message {
            reasoning_content: Some("hm".to_owned()),
            tool_calls: Some(vec![]),
            ..Message::new(Role::Assistant, empty)
        };
        let answer = read(message, false);
        assert_eq!(answer.kind, AnswerKind::Empty);
        let [Event::Message(said), Event::Message(nudge)] = &answer.events[..] else { panic!("two messages") };
        assert_eq!(said.llm_message.reasoning_content.as_deref(), Some("hm"));
        assert_eq!((nudge.base.source, nudge.llm_message.role), (Source::Environment, Role::User));
    }
}

#[test]
fn long_arguments_make_a_short_summary() {
    let arguments = json!({"command": "ä".repeat(MAX_SUMMARY)}).to_string();
    let answer = read(calling("", &[("c", "terminal", &arguments)]), false);
    let [Event::Action(action)] = &answer.events[..] else { panic!("one action") };
    assert!(action.summary.as_ref().unwrap().len() <= MAX_SUMMARY + '…'.len_utf8());
}
