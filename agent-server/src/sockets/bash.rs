//! `/sockets/bash-events`: events of commands out, commands in.

use std::time::Duration;

use axum::{
    Router,
    extract::{
        State,
        ws::{Message, Utf8Bytes, WebSocket},
    },
    http::HeaderMap,
    response::{IntoResponse, Response},
    routing::any,
};
use futures::StreamExt as _;
use openhands_protocol::bash::BashError;
use openhands_workspace::bash::BashService;
use serde_json::Value;

use super::{
    connection::{End, Outgoing, split},
    events::text,
    guard::{GOING_AWAY, TRY_AGAIN, Upgrade, admit, close, is_auth_frame},
};
use crate::{error::ApiError, query::Query, routes::bash::read_request, state::AppState};

/// How often a silent peer is asked for a sign of life, and how often it may stay silent.
const PING_PERIOD: Duration = Duration::from_secs(20);
const MAX_SILENT: u32 = 3;

/// The socket's route.
pub fn router() -> Router<AppState> {
    Router::new().route("/sockets/bash-events", any(open))
}

async fn open(State(state): State<AppState>, mut query: Query, headers: HeaderMap, upgrade: Upgrade) -> Response {
    let all = query.flag("resend_all");
    let mode = query.choice("resend_mode", &[("all", true)]);
    if query.finish().is_err() {
        return ApiError::Forbidden("bad address".to_owned()).into_response();
    }
    let history = mode.unwrap_or(all);
    let server = state.clone();
    admit(&state, upgrade, &headers, &query, move |socket, app| async move {
        run(socket, &app.bash, history, &server).await;
    })
}

async fn run(mut socket: WebSocket, bash: &BashService, history: bool, state: &AppState) {
    let Ok((before, mut subscription)) = bash.subscribe(history).await else {
        close(&mut socket, TRY_AGAIN, "Too many bash event connections").await;
        return;
    };
    let (mut outgoing, mut incoming) = split(socket);
    for key in before {
        let Some(body) = bash.read(key).await else { continue };
        let sent = match text(body) {
            Ok(text) => outgoing.send(text).await,
            Err(end) => Err(end),
        };
        if let Err(end) = sent {
            return outgoing.finish(end).await;
        }
    }
    let mut ping = tokio::time::interval(PING_PERIOD);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ping.reset();
    let mut silent = 0;
    let end = loop {
        let result = tokio::select! {
            biased;
            () = state.shutdown().cancelled() => Err(End::Close(GOING_AWAY, "server shuts down")),
            frame = incoming.next() => {
                silent = 0;
                take(frame, bash, state, &mut outgoing).await
            }
            event = subscription.recv() => match event {
                Some(event) => match text(event) {
                    Ok(text) => outgoing.send(text).await,
                    Err(end) => Err(end),
                },
                None => Err(End::Close(TRY_AGAIN, "slow consumer")),
            },
            _ = ping.tick() => {
                silent += 1;
                if silent > MAX_SILENT { Err(End::Peer) } else { outgoing.ping().await }
            }
        };
        if let Err(end) = result {
            break end;
        }
    };
    outgoing.finish(end).await;
}

async fn take(
    frame: Option<Result<Message, axum::Error>>,
    bash: &BashService,
    state: &AppState,
    outgoing: &mut Outgoing,
) -> Result<(), End> {
    let bytes = match frame {
        Some(Ok(Message::Text(text))) => bytes::Bytes::from(text),
        Some(Ok(Message::Binary(bytes))) => bytes,
        Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
        Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(End::Peer),
    };
    state.clock().touch();
    match start(&bytes, bash).await {
        Ok(()) => Ok(()),
        Err(refusal) => {
            let frame: Utf8Bytes = serde_json::to_string(&refusal).unwrap_or_default().into();
            outgoing.send(frame).await
        }
    }
}

async fn start(bytes: &[u8], bash: &BashService) -> Result<(), BashError> {
    let frame: Value =
        serde_json::from_slice(bytes).map_err(|error| BashError::now("JSONDecodeError", error.to_string()))?;
    if is_auth_frame(&frame) {
        return Ok(());
    }
    let request = read_request(Some(frame), "frame").map_err(|problems| {
        let line = |problem: &crate::validation::Problem| {
            let place: Vec<String> =
                problem.loc.iter().map(|part| part.to_string().trim_matches('"').to_owned()).collect();
            format!("{}: {}", place.join("."), problem.msg)
        };
        BashError::now("ValidationError", problems.iter().map(line).collect::<Vec<_>>().join("; "))
    })?;
    bash.start(request).await.map(|_| ()).map_err(|error| BashError::now("RuntimeError", error.to_string()))
}
