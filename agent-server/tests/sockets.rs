//! The conversation sockets over real connections.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod serve;

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use serve::{Server, serve as start, start_body};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Error, Message, client::IntoClientRequest, protocol::frame::coding::CloseCode},
};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

async fn connect(server: &Server, path: &str) -> Result<Socket, Error> {
    connect_async(format!("ws://{}/sockets/{path}", server.address)).await.map(|(socket, _)| socket)
}

async fn next(socket: &mut Socket) -> Message {
    loop {
        let message = tokio::time::timeout(Duration::from_secs(10), socket.next()).await.unwrap().unwrap().unwrap();
        if !message.is_ping() && !message.is_pong() {
            return message;
        }
    }
}

async fn frame(socket: &mut Socket) -> Value {
    let message = next(socket).await;
    serde_json::from_str(message.to_text().unwrap()).unwrap_or_else(|_| panic!("{message:?}"))
}

async fn close_code(socket: &mut Socket) -> u16 {
    loop {
        if let Message::Close(Some(frame)) = next(socket).await {
            return CloseCode::into(frame.code);
        }
    }
}

async fn say(socket: &mut Socket, text: &str) {
    socket.send(Message::text(text)).await.unwrap();
}

async fn conversation(server: &Server, key: &str) -> String {
    let created =
        server.request("POST", "/api/conversations").header("X-Session-API-Key", key).json(&start_body(server));
    serve::answer(created).await.body["id"].as_str().unwrap().to_owned()
}

fn status_of(refused: Result<Socket, Error>) -> u16 {
    match refused {
        Err(Error::Http(answer)) => answer.status().as_u16(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was let in"),
    }
}

#[tokio::test]
async fn three_ways_in_and_the_codes_of_refusal() {
    let server = start(&[("OH_SESSION_API_KEYS_0", "good")]).await;
    let id = conversation(&server, "good").await;
    let is_snapshot = |frame: &Value| frame["kind"] == "ConversationStateUpdateEvent" && frame["key"] == "full_state";

    let mut first = connect(&server, &format!("events/{id}")).await.unwrap();
    say(&mut first, r#"{"type": "auth", "session_api_key": "good"}"#).await;
    assert!(is_snapshot(&frame(&mut first).await));
    let mut query = connect(&server, &format!("events/{id}?session_api_key=good")).await.unwrap();
    assert!(is_snapshot(&frame(&mut query).await));
    let mut request = format!("ws://{}/sockets/events/{id}", server.address).into_client_request().unwrap();
    request.headers_mut().insert("X-Session-API-Key", "good".parse().unwrap());
    let (mut header, _) = connect_async(request).await.unwrap();
    assert!(is_snapshot(&frame(&mut header).await));

    for text in
        [r#"{"type": "auth", "session_api_key": "bad"}"#, r#"{"type": "auth"}"#, "no json", "[]", r#"{"type": "x"}"#]
    {
        let mut socket = connect(&server, &format!("events/{id}")).await.unwrap();
        say(&mut socket, text).await;
        assert_eq!(close_code(&mut socket).await, 4001, "{text}");
    }
    for path in [
        format!("events/{id}?session_api_key=bad"),
        format!("session/{id}?session_api_key="),
        "events/x?session_api_key=good".into(),
    ] {
        assert_eq!(status_of(connect(&server, &path).await), 403, "{path}");
    }
    for kind in ["events", "session"] {
        let mut socket = connect(&server, &format!("{kind}/{UNKNOWN}?session_api_key=good")).await.unwrap();
        assert_eq!(close_code(&mut socket).await, 4004, "{kind}");
    }
    assert_eq!(serve::answer(server.request("GET", &format!("/sockets/events/{id}"))).await.status, 404);
}

#[tokio::test]
async fn history_then_live_events_without_gap_or_double() {
    let server = start(&[]).await;
    let id = conversation(&server, "").await;
    let base = format!("/api/conversations/{id}/events");
    let message = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    server.post(&base, message("one")).await;
    let mut bare = connect(&server, &format!("events/{id}?resend_mode=all")).await.unwrap();
    let mut session = connect(&server, &format!("session/{id}?after_seq=-1")).await.unwrap();
    let sync = frame(&mut session).await;
    assert_eq!((&sync["type"], &sync["from_seq"]), (&json!("sync"), &json!(-1)));
    server.post(&base, message("two")).await;
    let listed = server.get(&format!("{base}/search")).await.body["items"].as_array().unwrap().clone();

    assert_eq!(frame(&mut bare).await["key"], "full_state");
    let mut got = Vec::new();
    while got.len() < listed.len() {
        let event = frame(&mut bare).await;
        if event["key"] != "full_state" {
            got.push(event);
        }
    }
    assert_eq!(got, listed);

    let mut got = Vec::new();
    while got.len() < listed.len() {
        let envelope = frame(&mut session).await;
        if envelope["type"] == "durable" {
            assert_eq!(envelope["seq"], json!(got.len()));
            got.push(envelope["event"].clone());
        }
    }
    assert_eq!(got, listed);
    // A client that comes back gets only what it has not seen.
    let last = listed.len() - 1;
    let mut again = connect(&server, &format!("session/{id}?after_seq={}", last - 1)).await.unwrap();
    assert_eq!(frame(&mut again).await["through_seq"], json!(last));
    assert_eq!(frame(&mut again).await["seq"], json!(last));
    assert_eq!(frame(&mut again).await["type"], "transient");
}

#[tokio::test]
async fn bad_frames_are_answered_and_the_socket_stays_open() {
    let server = start(&[]).await;
    let id = conversation(&server, "").await;
    let mut bare = connect(&server, &format!("events/{id}")).await.unwrap();
    frame(&mut bare).await;
    say(&mut bare, r#"{"type": "auth", "session_api_key": "needless"}"#).await;
    for text in ["no json", r#"{"role": "king"}"#, r#"{"role": "assistant", "content": []}"#] {
        say(&mut bare, text).await;
        let error = frame(&mut bare).await;
        assert_eq!((&error["kind"], &error["source"]), (&json!("ServerErrorEvent"), &json!("environment")), "{text}");
        assert!(error["code"].is_string() && error["detail"].is_string(), "{error}");
    }
    let mut session = connect(&server, &format!("session/{id}")).await.unwrap();
    assert_eq!(frame(&mut session).await["type"], "sync");
    assert_eq!(frame(&mut session).await["type"], "transient");
    say(&mut session, "no json").await;
    assert_eq!(frame(&mut session).await["type"], "error");
}

#[tokio::test]
async fn the_fifty_first_socket_is_turned_away() {
    let server = start(&[]).await;
    let id = conversation(&server, "").await;
    let mut open = Vec::new();
    for _ in 0..50 {
        let mut socket = connect(&server, &format!("events/{id}")).await.unwrap();
        frame(&mut socket).await;
        open.push(socket);
    }
    let mut late = connect(&server, &format!("events/{id}")).await.unwrap();
    assert_eq!(close_code(&mut late).await, 1013);
}
