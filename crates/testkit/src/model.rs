//! The server: answers turn by turn and remembers what it was asked.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use futures::{StreamExt as _, stream};
use openhands_protocol::{LlmConfig, secret::SecretText};
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use crate::{
    turn::{Break, Turn},
    wire,
};

/// A request larger than this is no test any more.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// What the model was asked.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    /// The path, such as `/v1/chat/completions`.
    pub path: String,
    /// What stands behind the path's `?`, encoded; empty without one.
    pub query: String,
    /// The request's headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub bytes: Bytes,
    /// The body; null when it was no JSON.
    pub body: Value,
}

/// A model on 127.0.0.1 that answers from a script. Ends when it is dropped.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    script: Arc<Script>,
    server: JoinHandle<()>,
}

#[derive(Debug)]
pub(crate) struct Script {
    turns: Mutex<VecDeque<Turn>>,
    seen: Mutex<Vec<SeenRequest>>,
    /// Answers that are being sent.
    open: watch::Sender<usize>,
}

impl ScriptedModel {
    /// Starts a server that answers with these turns, one a request; afterwards with status 500.
    ///
    /// # Panics
    /// When no port can be bound.
    #[expect(clippy::expect_used, reason = "a test cannot go on without its server")]
    pub async fn start(turns: impl IntoIterator<Item = Turn>) -> Self {
        let script = Arc::new(Script {
            turns: Mutex::new(turns.into_iter().collect()),
            seen: Mutex::default(),
            open: watch::Sender::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on 127.0.0.1");
        let address = listener.local_addr().expect("a bound address");
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { address, script, server }
    }

    /// What answers, for servers that let this one answer for them.
    pub(crate) fn script(&self) -> Arc<Script> {
        Arc::clone(&self.script)
    }

    /// The base URL for a model configuration; ends in `/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds turns to the end of the script.
    pub fn push(&self, turns: impl IntoIterator<Item = Turn>) {
        self.script.turns.lock().unwrap_or_else(PoisonError::into_inner).extend(turns);
    }

    /// What it was asked so far.
    #[must_use]
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.script.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until an answer is being sent.
    pub async fn answering(&self) {
        let _ = self.script.open.subscribe().wait_for(|open| *open > 0).await;
    }

    /// Waits until no answer is being sent: all were taken, or their connections were closed.
    pub async fn idle(&self) {
        let _ = self.script.open.subscribe().wait_for(|open| *open == 0).await;
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A model configuration for a scripted model: two attempts, no waits.
#[must_use]
pub fn llm_config(model: &ScriptedModel) -> LlmConfig {
    LlmConfig {
        model: "openai/scripted".to_owned(),
        base_url: Some(model.base_url()),
        api_key: Some(SecretText::new("test-key")),
        num_retries: 2,
        retry_min_wait: 0,
        retry_max_wait: 0,
        timeout: Some(60),
        ..LlmConfig::default()
    }
}

/// Counts an answer for as long as it is being sent.
struct Open(Arc<Script>);

impl Open {
    fn new(script: Arc<Script>) -> Self {
        script.open.send_modify(|open| *open += 1);
        Self(script)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open = open.saturating_sub(1));
    }
}

pub(crate) async fn answer(State(script): State<Arc<Script>>, request: Request) -> Response {
    let open = Open::new(Arc::clone(&script));
    let (head, body) = request.into_parts();
    if head.uri.path().ends_with("/model/info") {
        // Clients of LiteLLM's proxy ask what it knows of a model; that is no call of the model.
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let bytes = axum::body::to_bytes(body, BODY_LIMIT).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let path = head.uri.path().to_owned();
    let number = {
        let mut seen = script.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let query = head.uri.query().unwrap_or_default().to_owned();
        seen.push(SeenRequest { path: path.clone(), query, headers: head.headers, bytes, body: body.clone() });
        seen.len()
    };
    let turn = script.turns.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let turn = turn.unwrap_or_else(|| Turn::error(500, "script_exhausted", "the script has no more turns"));
    if !turn.delay.is_zero() {
        tokio::time::sleep(turn.delay).await;
    }
    let (kind, text) = wire::body(&turn, &path, number, &body);
    let mut response = Response::builder().status(turn.status).header("content-type", kind);
    for (name, value) in &turn.headers {
        response = response.header(name, value);
    }
    response.body(body_of(&turn, text, open)).unwrap_or_else(|_| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

fn body_of(turn: &Turn, mut bytes: Vec<u8>, open: Open) -> Body {
    let broken = turn.after.map(|(limit, how)| {
        bytes.truncate(limit);
        how
    });
    let pieces: Vec<Result<Bytes, io::Error>> =
        bytes.chunks(turn.piece.min(bytes.len().max(1))).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let pause = turn.pause;
    let sent = stream::iter(pieces).then(move |piece| async move {
        if pause > Duration::ZERO {
            tokio::time::sleep(pause).await;
        }
        piece
    });
    let end = stream::once(async move {
        match broken {
            Some(Break::Cut) => {
                // The server would throw away what it has not written yet.
                tokio::time::sleep(Duration::from_millis(50)).await;
                Some(Err(io::Error::other("cut by the script")))
            }
            Some(Break::Stall) => std::future::pending().await,
            Some(Break::End) | None => None,
        }
    })
    .filter_map(std::future::ready);
    // The count ends with the stream: dropped when the body was sent or the client has gone.
    let counted = sent.chain(end).map(move |piece| {
        let _open = &open;
        piece
    });
    Body::from_stream(counted)
}
