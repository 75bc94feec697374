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
use openhands_conversation::{Audience, OpenItem, Published};
use openhands_protocol::{
    ConversationId,
    session::{self, MAX_FRAME, SessionFrame},
};
use tokio_util::sync::CancellationToken;

use super::{
    close,
    connection::{End, Format, Outgoing, serve, split},
    events::{MAX_SUBSCRIBERS, conversation_of, text},
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
    let Ok(mut subscription) = conversation.subscribe(Audience::Session, MAX_SUBSCRIBERS) else {
        close(&mut socket, TRY_AGAIN, "Too many connections for this conversation").await;
        return;
    };
    let (mut outgoing, incoming) = split(socket);
    let item = subscription.open_item();
    let end = match greet(&mut outgoing, &conversation, after, item).await {
        Ok(sent_to) => {
            let mut format = Envelope { sent_to };
            serve(&mut outgoing, incoming, &mut subscription, &conversation, &mut format, &shutdown).await
        }
        Err(end) => end,
    };
    outgoing.finish(end).await;
}

/// The sync frame, the history, the snapshot, the answer on its way; answers the position up to which events were sent.
async fn greet(
    outgoing: &mut Outgoing,
    conversation: &Live,
    after: Option<i64>,
    mut item: Option<OpenItem>,
) -> Result<u64, End> {
    let log = conversation.events();
    let len = log.written();
    let sync = SessionFrame::Sync { from_seq: after, through_seq: len.checked_sub(1) };
    outgoing.send(sync.text().into()).await?;
    let mut sent_to = 0;
    if let Some(after) = after {
        let mut next = u64::try_from(after.saturating_add(1)).unwrap_or(0);
        while next < len {
            let to = next.saturating_add(HISTORY_STEP).min(len);
            let events = log.load(next, to).await.map_err(|_| End::Close(TRY_AGAIN, "history is not available"))?;
            for event in events {
                // The answer came while the history was read.
                item.take_if(|item| item.id == event.id);
                outgoing.send(whole(session::durable(event.seq, &event.bytes).into())?).await?;
            }
            next = to;
        }
        sent_to = len;
    }
    outgoing.send(whole(session::transient(&conversation.snapshot_event()).into())?).await?;
    if let Some(item) = item {
        // What is missed of it shows in the order of its pieces; its event brings all.
        outgoing.send(item.started().into()).await?;
    }
    Ok(sent_to)
}

/// A frame that is not too large.
fn whole(frame: Bytes) -> Result<Utf8Bytes, End> {
    if frame.len() > MAX_FRAME {
        return Err(End::Close(TRY_AGAIN, "frame_too_large"));
    }
    text(frame)
}

struct Envelope {
    sent_to: u64,
}

impl Format for Envelope {
    fn event(&mut self, frame: Published) -> Result<Option<Utf8Bytes>, End> {
        if frame.seq.is_some_and(|seq| seq < self.sent_to) {
            return Ok(None);
        }
        whole(frame.bytes).map(Some)
    }

    fn error(&self, code: &str, detail: &str) -> Utf8Bytes {
        SessionFrame::Error { code, detail }.text().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_a_largest_size() {
        let frame = |size| Bytes::from(vec![b'1'; size]);
        assert_eq!(whole(frame(MAX_FRAME)).unwrap().len(), MAX_FRAME);
        assert_eq!(whole(frame(MAX_FRAME + 1)).unwrap_err(), End::Close(TRY_AGAIN, "frame_too_large"));
    }
}
