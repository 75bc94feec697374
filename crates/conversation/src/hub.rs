//! Hands published frames to subscribers: in order, bounded, and never waiting for anyone.
//!
//! Each kind of socket has its own bytes for the same thing; they are made once, and only for a kind that listens. What is
//! known of the answer on its way is kept here too, so that the end of an item and the event that ends it are one step for
//! everybody who comes or listens.
//!
//! A stored event is shown once its file is on disk, and everything that was published after it waits for it: what a client
//! has seen is there after a kill, and the order is the order of the log.

mod stage;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use openhands_protocol::{EventId, session::SessionFrame};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::stage::{Act, Stage, Subscriber};

/// Most bytes that wait for one subscriber.
const MAX_WAITING_BYTES: usize = 16 * 1024 * 1024;
/// What a waiting frame costs besides its bytes.
const FRAME_COST: usize = 96;

/// A frame, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// For [`Audience::Events`] the event as compact JSON without nulls, the same bytes that are on disk; for
    /// [`Audience::Session`] the whole frame.
    pub bytes: Bytes,
    /// The position in the log; `None` for what is not stored (snapshots, pieces of answers).
    pub seq: Option<u64>,
    /// The event's `kind`; of frames without an event their `type`.
    pub kind: Arc<str>,
}

impl Published {
    fn cost(&self) -> usize {
        self.bytes.len() + FRAME_COST
    }
}

/// Who listens, which decides the form of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Bare events; pieces of answers are `StreamingDeltaEvent`s.
    Events,
    /// Envelopes with positions; pieces belong to items.
    Session,
}

/// An answer on its way, as a newcomer has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenItem {
    /// The id that its event will have.
    pub id: EventId,
    /// The attempt that was started.
    pub attempt: u32,
    /// The last event before it.
    pub anchor_seq: Option<u64>,
}

impl OpenItem {
    /// The frame that says so.
    #[must_use]
    pub fn started(&self) -> String {
        let Self { id, attempt, anchor_seq } = self;
        SessionFrame::ItemStarted { item_id: id, attempt: *attempt, anchor_seq: *anchor_seq }.text()
    }
}

/// Too many subscribers listen already (the socket closes with 1013).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many subscribers")]
pub struct TooManySubscribers;

/// Why a subscription gives no more frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionEnded {
    /// The subscriber took frames too slowly and lost some (the socket closes with 1013).
    #[error("the subscriber was too slow")]
    Lagged,
    /// The conversation was closed.
    #[error("the conversation is closed")]
    Closed,
}

/// Receives everything published after it was made.
#[derive(Debug)]
pub struct Subscription {
    frames: mpsc::UnboundedReceiver<Published>,
    gauge: Arc<Gauge>,
    listeners: Arc<AtomicUsize>,
    item: Option<OpenItem>,
}

impl Subscription {
    /// The next frame.
    ///
    /// # Errors
    /// [`SubscriptionEnded`] once the waiting frames are taken and no more will come.
    pub async fn recv(&mut self) -> Result<Published, SubscriptionEnded> {
        match self.frames.recv().await {
            Some(frame) => Ok(self.taken(frame)),
            None if self.gauge.lagged.is_cancelled() => Err(SubscriptionEnded::Lagged),
            None => Err(SubscriptionEnded::Closed),
        }
    }

    /// A frame that waits already.
    pub fn waiting(&mut self) -> Option<Published> {
        self.frames.try_recv().ok().map(|frame| self.taken(frame))
    }

    /// Cancelled when the subscriber took frames too slowly; what still waits need not be taken.
    #[must_use]
    pub fn lagged(&self) -> CancellationToken {
        self.gauge.lagged.clone()
    }

    /// The answer that was on its way when the subscription was made; its earlier pieces are not sent again.
    pub fn open_item(&mut self) -> Option<OpenItem> {
        self.item.take()
    }

    fn taken(&self, frame: Published) -> Published {
        self.gauge.bytes.fetch_sub(frame.cost(), Ordering::Relaxed);
        frame
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Gauge {
    bytes: AtomicUsize,
    lagged: CancellationToken,
}

/// The subscribers of one conversation; `None` once it is closed.
#[derive(Clone, Debug)]
pub(crate) struct Hub {
    stage: Arc<Mutex<Option<Stage>>>,
    /// Subscriptions that are held.
    listeners: Arc<AtomicUsize>,
}

impl Hub {
    /// A hub of a log with so many events on disk.
    pub(crate) fn new(written: u64) -> Self {
        let mut stage = Stage::default();
        stage.release(written);
        Self { stage: Arc::new(Mutex::new(Some(stage))), listeners: Arc::default() }
    }

    /// Adds a subscriber unless `limit` of them listen already. After the close it ends at once.
    pub(crate) fn subscribe(&self, audience: Audience, limit: usize) -> Result<Subscription, TooManySubscribers> {
        let (frames, receiver) = mpsc::unbounded_channel();
        let gauge = Arc::new(Gauge::default());
        let mut item = None;
        if let Some(stage) = self.lock().as_mut() {
            stage.subscribers.retain(|subscriber| !subscriber.frames.is_closed());
            if stage.subscribers.len() >= limit {
                return Err(TooManySubscribers);
            }
            stage.subscribers.push(Subscriber { audience, frames, gauge: Arc::clone(&gauge) });
            item = stage.expected.as_ref().and_then(|expected| {
                let stage::Expected { id, anchor_seq, open } = expected;
                Some(OpenItem { id: id.clone(), attempt: (*open)?, anchor_seq: *anchor_seq })
            });
        }
        self.listeners.fetch_add(1, Ordering::Relaxed);
        Ok(Subscription { frames: receiver, gauge, listeners: Arc::clone(&self.listeners), item })
    }

    /// Whether anybody listens; saves making frames that nobody takes.
    pub(crate) fn is_heard(&self) -> bool {
        self.listeners.load(Ordering::Relaxed) > 0
    }

    /// Events below this are on disk now.
    pub(crate) fn release(&self, written: u64) {
        if let Some(stage) = self.lock().as_mut() {
            stage.release(written);
        }
    }

    /// Hands a stored event to everybody, once it is on disk.
    pub(crate) fn publish_stored(&self, id: &EventId, seq: u64, frame: Published) {
        self.submit(Act::Stored { id: id.clone(), seq, frame });
    }

    /// Hands an event to everybody that is not stored.
    pub(crate) fn publish(&self, frame: Published) {
        self.submit(Act::Event(frame));
    }

    /// The same past everything that waits for the disk, for when the disk is what is to be told of.
    pub(crate) fn publish_now(&self, frame: Published) {
        if let Some(stage) = self.lock().as_mut() {
            stage.perform(Act::Event(frame));
        }
    }

    /// An answer is expected, whose event will have this id.
    pub(crate) fn expect(&self, id: EventId, anchor_seq: Option<u64>) {
        self.submit(Act::Expect { id, anchor_seq });
    }

    /// The first piece of an attempt has come. Nothing happens when the answer is no longer expected.
    pub(crate) fn start_attempt(&self, id: &EventId, attempt: u32) {
        self.submit(Act::Start { id: id.clone(), attempt });
    }

    /// Hands a piece of the expected answer to everybody.
    pub(crate) fn piece(&self, id: &EventId, make: impl Fn(Audience) -> Option<Published>) {
        if let Some(stage) = self.lock().as_mut() {
            stage.piece(id, make);
        }
    }

    /// An attempt is void; another may follow.
    pub(crate) fn abort_attempt(&self, id: &EventId, reason: &str) {
        self.submit(Act::Abort { id: id.clone(), reason: reason.to_owned() });
    }

    /// No answer is expected any more. Nothing is told when its event has come or nothing of it was shown.
    pub(crate) fn give_up(&self, reason: &str) {
        self.submit(Act::GiveUp { reason: reason.to_owned() });
    }

    /// The same past everything that waits for the disk.
    pub(crate) fn give_up_now(&self, reason: &str) {
        if let Some(stage) = self.lock().as_mut() {
            stage.perform(Act::GiveUp { reason: reason.to_owned() });
        }
    }

    /// Ends all subscriptions, now and later.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    fn submit(&self, act: Act) {
        if let Some(stage) = self.lock().as_mut() {
            stage.submit(act);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Stage>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
