//! `/sockets/events/{id}`: bare events. A full state first, then the history that was asked for, then what happens.

use axum::{
    extract::{
        State,
        ws::{Utf8Bytes, WebSocket},
    },
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use openhands_conversation::{Audience, Published};
use openhands_protocol::{ConversationId, Event, EventBase, EventId, Source, event::ServerErrorEvent, time::event_now};
use openhands_store::EventLog;
use tokio_util::sync::CancellationToken;

use super::{
    close,
    connection::{End, Format, Outgoing, serve, split},
    guard::{TRY_AGAIN, UNKNOWN_CONVERSATION, Upgrade, admit},
};
use crate::{
    error::ApiError,
    extract::ConversationPath,
    query::Query,
    service::{Service, ServiceError},
    state::AppState,
};

/// Sockets of one conversation, over both kinds.
pub(super) const MAX_SUBSCRIBERS: usize = 50;
/// Events read at once while the history is sent.
const HISTORY_STEP: u64 = 100;

/// Which part of the history is sent on connect.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Resend {
    Nothing,
    All,
    Since(String),
}

/// Opens the socket.
pub(super) async fn open(
    State(state): State<AppState>,
    id: Result<ConversationPath, ApiError>,
    mut query: Query,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Response {
    let resend = resend(&mut query);
    let (Ok(ConversationPath(id)), Ok(())) = (id, query.finish()) else {
        return ApiError::Forbidden("bad address".to_owned()).into_response();
    };
    let shutdown = state.shutdown().clone();
    admit(&state, upgrade, &headers, &query, move |socket, app| async move {
        run(socket, app.conversations.clone(), id, resend, shutdown).await;
    })
}

fn resend(query: &mut Query) -> Resend {
    let after = query.time("after_timestamp");
    let all = query.flag("resend_all");
    match query.choice("resend_mode", &[("all", true), ("since", false)]) {
        Some(true) => Resend::All,
        // Without a time there is nothing to resend from.
        Some(false) => after.map_or(Resend::Nothing, Resend::Since),
        None if all => Resend::All,
        None => Resend::Nothing,
    }
}

/// Wakes the conversation of a socket, or closes the socket.
pub(super) async fn conversation_of(
    socket: &mut WebSocket,
    service: &Service,
    id: ConversationId,
) -> Option<crate::service::Live> {
    match service.get(id).await {
        Ok(live) => Some(live),
        Err(ServiceError::Unknown) => {
            close(socket, UNKNOWN_CONVERSATION, "Conversation not found").await;
            None
        }
        Err(error) => {
            tracing::warn!(conversation = %id, %error, "socket refused");
            close(socket, TRY_AGAIN, "conversation is not available").await;
            None
        }
    }
}

async fn run(mut socket: WebSocket, service: Service, id: ConversationId, resend: Resend, shutdown: CancellationToken) {
    let Some(conversation) = conversation_of(&mut socket, &service, id).await else { return };
    let Ok(mut subscription) = conversation.subscribe(Audience::Events, MAX_SUBSCRIBERS) else {
        close(&mut socket, TRY_AGAIN, "Too many connections for this conversation").await;
        return;
    };
    let (mut outgoing, incoming) = split(socket);
    let greeting = async {
        outgoing.send(text(conversation.snapshot_event())?).await?;
        history(&mut outgoing, &conversation.events(), &resend).await
    };
    let end = match greeting.await {
        Ok(sent_to) => {
            let mut format = Bare { sent_to };
            serve(&mut outgoing, incoming, &mut subscription, &conversation, &mut format, &shutdown).await
        }
        Err(end) => end,
    };
    outgoing.finish(end).await;
}

/// Sends the history; answers the position up to which live events are known to the peer.
async fn history(outgoing: &mut Outgoing, log: &EventLog, resend: &Resend) -> Result<u64, End> {
    if *resend == Resend::Nothing {
        return Ok(0);
    }
    let mut next = 0;
    while next < log.written() {
        let to = next.saturating_add(HISTORY_STEP).min(log.written());
        let events = log.load(next, to).await.map_err(|_| End::Close(TRY_AGAIN, "history is not available"))?;
        for event in events {
            let wanted = match resend {
                Resend::Since(stamp) => event.timestamp.as_str() >= stamp.as_str(),
                Resend::All | Resend::Nothing => true,
            };
            if wanted {
                outgoing.send(text(event.bytes.clone())?).await?;
            }
        }
        next = to;
    }
    Ok(next)
}

/// The bytes of an event as a text frame, without copying them.
pub(super) fn text(bytes: Bytes) -> Result<Utf8Bytes, End> {
    Utf8Bytes::try_from(bytes).map_err(|_| End::Close(1011, "an event is no text"))
}

/// Events as they are.
struct Bare {
    sent_to: u64,
}

impl Format for Bare {
    fn event(&mut self, event: Published) -> Result<Option<Utf8Bytes>, End> {
        if event.seq.is_some_and(|seq| seq < self.sent_to) {
            return Ok(None);
        }
        text(event.bytes).map(Some)
    }

    fn error(&self, code: &str, detail: &str) -> Utf8Bytes {
        let base =
            EventBase { id: EventId::random(), timestamp: event_now(), source: Source::Environment, parent_id: None };
        let event = Event::ServerError(ServerErrorEvent { base, code: code.to_owned(), detail: detail.to_owned() });
        serde_json::to_string(&event).unwrap_or_default().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_history_is_resent() {
        let table = [
            ("", Resend::Nothing),
            ("resend_mode=all", Resend::All),
            ("resend_all=true", Resend::All),
            ("resend_mode=since", Resend::Nothing),
            (
                "resend_mode=since&after_timestamp=2026-01-02T03:04:05",
                Resend::Since("2026-01-02T03:04:05.000000".into()),
            ),
        ];
        for (text, expected) in table {
            let mut query = Query::parse(text);
            assert_eq!(resend(&mut query), expected, "{text}");
            assert!(query.finish().is_ok());
        }
        let mut query = Query::parse("resend_mode=some");
        resend(&mut query);
        assert!(query.finish().is_err());
    }
}
