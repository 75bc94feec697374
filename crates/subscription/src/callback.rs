//! The address on this machine that the browser comes back to, once.
//!
//! Only an answer with our state counts. Whatever else arrives, from another page, another program or a second click, is refused
//! and changes nothing: a sign-in can neither be ended nor fed by somebody who does not know the state.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    extract::{Query, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Deserialize;
use tokio::{net::TcpListener, sync::oneshot, task::JoinSet};

use crate::{SubscriptionError, pkce};

const PATH: &str = "/auth/callback";
/// Of an error's text this much is shown, characters.
const MAX_TEXT: usize = 200;

/// Listens until dropped.
pub(crate) struct Callback {
    port: u16,
    listeners: Vec<TcpListener>,
}

/// What the browser brings.
#[derive(Deserialize)]
struct Brought {
    state: Option<String>,
    code: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// What came, and how to tell the browser what became of it.
pub(crate) struct Arrival {
    pub(crate) code: Result<String, SubscriptionError>,
    pub(crate) reply: oneshot::Sender<Result<(), String>>,
}

/// Waits for the one answer.
struct Waiting {
    state: String,
    arrivals: Mutex<Option<oneshot::Sender<Arrival>>>,
}

impl Callback {
    /// Listens on both addresses of `localhost`: which one a browser takes is its own choice.
    pub(crate) async fn listen(port: u16) -> Result<Self, SubscriptionError> {
        let failed = |port: u16, error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => SubscriptionError::PortInUse(port),
            _ => SubscriptionError::storage("listen on", format!("localhost:{port}"))(error),
        };
        let four = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|error| failed(port, error))?;
        let port = four.local_addr().map_err(|error| failed(port, error))?.port();
        let mut listeners = vec![four];
        match TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await {
            Ok(six) => listeners.push(six),
            // Somebody else would get the answer.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(SubscriptionError::PortInUse(port)),
            // A machine without IPv6.
            Err(_) => {}
        }
        Ok(Self { port, listeners })
    }

    /// What the browser is sent back to.
    pub(crate) fn address(&self) -> String {
        format!("http://localhost:{}{PATH}", self.port)
    }

    /// Serves until the answer with this state has come and been replied to; the servers end with the returned set.
    pub(crate) fn serve(self, state: String) -> (oneshot::Receiver<Arrival>, JoinSet<()>) {
        let (sender, arrival) = oneshot::channel();
        let waiting = Arc::new(Waiting { state, arrivals: Mutex::new(Some(sender)) });
        let router = Router::new().route(PATH, get(arrived)).with_state(waiting);
        let mut servers = JoinSet::new();
        for listener in self.listeners {
            let router = router.clone();
            servers.spawn(async move {
                if let Err(error) = axum::serve(listener, router).await {
                    tracing::debug!(%error, "the callback's server ended");
                }
            });
        }
        (arrival, servers)
    }
}

async fn arrived(State(waiting): State<Arc<Waiting>>, Query(brought): Query<Brought>) -> Response {
    if !brought.state.as_deref().is_some_and(|state| pkce::is_same(state, &waiting.state)) {
        tracing::warn!("something that is no answer to this sign-in came to its address");
        return page(StatusCode::BAD_REQUEST, "This is no answer to the sign-in that is under way.");
    }
    let sender = waiting.arrivals.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(sender) = sender else {
        return page(StatusCode::CONFLICT, "The answer to this sign-in has come already.");
    };
    let code = match (brought.error, brought.code.filter(|code| !code.is_empty())) {
        (Some(error), _) => {
            Err(SubscriptionError::Denied(brought.error_description.unwrap_or(error).chars().take(MAX_TEXT).collect()))
        }
        (None, Some(code)) => Ok(code),
        (None, None) => Err(SubscriptionError::BadAnswer("the browser brought no code".to_owned())),
    };
    let (reply, outcome) = oneshot::channel();
    let _ = sender.send(Arrival { code, reply });
    match outcome.await {
        Ok(Ok(())) => page(StatusCode::OK, "You are signed in. You can close this window."),
        Ok(Err(text)) => page(StatusCode::BAD_GATEWAY, &format!("The sign-in failed: {text}")),
        Err(_) => page(StatusCode::GONE, "The sign-in has ended."),
    }
}

/// A page with one sentence: no scripts, nothing loaded, nowhere kept, and no address told to others.
fn page(status: StatusCode, sentence: &str) -> Response {
    let safe = sentence.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>OpenHands</title>\
         <body style=\"font: 1.1rem system-ui; margin: 4rem auto; max-width: 32rem\"><p>{safe}</p></body></html>"
    );
    let mut response = (status, text).into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONNECTION, "close"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
