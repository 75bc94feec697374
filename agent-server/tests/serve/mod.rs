//! A server in this process, on a port of its own, and a small client for it.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::allow_attributes, reason = "which part is unused differs between the binaries")]

use std::{net::SocketAddr, time::Duration};

use openhands_agent_server::{config, router, run, server, state::AppState};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A running server; it stops when this is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) client: reqwest::Client,
    pub(crate) state: AppState,
    _stop: DropGuard,
}

/// An answer in short.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// A server with these variables and folders of its own.
pub(crate) async fn serve(variables: &[(&str, &str)]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut all: config::Variables = [
        ("OH_CONVERSATIONS_PATH".to_owned(), path("conversations")),
        ("OH_BASH_EVENTS_DIR".to_owned(), path("bash")),
        ("OH_WORKSPACE_PATH".to_owned(), path("project")),
        ("OH_PERSISTENCE_DIR".to_owned(), path("persistence")),
    ]
    .into();
    all.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let config = config::load(&all).unwrap().config;
    let state = run::start(config, None).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(server::serve(listener, router::build(state.clone()), state.clone(), stop.clone()));
    Server { address, folder, client: openhands_llm::http_client().unwrap(), state, _stop: stop.drop_guard() }
}

impl Server {
    /// A request of one method.
    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().unwrap();
        self.client.request(method, format!("http://{}{path}", self.address)).timeout(Duration::from_secs(30))
    }

    /// Sends a request without a body.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        answer(self.request("GET", path)).await
    }

    /// Sends a request with a body.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        answer(self.request("POST", path).json(&body)).await
    }
}

/// Sends a request.
pub(crate) async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let bytes = answer.bytes().await.unwrap();
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
    Answer { status, body }
}

/// A start request whose model is never reached.
pub(crate) fn start_body(server: &Server) -> Value {
    let directory = server.folder.path().join("work");
    json!({
        "agent": {
            "kind": "Agent",
            "llm": {"model": "openai/nobody", "base_url": "http://127.0.0.1:9/v1", "api_key": "sk-test", "num_retries": 0},
            "tools": [],
        },
        "workspace": {"kind": "LocalWorkspace", "working_dir": directory.to_str().unwrap()},
    })
}
