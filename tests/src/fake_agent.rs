//! An agent-server that only knows what the operator asks of one: health, the proof, init, starting a conversation, its state,
//! and the report. It listens on an address of its own in 127/8, where its pod is said to be.
//!
//! The wire shapes are written out here by hand on purpose; see the crate's head.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context as _, Result};
use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{net::TcpListener, task::JoinHandle};

/// The port of agent-servers.
pub const PORT: u16 = 8000;

/// What the agent has been told, for assertions.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Bodies of accepted `POST /api/init`, oldest first; one a life.
    pub inits: Vec<Value>,
    /// Accepted `POST /api/conversations`, all of them, by conversation id.
    pub starts: BTreeMap<String, Vec<Value>>,
    /// Requests with a wrong key.
    pub refused: usize,
    /// `GET /api/init` with a nonce.
    pub proofs: usize,
}

#[derive(Debug, Default)]
struct Life {
    memory: Memory,
    ready: Option<Value>,
    conversations: BTreeMap<String, Value>,
    sequence: u64,
    mute: bool,
    closed: bool,
    lies: bool,
}

/// One fake agent-server; it stops listening when dropped.
#[derive(Debug)]
pub struct Agent {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    /// Where it listens.
    pub address: Ipv4Addr,
}

#[derive(Debug)]
struct Shared {
    pod_uid: String,
    digest: String,
    life: Mutex<Life>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Agent {
    /// Listens on `address`:8000 for the pod with this UID, whose init key has this digest (hex).
    ///
    /// # Errors
    /// When the address is taken.
    pub async fn start(address: Ipv4Addr, pod_uid: &str, digest: &str) -> Result<Self> {
        let listener =
            TcpListener::bind((address, PORT)).await.with_context(|| format!("listen on {address}:{PORT}"))?;
        let shared =
            Arc::new(Shared { pod_uid: pod_uid.to_owned(), digest: digest.to_owned(), life: Mutex::default() });
        let router = Router::new()
            .route("/health", get(|| async { Json(json!({"status": "ok"})) }))
            .route("/alive", get(|| async { Json(json!({"status": "ok"})) }))
            .route("/ready", get(|| async { Json(json!({"status": "ready"})) }))
            .route("/api/init", get(init_state).post(init))
            .route("/api/conversations", post(start))
            .route("/api/conversations/count", get(count))
            .route("/api/conversations/{id}", get(conversation))
            .with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { shared, task, address })
    }

    fn life<T>(&self, look: impl FnOnce(&mut Life) -> T) -> T {
        self.shared.life(look)
    }

    /// A copy of what it was told.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.life(|life| life.memory.clone())
    }

    /// The container came back: dormant again, and without conversations unless they were kept.
    pub fn restart(&self, keeps_conversations: bool) {
        self.life(|life| {
            life.ready = None;
            if !keeps_conversations {
                life.conversations.clear();
            }
        });
    }

    /// From now on `/api/init` answers with a proof for another key.
    pub fn lie(&self) {
        self.life(|life| life.lies = true);
    }

    /// Whether init is answered with 503.
    pub fn close(&self, closed: bool) {
        self.life(|life| life.closed = closed);
    }

    /// Whether starts are answered with 503.
    pub fn mute(&self, mute: bool) {
        self.life(|life| life.mute = mute);
    }

    /// The next report about its one conversation, which from now on answers with this status: where init said it must go
    /// (`url`, `token`), and the body.
    ///
    /// # Errors
    /// When it is dormant.
    pub fn next_report(&self, execution_status: &str, final_message: Option<&str>) -> Result<(Value, Value)> {
        self.life(|life| {
            life.sequence += 1;
            let target =
                life.ready.as_ref().and_then(|init| init.get("report")).cloned().context("no report target")?;
            let id = target.get("conversation_id").and_then(Value::as_str).context("conversation_id")?.to_owned();
            if let Some(info) = life.conversations.get_mut(&id).and_then(Value::as_object_mut) {
                info.insert("execution_status".into(), execution_status.into());
            }
            let mut body = json!({
                "podUid": self.shared.pod_uid, "conversationId": id, "seq": life.sequence,
                "executionStatus": execution_status, "pendingActions": 0,
                "usage": {"cost": "0.0125", "promptTokens": 110, "completionTokens": 20},
                "lastActivity": "2026-01-02T03:04:05Z",
            });
            if let (Some(text), Some(body)) = (final_message, body.as_object_mut()) {
                body.insert("finalMessage".into(), text.into());
            }
            Ok((target, body))
        })
    }
}

impl Shared {
    fn life<T>(&self, look: impl FnOnce(&mut Life) -> T) -> T {
        look(&mut self.life.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn state(&self, life: &Life) -> Value {
        json!({"state": if life.ready.is_some() { "ready" } else { "dormant" }, "error": null})
    }
}

fn refuse(status: StatusCode, detail: &str) -> Response {
    (status, Json(json!({"detail": detail}))).into_response()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

async fn init_state(State(shared): State<Arc<Shared>>, Query(query): Query<BTreeMap<String, String>>) -> Json<Value> {
    shared.life(|life| {
        let mut state = shared.state(life);
        if let (Some(nonce), Some(members)) = (query.get("nonce"), state.as_object_mut()) {
            life.memory.proofs += 1;
            let mut key = hex::decode(&shared.digest).unwrap_or_default();
            if life.lies {
                key.reverse();
            }
            let proof = Hmac::<Sha256>::new_from_slice(&key).map(|mut mac| {
                mac.update(format!("{}\n{nonce}", shared.pod_uid).as_bytes());
                hex::encode(mac.finalize().into_bytes())
            });
            members.insert("pod_uid".into(), shared.pod_uid.clone().into());
            members.insert("proof".into(), proof.unwrap_or_default().into());
        }
        Json(state)
    })
}

async fn init(State(shared): State<Arc<Shared>>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    shared.life(|life| {
        if hex::encode(Sha256::digest(header(&headers, "X-Init-API-Key"))) != shared.digest {
            life.memory.refused += 1;
            return refuse(StatusCode::UNAUTHORIZED, "Unauthorized");
        }
        if life.ready.is_some() {
            return refuse(StatusCode::BAD_REQUEST, "already initialized");
        }
        if life.closed {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "told to be closed");
        }
        life.memory.inits.push(body.clone());
        life.ready = Some(body);
        Json(shared.state(life)).into_response()
    })
}

/// The answer for a caller who may not come in.
fn closed(life: &mut Life, headers: &HeaderMap) -> Option<Response> {
    let Some(init) = &life.ready else {
        return Some(refuse(StatusCode::SERVICE_UNAVAILABLE, "dormant"));
    };
    let key = header(headers, "X-Session-API-Key");
    let keys = init.get("session_api_keys").and_then(Value::as_array);
    if keys.is_some_and(|keys| keys.iter().any(|known| known == key)) {
        return None;
    }
    life.memory.refused += 1;
    Some(refuse(StatusCode::UNAUTHORIZED, "Unauthorized"))
}

async fn start(State(shared): State<Arc<Shared>>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    shared.life(|life| {
        if let Some(refusal) = closed(life, &headers) {
            return refusal;
        }
        if life.mute {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "told to be mute");
        }
        let Some(id) = body.get("conversation_id").and_then(Value::as_str).map(str::to_owned) else {
            return refuse(StatusCode::UNPROCESSABLE_ENTITY, "conversation_id is missing");
        };
        life.memory.starts.entry(id.clone()).or_default().push(body);
        if let Some(info) = life.conversations.get(&id) {
            return (StatusCode::OK, Json(info.clone())).into_response();
        }
        let info = json!({
            "id": id, "execution_status": "running", "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z",
        });
        life.conversations.insert(id, info.clone());
        (StatusCode::CREATED, Json(info)).into_response()
    })
}

async fn count(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    shared.life(|life| match closed(life, &headers) {
        Some(refusal) => refusal,
        None => Json(life.conversations.len()).into_response(),
    })
}

async fn conversation(State(shared): State<Arc<Shared>>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    shared.life(|life| {
        if let Some(refusal) = closed(life, &headers) {
            return refusal;
        }
        life.conversations
            .get(&id)
            .map_or_else(|| refuse(StatusCode::NOT_FOUND, "Not Found"), |info| Json(info.clone()).into_response())
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::http;

    #[tokio::test]
    async fn it_is_as_strict_as_a_server() {
        let digest = hex::encode(Sha256::digest("key"));
        let agent = Agent::start(Ipv4Addr::new(127, 99, 0, 1), "pod", &digest).await.unwrap();
        let url = "http://127.99.0.1:8000";
        let call = async |method: &str, path: &str, headers: &[(&str, &str)], body: Value| {
            let mut all = vec![("Content-Type", "application/json")];
            all.extend(headers);
            http::request(method, &format!("{url}{path}"), &all, &body.to_string()).await.unwrap()
        };
        let start = json!({"conversation_id": "c", "initial_message": {"content": []}});
        assert_eq!(call("POST", "/api/conversations", &[], start.clone()).await.status, 503);
        let proof = call("GET", "/api/init?nonce=n", &[], Value::Null).await.body;
        let proof: Value = serde_json::from_str(&proof).unwrap();
        assert_eq!((proof["state"].as_str(), proof["pod_uid"].as_str()), (Some("dormant"), Some("pod")));
        // Computed once with another tool: HMAC-SHA-256 keyed by SHA-256("key") over "pod\nn".
        assert_eq!(proof["proof"], "eb72b510d3820896115a3af2e02ca4756a556e0fec9e02b5d8480e2afc4f93b8");
        let init = json!({"session_api_keys": ["s"]});
        assert_eq!(call("POST", "/api/init", &[("X-Init-API-Key", "other")], init.clone()).await.status, 401);
        assert_eq!(call("POST", "/api/init", &[("X-Init-API-Key", "key")], init.clone()).await.status, 200);
        assert_eq!(call("POST", "/api/init", &[("X-Init-API-Key", "key")], init).await.status, 400);
        assert_eq!(call("POST", "/api/conversations", &[], start.clone()).await.status, 401);
        let key = [("X-Session-API-Key", "s")];
        assert_eq!(call("POST", "/api/conversations", &key, start.clone()).await.status, 201);
        assert_eq!(call("POST", "/api/conversations", &key, start).await.status, 200);
        assert_eq!(call("GET", "/api/conversations/c", &key, Value::Null).await.status, 200);
        let memory = agent.memory();
        assert_eq!((memory.inits.len(), memory.refused, memory.proofs), (1, 2, 1));
        assert_eq!(memory.starts["c"].len(), 2);
    }
}
