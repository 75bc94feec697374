//! What a call costs inside the client, without a network: processor time to write the body of a long conversation, and to read a long
//! stream, for each interface; and the most memory that was held.
//!
//!     percall build [ROUNDS [MESSAGES]]
//!     percall stream [ROUNDS [DELTAS]]

#![expect(clippy::print_stdout, reason = "a report on the terminal")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails should say where")]

use bytes::Bytes;
use openhands_llm::{
    Delta, LlmRequest, OfferedTool,
    inside::{Inside, MODELS},
};
use openhands_protocol::{Content, Message, Role, ToolCall};
use openhands_testkit::{Turn, answer};
use serde_json::json;

/// Bytes that arrive at once.
const CHUNK: usize = 1400;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default: usize| arguments.get(place).map_or(default, |text| text.parse().unwrap());
    match arguments.first().map(String::as_str) {
        Some("build") => build(number(1, 500), number(2, 200)),
        Some("stream") => stream(number(1, 200), number(2, 1000)),
        _ => println!("percall build [ROUNDS [MESSAGES]] | percall stream [ROUNDS [DELTAS]]"),
    }
}

fn build(rounds: usize, messages: usize) {
    let request = conversation(messages);
    for model in MODELS {
        let inside = Inside::of(model).unwrap();
        let bytes = inside.body(&request, true).unwrap().len();
        report(model, rounds, bytes, || {
            inside.body(&request, true).unwrap();
        });
    }
}

fn stream(rounds: usize, deltas: usize) {
    for model in MODELS {
        let inside = Inside::of(model).unwrap();
        let body = Bytes::from(answer(&long_answer(deltas), path(model), true));
        let chunks = || -> Vec<Bytes> {
            (0..body.len()).step_by(CHUNK).map(|at| body.slice(at..(at + CHUNK).min(body.len()))).collect()
        };
        report(model, rounds, body.len(), || {
            let mut pieces = 0;
            let mut sink = |_: Delta| pieces += 1;
            inside.streamed(chunks(), Some(&mut sink)).unwrap();
            // Some send calls whole.
            assert!(pieces > deltas / 2, "{pieces} of {deltas}");
        });
    }
}

/// The best of ten batches, in time on the processor: other programs take their share of the clock, not of that.
fn report(model: &str, rounds: usize, bytes: usize, mut work: impl FnMut()) {
    let batch = rounds / 10 + 1;
    let mut best = u128::MAX;
    for _ in 0..10 {
        let began = on_processor();
        for _ in 0..batch {
            work();
        }
        best = best.min((on_processor() - began) / batch as u128);
    }
    println!("{model:55} {best:>10} ns per call {bytes:>9} bytes  peak RSS {} KiB", peak());
}

/// Nanoseconds that this thread has run.
fn on_processor() -> u128 {
    // Lets the system bring its account up to date.
    std::thread::yield_now();
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    account.split_whitespace().next().unwrap().parse().unwrap()
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A system prompt, then turns of a user's word, a call and its result.
fn conversation(messages: usize) -> LlmRequest {
    let mut all =
        vec![Message::new(Role::System, vec![Content::text("You are an agent. ".repeat(400)), Content::text("now")])];
    for number in 0..messages / 2 {
        let id = format!("call_{number}");
        let call = ToolCall {
            id: id.clone(),
            responses_item_id: None,
            name: "terminal".to_owned(),
            arguments: json!({"command": "grep -rn \"größe\" src".repeat(4)}).to_string(),
            origin: openhands_protocol::content::CallOrigin::Completion,
        };
        all.push(Message {
            tool_calls: Some(vec![call]),
            ..Message::new(Role::Assistant, vec![Content::text("I look for it.")])
        });
        all.push(Message {
            tool_call_id: Some(id),
            ..Message::new(Role::Tool, vec![Content::text("src/main.rs:1: a line of output\n".repeat(40))])
        });
    }
    let parameters =
        json!({"type": "object", "properties": {"command": {"type": "string", "description": "what to run"}}});
    let tool = |number| OfferedTool {
        name: if number == 0 { "terminal".to_owned() } else { format!("tool_{number}") },
        description: "Does something useful. ".repeat(40),
        parameters: parameters.clone(),
    };
    LlmRequest { messages: all, tools: (0..8).map(tool).collect() }
}

/// Five characters make a delta.
fn long_answer(deltas: usize) -> Turn {
    let arguments = json!({"command": "x".repeat(deltas)});
    Turn::calls(&[("call_1", "terminal", arguments)]).saying(&"word ".repeat(deltas - deltas / 5))
}

fn path(model: &str) -> &'static str {
    match model.split('/').next().unwrap_or_default() {
        "anthropic" => "/v1/messages",
        "gemini" => "/v1beta/models/m:streamGenerateContent",
        "bedrock" => "/model/m/converse-stream",
        _ if model.ends_with("gpt-5") => "/v1/responses",
        _ => "/v1/chat/completions",
    }
}
