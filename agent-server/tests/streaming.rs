//! Answers while they are given: what both conversation sockets show of them, and that a stream ends where it has to.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod serve;

use std::time::{Duration, Instant};

use futures::StreamExt;
use openhands_testkit::{ScriptedModel, Turn};
use serde_json::{Value, json};
use serve::{Server, serve as start};
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

const LIMIT: Duration = Duration::from_secs(30);
const CHAT: &str = "openai/scripted";

/// A conversation whose model streams.
struct Talk<'a> {
    server: &'a Server,
    id: String,
}

impl<'a> Talk<'a> {
    async fn new(server: &'a Server, model: &ScriptedModel, name: &str, more: Value) -> Self {
        let mut llm = json!({
            "model": name, "base_url": model.base_url(), "api_key": "test-key", "stream": true,
            "num_retries": 2, "retry_min_wait": 0, "retry_max_wait": 0, "timeout": 60,
        });
        for (member, value) in more.as_object().unwrap() {
            llm[member] = value.clone();
        }
        let directory = server.folder.path().join("work");
        let body = json!({
            "agent": {"kind": "Agent", "llm": llm, "tools": [], "include_default_tools": ["FinishTool", "ThinkTool"]},
            "workspace": {"kind": "LocalWorkspace", "working_dir": directory.to_str().unwrap()},
            "autotitle": false, "secrets": {"TOKEN": "geheim-4711"},
        });
        let created = server.post("/api/conversations", body).await;
        assert_eq!(created.status, 201, "{created:?}");
        Self { server, id: created.body["id"].as_str().unwrap().to_owned() }
    }

    async fn socket(&self, kind: &str) -> Socket {
        connect_async(format!("ws://{}/sockets/{kind}/{}", self.server.address, self.id)).await.unwrap().0
    }

    async fn say(&self, text: &str) {
        let message = json!({"role": "user", "content": [{"type": "text", "text": text}], "run": true});
        let sent = self.server.post(&format!("/api/conversations/{}/events", self.id), message).await;
        assert_eq!(sent.status, 200, "{sent:?}");
    }

    /// The stored events.
    async fn events(&self) -> Vec<Value> {
        let found = self.server.get(&format!("/api/conversations/{}/events/search?limit=100", self.id)).await;
        found.body["items"].as_array().unwrap().clone()
    }
}

/// The next text frame; `None` at the end.
async fn frame(socket: &mut Socket) -> Option<Value> {
    loop {
        match tokio::time::timeout(LIMIT, socket.next()).await.expect("a frame in time")?.ok()? {
            Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// Everything up to the snapshot that ends a run.
async fn until_the_end(socket: &mut Socket) -> Vec<Value> {
    let mut frames = Vec::new();
    while let Some(frame) = frame(socket).await {
        let event = if frame["event"].is_null() { &frame } else { &frame["event"] };
        let status = event["value"]["execution_status"].as_str().unwrap_or_default();
        let ended = event["key"] == "full_state" && !["idle", "running"].contains(&status);
        frames.push(frame);
        if ended {
            return frames;
        }
    }
    panic!("the socket ended early: {frames:#?}")
}

fn joined(frames: &[Value], wanted: impl Fn(&Value) -> Option<&str>) -> String {
    frames.iter().filter_map(wanted).collect()
}

/// The text and the reasoning of the pieces on the events socket.
fn bare(frames: &[Value]) -> (String, String) {
    let of = |member: &'static str| {
        joined(frames, |frame| (frame["kind"] == "StreamingDeltaEvent").then(|| frame[member].as_str()).flatten())
    };
    (of("content"), of("reasoning_content"))
}

/// The same of one kind on the session socket.
fn pieces(frames: &[Value], kind: &str) -> String {
    joined(frames, |frame| {
        (frame["type"] == "delta" && frame["kind"] == kind).then(|| frame["content"].as_str()).flatten()
    })
}

/// The frames about items in short form; pieces of one attempt are counted and must be numbered without a gap.
fn items(frames: &[Value]) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    let (mut ids, mut order) = (Vec::new(), 0);
    for frame in frames {
        let id = frame["item_id"].as_str().or_else(|| frame["event"]["id"].as_str()).unwrap_or_default().to_owned();
        let known = ids.iter().position(|known| *known == id);
        match frame["type"].as_str().unwrap() {
            "item_started" => {
                let number = known.unwrap_or_else(|| {
                    ids.push(id);
                    ids.len() - 1
                });
                order = 0;
                shown.push(format!("{number} started {}", frame["attempt"]));
            }
            "delta" => {
                let number = known.expect("a piece of a started item");
                assert_eq!(frame["order"], json!(order), "{frame}");
                order += 1;
                let line = format!("{number} pieces");
                if shown.last() != Some(&line) {
                    shown.push(line);
                }
            }
            "item_aborted" => {
                let reason = frame["reason"].as_str().unwrap();
                shown.push(format!("{} aborted {} {reason}", known.unwrap(), frame["attempt"]));
            }
            "durable" => {
                shown.extend(known.map(|number| format!("{number} {}", frame["event"]["kind"].as_str().unwrap())))
            }
            _ => {}
        }
    }
    shown
}

async fn streams(name: &str) {
    let call = ("call_1", "think", json!({"thought": "Is it so?"}));
    let model = ScriptedModel::start([
        Turn::calls(&[call]).saying("First a word.").thinking("Let me see, a while.").signed("c2ln"),
        Turn::text("And the answer: geheim-4711, to the end.").pieces(7, Duration::ZERO),
    ])
    .await;
    let server = start(&[]).await;
    let talk = Talk::new(&server, &model, name, json!({})).await;
    let (mut events, mut session) = (talk.socket("events").await, talk.socket("session").await);
    frame(&mut events).await;
    frame(&mut session).await;
    talk.say("go").await;
    let (events, session) = (until_the_end(&mut events).await, until_the_end(&mut session).await);
    let stored = talk.events().await;

    let text = "First a word.And the answer: <secret-hidden>, to the end.";
    let reasoning = stored.iter().filter_map(|event| event["reasoning_content"].as_str()).collect::<String>();
    assert_eq!(bare(&events), (text.to_owned(), reasoning.clone()));
    assert_eq!((pieces(&session, "text"), pieces(&session, "reasoning")), bare(&events));
    assert_eq!(
        items(&session),
        ["0 started 1", "0 pieces", "0 ActionEvent", "1 started 1", "1 pieces", "1 MessageEvent"]
    );
    // Each answer says after which event it comes.
    for started in session.iter().filter(|frame| frame["type"] == "item_started") {
        let anchor = usize::try_from(started["anchor_seq"].as_u64().unwrap()).unwrap();
        let end = stored.iter().position(|event| event["id"] == started["item_id"]).unwrap();
        assert!(anchor < end, "{started}");
    }
    assert!(stored.iter().all(|event| event["kind"] != "StreamingDeltaEvent"));
    let last = stored.iter().rfind(|event| event["kind"] == "MessageEvent").unwrap();
    assert_eq!(last["llm_message"]["content"][0]["text"], "And the answer: <secret-hidden>, to the end.");
    let asked = model.requests();
    assert_eq!(asked.len(), 2);
    let is_streamed = |path: &str| path.contains("streamGenerateContent") || path.contains("converse-stream");
    assert!(asked.iter().all(|request| is_streamed(&request.path) || request.body["stream"] == true));
}

macro_rules! interfaces {
    ($($name:ident: $model:literal),* $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            streams($model).await;
        }
    )*};
}

interfaces! {
    chat_streams: "openai/scripted",
    azure_streams: "azure/my-deployment",
    proxied_claude_streams: "litellm_proxy/claude-sonnet-4-5",
    responses_stream: "openai/gpt-5",
    anthropic_streams: "anthropic/claude-sonnet-4-5",
    gemini_streams: "gemini/gemini-3.1-pro-preview",
    bedrock_streams: "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}

#[tokio::test]
async fn a_broken_attempt_is_taken_back_and_the_next_begins_anew() {
    let model =
        ScriptedModel::start([Turn::text("a first attempt that breaks").cut_after(700), Turn::text("whole")]).await;
    let server = start(&[]).await;
    let talk = Talk::new(&server, &model, CHAT, json!({})).await;
    let mut session = talk.socket("session").await;
    frame(&mut session).await;
    talk.say("go").await;
    let session = until_the_end(&mut session).await;
    assert_eq!(
        items(&session),
        ["0 started 1", "0 pieces", "0 aborted 1 retry", "0 started 2", "0 pieces", "0 MessageEvent"]
    );
}

#[tokio::test]
async fn a_stream_that_stands_still_ends_as_a_time_out() {
    let stalls = || Turn::text("never whole, never").stall_after(500);
    let model = ScriptedModel::start([stalls(), stalls()]).await;
    let server = start(&[]).await;
    let talk = Talk::new(&server, &model, CHAT, json!({"stream_idle_timeout": 0.2})).await;
    let mut session = talk.socket("session").await;
    frame(&mut session).await;
    talk.say("go").await;
    let session = until_the_end(&mut session).await;
    assert_eq!(
        items(&session),
        ["0 started 1", "0 pieces", "0 aborted 1 retry", "0 started 2", "0 pieces", "0 aborted 2 LLMTimeoutError"]
    );
    let stored = talk.events().await;
    let error = stored.iter().find(|event| event["kind"] == "ConversationErrorEvent").unwrap();
    assert_eq!(error["code"], "LLMTimeoutError");
    assert!(error["detail"].as_str().unwrap().contains("stream_idle_timeout"), "{error}");
    model.idle().await;
}

/// Runs until the first piece is there; then the connection to the provider has to end by what `stop` does.
async fn closes_the_connection(stop: impl AsyncFnOnce(&Server, String)) -> Vec<Value> {
    let model = ScriptedModel::start([Turn::text("a long answer that goes on").stall_after(700)]).await;
    let server = start(&[]).await;
    let talk = Talk::new(&server, &model, CHAT, json!({})).await;
    let mut session = talk.socket("session").await;
    talk.say("go").await;
    let mut frames = Vec::new();
    while frames.iter().all(|frame: &Value| frame["type"] != "delta") {
        frames.push(frame(&mut session).await.unwrap());
    }
    stop(&server, talk.id.clone()).await;
    tokio::time::timeout(LIMIT, model.idle()).await.expect("the provider sees the end of its connection");
    while let Some(frame) = frame(&mut session).await {
        let is_last = frame["event"]["value"]["execution_status"] == "paused";
        frames.push(frame);
        if is_last {
            break;
        }
    }
    frames
}

#[tokio::test]
async fn an_interrupt_closes_the_connection_to_the_provider() {
    let frames = closes_the_connection(async |server: &Server, id: String| {
        assert_eq!(server.post(&format!("/api/conversations/{id}/interrupt"), json!({})).await.status, 200);
        assert_eq!(server.get(&format!("/api/conversations/{id}")).await.body["execution_status"], "paused");
    })
    .await;
    assert_eq!(items(&frames), ["0 started 1", "0 pieces", "0 aborted 1 cancelled"]);
    // The abort comes before the event that tells of the interrupt.
    let place = |wanted: &dyn Fn(&Value) -> bool| frames.iter().position(wanted).unwrap();
    let aborted = place(&|frame| frame["type"] == "item_aborted");
    assert!(aborted < place(&|frame| frame["event"]["kind"] == "InterruptEvent"));
}

#[tokio::test]
async fn a_deletion_closes_the_connection_to_the_provider() {
    let frames = closes_the_connection(async |server: &Server, id: String| {
        let deleted = serve::answer(server.request("DELETE", &format!("/api/conversations/{id}"))).await;
        assert_eq!(deleted.status, 200);
    })
    .await;
    assert_eq!(items(&frames), ["0 started 1", "0 pieces", "0 aborted 1 cancelled"]);
}

#[tokio::test]
async fn a_server_that_stops_closes_the_connection_to_the_provider() {
    let frames = closes_the_connection(async |server: &Server, _| {
        server.state.shutdown().cancel();
        server.state.app().unwrap().drain(Duration::from_secs(5)).await;
    })
    .await;
    assert_eq!(items(&frames), ["0 started 1", "0 pieces"], "the socket ends first, and the client comes back");
}

#[tokio::test]
async fn who_comes_in_the_middle_knows_the_item_and_what_it_missed() {
    let model = ScriptedModel::start([Turn::text(&"word ".repeat(40)).pieces(400, Duration::from_millis(20))]).await;
    let server = start(&[]).await;
    let talk = Talk::new(&server, &model, CHAT, json!({})).await;
    let mut first = talk.socket("session").await;
    talk.say("go").await;
    while frame(&mut first).await.unwrap()["type"] != "delta" {}
    let mut late = talk.socket("session").await;
    let mut events = talk.socket("events").await;
    let (late, events) = (until_the_end(&mut late).await, until_the_end(&mut events).await);
    let kinds: Vec<&str> = late.iter().filter_map(|frame| frame["type"].as_str()).take(4).collect();
    assert_eq!(kinds, ["sync", "transient", "item_started", "delta"]);
    let orders: Vec<u64> = late.iter().filter_map(|frame| frame["order"].as_u64()).collect();
    assert!(orders[0] > 0, "a gap at the beginning");
    assert!(orders.windows(2).all(|pair| pair[1] == pair[0] + 1), "{orders:?}");
    let end = late.iter().filter(|frame| frame["event"]["id"] == late[2]["item_id"]).count();
    assert_eq!(end, 1, "the item is closed by its event");
    assert!(!bare(&events).0.is_empty());
}

#[tokio::test]
async fn nobody_listens_and_the_answer_is_the_same() {
    let model = ScriptedModel::start([Turn::text("An answer for nobody.")]).await;
    let server = start(&[]).await;
    let talk = Talk::new(&server, &model, CHAT, json!({})).await;
    talk.say("go").await;
    let told = || async {
        let events = talk.events().await;
        events.iter().any(|event| event["key"] == "execution_status" && event["value"] == "finished")
    };
    let end = Instant::now() + LIMIT;
    while !told().await {
        assert!(Instant::now() < end, "the run ends");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut session =
        connect_async(format!("ws://{}/sockets/session/{}?after_seq=-1", server.address, talk.id)).await.unwrap().0;
    let frames = until_the_end(&mut session).await;
    assert!(frames.iter().all(|frame| frame["type"] != "item_started"), "nothing is on its way");
}

#[tokio::test]
async fn ten_thousand_pieces_reach_twenty_subscribers() {
    let text: String = (0..10_000).map(|number| format!("{number:05}")).collect();
    let model = ScriptedModel::start([Turn::text(&text)]).await;
    let server = start(&[]).await;
    let talk = Talk::new(&server, &model, CHAT, json!({})).await;
    let mut readers = Vec::new();
    for number in 0..20 {
        let kind = if number % 2 == 0 { "events" } else { "session" };
        let mut socket = talk.socket(kind).await;
        frame(&mut socket).await;
        readers.push(tokio::spawn(async move { until_the_end(&mut socket).await }));
    }
    talk.say("go").await;
    for (number, reader) in readers.into_iter().enumerate() {
        let frames = reader.await.unwrap();
        if number % 2 == 0 {
            assert_eq!(bare(&frames).0, text, "subscriber {number}");
        } else {
            assert_eq!(pieces(&frames, "text"), text, "subscriber {number}");
            assert_eq!(items(&frames), ["0 started 1", "0 pieces", "0 MessageEvent"]);
        }
    }
}

#[tokio::test]
async fn who_does_not_read_is_dropped_and_slows_nobody() {
    // More than a connection and its queue hold, even without the text that is in it.
    let text = "wait.".repeat(100_000);
    let model = ScriptedModel::start([Turn::text(&text)]).await;
    let server = start(&[]).await;
    let talk = Talk::new(&server, &model, CHAT, json!({})).await;
    let mut still = talk.socket("session").await;
    frame(&mut still).await;
    let mut reading = talk.socket("session").await;
    let reader = tokio::spawn(async move { until_the_end(&mut reading).await });
    talk.say("go").await;
    assert_eq!(pieces(&reader.await.unwrap(), "text"), text);
    // It reads at last, and finds what fitted into the connection and then its end.
    let mut code = None;
    let mut got = 0;
    while let Ok(Some(Ok(message))) = tokio::time::timeout(LIMIT, still.next()).await {
        match message {
            Message::Close(Some(close)) => code = Some(u16::from(close.code)),
            _ => got += 1,
        }
    }
    assert!(got < 100_000, "{got} frames");
    assert!(matches!(code, None | Some(1013)), "{code:?}");
}
