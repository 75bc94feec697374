//! One open socket of a conversation: frames out in order, messages in, and an end for whoever stands still. It does not know
//! how a frame is built; that is the difference between the two conversation sockets.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use bytes::Bytes;
use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use openhands_conversation::{Published, SendError, SendMessage, Subscription, SubscriptionEnded};
use openhands_protocol::{Content, Role};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::guard::{GOING_AWAY, TRY_AGAIN, is_auth_frame};
use crate::{service::Live, validation};

/// How long one frame may take to leave.
const SEND_LIMIT: Duration = Duration::from_secs(30);
/// Waiting frames are sent together up to so many bytes.
const TOGETHER: usize = 32 * 1024;
/// How often a silent peer is asked for a sign of life.
const PING_PERIOD: Duration = Duration::from_secs(20);
/// Error frames that may wait; a peer that sends more bad frames than it reads loses the rest.
const MAX_ERRORS: usize = 16;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer closed it, or is gone.
    Peer,
    /// It is closed by us with a code.
    Close(u16, &'static str),
}

/// How a socket writes its frames.
pub(super) trait Format: Send {
    /// A published event; `None` leaves it out.
    fn event(&mut self, event: Published) -> Result<Option<Utf8Bytes>, End>;
    /// A failure of this socket.
    fn error(&self, code: &str, detail: &str) -> Utf8Bytes;
}

/// The sending half.
pub(super) struct Outgoing {
    sink: SplitSink<WebSocket, Message>,
}

impl Outgoing {
    /// Sends one text frame.
    ///
    /// # Errors
    /// [`End`] when the peer is gone or stands still.
    pub(super) async fn send(&mut self, text: Utf8Bytes) -> Result<(), End> {
        self.put(Message::Text(text)).await
    }

    /// Sends a published frame, and with it those that wait already: pieces of an answer are small and many.
    ///
    /// # Errors
    /// [`End`] when the peer is gone or stands still, or the format refuses a frame.
    async fn send_waiting(
        &mut self,
        first: Published,
        subscription: &mut Subscription,
        format: &mut dyn Format,
    ) -> Result<(), End> {
        let sending = async {
            let (mut next, mut bytes) = (Some(first), 0);
            while let Some(frame) = next {
                bytes += frame.bytes.len();
                if let Some(text) = format.event(frame)? {
                    self.sink.feed(Message::Text(text)).await.map_err(|_| End::Peer)?;
                }
                next = if bytes < TOGETHER { subscription.waiting() } else { None };
            }
            self.sink.flush().await.map_err(|_| End::Peer)
        };
        tokio::time::timeout(SEND_LIMIT, sending).await.unwrap_or(Err(End::Close(TRY_AGAIN, "slow consumer")))
    }

    /// Asks the peer for a sign of life.
    ///
    /// # Errors
    /// [`End`] when the peer is gone or stands still.
    pub(super) async fn ping(&mut self) -> Result<(), End> {
        self.put(Message::Ping(Bytes::new())).await
    }

    async fn put(&mut self, message: Message) -> Result<(), End> {
        match tokio::time::timeout(SEND_LIMIT, self.sink.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Peer),
            Err(_) => Err(End::Close(TRY_AGAIN, "slow consumer")),
        }
    }

    /// Says goodbye.
    pub(super) async fn finish(mut self, end: End) {
        if let End::Close(code, reason) = end {
            let frame = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
            let _ = tokio::time::timeout(Duration::from_secs(5), self.sink.send(frame)).await;
        }
    }
}

/// Takes a socket apart.
pub(super) fn split(socket: WebSocket) -> (Outgoing, SplitStream<WebSocket>) {
    let (sink, stream) = socket.split();
    (Outgoing { sink }, stream)
}

/// Runs until either side ends: published events go out, messages come in and start runs.
pub(super) async fn serve(
    outgoing: &mut Outgoing,
    incoming: SplitStream<WebSocket>,
    subscription: &mut Subscription,
    conversation: &Live,
    format: &mut dyn Format,
    shutdown: &CancellationToken,
) -> End {
    let (errors, mut failed) = mpsc::channel::<Failure>(MAX_ERRORS);
    let (alive, signs) = tokio::sync::watch::channel(0_u64);
    let reading = read(incoming, conversation, errors, alive);
    let lagged = subscription.lagged();
    let writing = async {
        let mut ping = tokio::time::interval(PING_PERIOD);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ping.reset();
        let mut silent = 0;
        let mut last_sign = 0;
        loop {
            let sent = tokio::select! {
                biased;
                () = shutdown.cancelled() => return End::Close(GOING_AWAY, "server shuts down"),
                Some(failure) = failed.recv() => outgoing.send(format.error(failure.code, &failure.detail)).await,
                published = subscription.recv() => match published {
                    Ok(first) => outgoing.send_waiting(first, subscription, format).await,
                    Err(SubscriptionEnded::Lagged) => return End::Close(TRY_AGAIN, "slow consumer"),
                    Err(SubscriptionEnded::Closed) => return End::Close(GOING_AWAY, "conversation closed"),
                },
                _ = ping.tick() => {
                    let sign = *signs.borrow();
                    silent = if sign == last_sign { silent + 1 } else { 0 };
                    last_sign = sign;
                    if silent > 2 {
                        return End::Peer;
                    }
                    outgoing.ping().await
                }
            };
            if let Err(end) = sent {
                return end;
            }
        }
    };
    tokio::select! {
        end = reading => end,
        // Even in the middle of a frame that does not leave, so that what waits is forgotten at once.
        () = lagged.cancelled() => End::Close(TRY_AGAIN, "slow consumer"),
        end = writing => end,
    }
}

/// A frame that could not be used.
struct Failure {
    code: &'static str,
    detail: String,
}

async fn read(
    mut incoming: SplitStream<WebSocket>,
    conversation: &Live,
    errors: mpsc::Sender<Failure>,
    alive: tokio::sync::watch::Sender<u64>,
) -> End {
    while let Some(frame) = incoming.next().await {
        alive.send_modify(|count| *count = count.wrapping_add(1));
        let result = match frame {
            Ok(Message::Text(text)) => take(text.as_bytes(), conversation).await,
            Ok(Message::Binary(bytes)) => take(&bytes, conversation).await,
            Ok(Message::Ping(_) | Message::Pong(_)) => Ok(()),
            Ok(Message::Close(_)) | Err(_) => return End::Peer,
        };
        if let Err(failure) = result {
            // Full: the peer does not read what it already did wrong.
            let _ = errors.try_send(failure);
        }
    }
    End::Peer
}

/// An inbound message. It always starts a run.
#[derive(Deserialize)]
struct Inbound {
    #[serde(default = "user")]
    role: Role,
    #[serde(default)]
    content: Parts,
}

const fn user() -> Role {
    Role::User
}

/// The content of a message: a list of parts, or plain text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Parts {
    Text(String),
    List(Vec<Content>),
}

impl Default for Parts {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

async fn take(bytes: &[u8], conversation: &Live) -> Result<(), Failure> {
    let frame: Value = serde_json::from_slice(bytes)
        .map_err(|error| Failure { code: "JSONDecodeError", detail: error.to_string() })?;
    if is_auth_frame(&frame) {
        return Ok(());
    }
    let message: Inbound = validation::read("message", frame)
        .map_err(|problem| Failure { code: "ValidationError", detail: problem.msg })?;
    let content = match message.content {
        Parts::Text(text) => vec![Content::text(text)],
        Parts::List(parts) => parts,
    };
    let message = SendMessage { role: message.role, content, sender: None, run: true };
    match conversation.send_message(message).await {
        Ok(_) => Ok(()),
        Err(error) => {
            let code = match &error {
                SendError::NotAUserMessage => "ValueError",
                SendError::CapacityFull => "ConversationRunLimitExceeded",
                SendError::Closed => "ConversationClosed",
                SendError::Store(_) => "StorageError",
            };
            Err(Failure { code, detail: error.to_string() })
        }
    }
}
