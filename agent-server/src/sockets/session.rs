//! `/sockets/session/{id}`: events in envelopes that carry their position, so that a client can take up where it stopped.
//! History and live events never interleave here.

use axum::{
    extract::{
        State,
        ws::{Utf8Bytes, WebSocket},
    },
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use openhands_conversation::Published;
use openhands_protocol::ConversationId;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    close,
    connection::{End, Format, Outgoing, serve, split},
    events::{MAX_SUBSCRIBERS, conversation_of},
    guard::{TRY_AGAIN, Upgrade, admit},
};
use crate::{
    error::ApiError,
    extract::ConversationPath,
    query::Query,
    service::{Live, Service},
    state::AppState,
    validation::Problem,
};

/// Largest frame, bytes.
const MAX_FRAME: usize = 4 * 1024 * 1024;
/// Events read at once while the history is sent.
const HISTORY_STEP: u64 = 100;

/// Opens the socket.
pub(super) async fn open(
    State(state): State<AppState>,
    id: Result<ConversationPath, ApiError>,
    mut query: Query,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Response {
    let after = query.text("after_seq").map(str::to_owned).and_then(|text| {
        let number = text.parse::<i64>();
        if number.is_err() {
            query.problem(Problem::new("int_parsing", ["query", "after_seq"], "Input should be a valid integer"));
        }
        number.ok()
    });
    let (Ok(ConversationPath(id)), Ok(())) = (id, query.finish()) else {
        return ApiError::Forbidden("bad address".to_owned()).into_response();
    };
    let shutdown = state.shutdown().clone();
    admit(&state, upgrade, &headers, &query, move |socket, app| async move {
        run(socket, app.conversations.clone(), id, after, shutdown).await;
    })
}

async fn run(
    mut socket: WebSocket,
    service: Service,
    id: ConversationId,
    after: Option<i64>,
    shutdown: CancellationToken,
) {
    let Some(conversation) = conversation_of(&mut socket, &service, id).await else { return };
    // Before the end of the history is read: what is appended in between waits in the subscription.
    let Ok(mut subscription) = conversation.subscribe(MAX_SUBSCRIBERS) else {
        close(&mut socket, TRY_AGAIN, "Too many connections for this conversation").await;
        return;
    };
    let (mut outgoing, incoming) = split(socket);
    let end = match greet(&mut outgoing, &conversation, after).await {
        Ok(sent_to) => {
            let mut format = Envelope { sent_to };
            serve(&mut outgoing, incoming, &mut subscription, &conversation, &mut format, &shutdown).await
        }
        Err(end) => end,
    };
    outgoing.finish(end).await;
}

/// The sync frame, the history, the snapshot; answers the position up to which events were sent.
async fn greet(outgoing: &mut Outgoing, conversation: &Live, after: Option<i64>) -> Result<u64, End> {
    let log = conversation.events();
    let len = log.len();
    let mut sync = Map::from_iter([("type".to_owned(), json!("sync"))]);
    if let Some(after) = after {
        sync.insert("from_seq".to_owned(), json!(after));
    }
    if let Some(through) = len.checked_sub(1) {
        sync.insert("through_seq".to_owned(), json!(through));
    }
    outgoing.send(Value::Object(sync).to_string().into()).await?;
    let mut sent_to = 0;
    if let Some(after) = after {
        let mut next = u64::try_from(after.saturating_add(1)).unwrap_or(0);
        while next < len {
            let to = next.saturating_add(HISTORY_STEP).min(len);
            let events = log.load(next, to).await.map_err(|_| End::Close(TRY_AGAIN, "history is not available"))?;
            for event in events {
                outgoing.send(durable(event.seq, &event.bytes)?).await?;
            }
            next = to;
        }
        sent_to = len;
    }
    outgoing.send(transient(&conversation.snapshot_event())?).await?;
    Ok(sent_to)
}

fn durable(seq: u64, event: &Bytes) -> Result<Utf8Bytes, End> {
    envelope(&format!(r#"{{"type":"durable","seq":{seq},"event":"#), event)
}

fn transient(event: &Bytes) -> Result<Utf8Bytes, End> {
    envelope(r#"{"type":"transient","event":"#, event)
}

fn envelope(head: &str, event: &Bytes) -> Result<Utf8Bytes, End> {
    let mut frame = String::with_capacity(head.len() + event.len() + 1);
    frame.push_str(head);
    frame.push_str(std::str::from_utf8(event).map_err(|_| End::Close(1011, "an event is no text"))?);
    frame.push('}');
    if frame.len() > MAX_FRAME {
        return Err(End::Close(TRY_AGAIN, "frame_too_large"));
    }
    Ok(frame.into())
}

struct Envelope {
    sent_to: u64,
}

impl Format for Envelope {
    fn event(&mut self, event: &Published) -> Result<Option<Utf8Bytes>, End> {
        match event.seq {
            Some(seq) if seq < self.sent_to => Ok(None),
            Some(seq) => durable(seq, &event.bytes).map(Some),
            // Deltas are frames of their own kind here, which this version does not send.
            None if &*event.kind == "StreamingDeltaEvent" => Ok(None),
            None => transient(&event.bytes).map(Some),
        }
    }

    fn error(&self, code: &str, detail: &str) -> Utf8Bytes {
        json!({"type": "error", "code": code, "detail": detail}).to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_hold_the_event_word_for_word() {
        let event = Bytes::from_static(br#"{"id":"e"}"#);
        assert_eq!(durable(7, &event).unwrap().as_str(), r#"{"type":"durable","seq":7,"event":{"id":"e"}}"#);
        assert_eq!(transient(&event).unwrap().as_str(), r#"{"type":"transient","event":{"id":"e"}}"#);
        assert_eq!(
            durable(7, &Bytes::from(vec![b'1'; MAX_FRAME])).unwrap_err(),
            End::Close(TRY_AGAIN, "frame_too_large")
        );
    }
}
