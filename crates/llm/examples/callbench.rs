//! Measures calls over HTTP against a model in another process (the testkit's `streamer`): what a call costs one after the other,
//! and whether many streams at once stay whole and small. Prints one line of JSON.
//!
//!     callbench calls URL ROUNDS
//!     callbench streams URL COUNT DELTAS PAUSE
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement that fails should say where"
)]

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use openhands_llm::{Delta, LlmClient, LlmRequest, OfferedTool, client_for};
use openhands_protocol::{Content, LlmConfig, Message, Role, ToolCall, content::CallOrigin, secret::SecretText};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, sync::Barrier};
use tokio_util::sync::CancellationToken;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments[place].parse::<u64>().unwrap();
    let report = match arguments[0].as_str() {
        "calls" => calls(&arguments[1], number(2)),
        "streams" => streams(&arguments[1], number(2), number(3), number(4)),
        other => panic!("{other}: calls or streams"),
    };
    println!("{report}");
}

fn client(model: &str, url: &str) -> Arc<dyn LlmClient> {
    let config = LlmConfig {
        model: format!("openai/{model}"),
        base_url: Some(url.to_owned()),
        api_key: Some(SecretText::new("k")),
        num_retries: 1,
        timeout: Some(600),
        ..LlmConfig::default()
    };
    client_for(&config, &BTreeMap::default()).unwrap()
}

fn tool() -> OfferedTool {
    OfferedTool {
        name: "run".to_owned(),
        description: "runs a command".to_owned(),
        parameters: json!({"type": "object", "properties": {"command": {"type": "string", "description": "what to run"}}, "required": ["command"]}),
    }
}

fn small() -> LlmRequest {
    let messages = vec![
        Message::new(Role::System, vec![Content::text("You are brief.")]),
        Message::new(Role::User, vec![Content::text("Hello, who are you?")]),
    ];
    LlmRequest { messages, tools: vec![tool()] }
}

/// 200 messages: a prompt, a question, and 99 calls with their results of half a kilobyte.
fn history() -> LlmRequest {
    let mut request = small();
    for number in 0..99 {
        let call = ToolCall {
            id: format!("call_{number}"),
            responses_item_id: None,
            name: "run".to_owned(),
            arguments: json!({ "command": format!("echo {number}") }).to_string(),
            origin: CallOrigin::Completion,
        };
        request.messages.push(Message {
            tool_calls: Some(vec![call]),
            ..Message::new(Role::Assistant, vec![Content::text(format!("Step {number}."))])
        });
        request.messages.push(Message {
            tool_call_id: Some(format!("call_{number}")),
            name: Some("run".to_owned()),
            ..Message::new(Role::Tool, vec![Content::text("some output \n".repeat(40))])
        });
    }
    request
}

/// Processor time of this process so far, all its threads.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    // Ticks of 10 ms on every Linux of today; user and system.
    Duration::from_millis(10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()))
}

/// A figure of `/proc/self/status`, KiB.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One call after the other on one thread, as one conversation makes them.
fn calls(url: &str, rounds: u64) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let start = memory("VmRSS");
    let mut report = json!({"rss_start_kib": start});
    let cancel = CancellationToken::new();
    for (name, deltas, count, request) in [
        ("small", 10u64, rounds, small()),
        ("history", 10, rounds, history()),
        ("stream", 1000, rounds.div_ceil(4), small()),
    ] {
        let client = client("m0", &format!("{url}/{deltas}/0/v1"));
        let one = || async {
            let mut pieces = 0u64;
            let mut sink = |_: Delta| pieces += 1;
            let sink = (name == "stream").then_some(&mut sink as openhands_llm::DeltaSink<'_>);
            let answer = client.complete(&request, sink, &cancel).await.unwrap();
            assert_eq!(answer.usage.completion_tokens, deltas);
            pieces
        };
        runtime.block_on(one());
        let before = processor();
        let mut pieces = 0;
        for _ in 0..count {
            pieces = runtime.block_on(one());
        }
        let per_call = (processor() - before).as_secs_f64() * 1e3 / count as f64;
        report[name] = json!({"cpu_ms": per_call, "calls": count, "deltas": pieces});
    }
    report["rss_peak_kib"] = memory("VmHWM").into();
    report
}

/// Many streams at once on two threads; each must bring its own words, all of them, in order.
fn streams(url: &str, count: u64, deltas: u64, pause: u64) -> Value {
    let runtime: Runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let url = format!("{url}/{deltas}/{pause}/v1");
    let request = Arc::new(small());
    let start = memory("VmRSS");
    let (began, before) = (Instant::now(), processor());
    let barrier = Arc::new(Barrier::new(count as usize));
    let all = (0..count).map(|number| {
        let (request, barrier) = (Arc::clone(&request), Arc::clone(&barrier));
        let client = client(&format!("m{number}"), &url);
        runtime.spawn(async move {
            barrier.wait().await;
            let (mut next, mut wrong, mut pieces, mut first) = (0u64, 0u64, 0u64, None);
            let mut sink = |delta| {
                first.get_or_insert_with(Instant::now);
                if let Delta::Text(text) = delta {
                    pieces += 1;
                    for word in text.split_whitespace() {
                        wrong += u64::from(word != format!("m{number}:{next}"));
                        next += 1;
                    }
                }
            };
            let answer = client.complete(&request, Some(&mut sink), &CancellationToken::new()).await.unwrap();
            let words = answer.message.joined_text().split_whitespace().count() as u64;
            let lost = deltas - next.min(deltas) + (deltas - words.min(deltas));
            (pieces, lost, wrong, first.unwrap())
        })
    });
    let all: Vec<_> = all.collect();
    let done: Vec<_> = runtime.block_on(join_all(all)).into_iter().map(Result::unwrap).collect();
    let sum = |part: fn(&(u64, u64, u64, Instant)) -> u64| done.iter().map(part).sum::<u64>();
    let last_first = done.iter().map(|(.., first)| *first).max().unwrap();
    let peak = memory("VmHWM");
    json!({
        "streams": count, "deltas": sum(|(pieces, ..)| *pieces), "lost": sum(|(_, lost, ..)| *lost), "wrong": sum(|(_, _, wrong, _)| *wrong),
        "wall_s": began.elapsed().as_secs_f64(), "cpu_s": (processor() - before).as_secs_f64(),
        "last_first_delta_s": (last_first - began).as_secs_f64(),
        "rss_start_kib": start, "rss_peak_kib": peak, "rss_per_stream_kib": (peak - start) as f64 / count as f64,
    })
}
