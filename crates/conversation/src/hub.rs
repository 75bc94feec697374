//! Hands published frames to subscribers: in order, bounded, and never waiting for anyone.
//!
//! Each kind of socket has its own bytes for the same thing; they are made once, and only for a kind that listens. What is
//! known of the answer on its way is kept here too, so that the end of an item and the event that ends it are one step for
//! everybody who comes or listens.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use openhands_protocol::{
    EventId,
    session::{self, SessionFrame},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

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

#[derive(Debug)]
struct Subscriber {
    audience: Audience,
    /// Bounded by the gauge.
    frames: mpsc::UnboundedSender<Published>,
    gauge: Arc<Gauge>,
}

impl Subscriber {
    /// Whether the subscriber stays.
    fn offer(&self, frame: &Published) -> bool {
        let waiting = self.gauge.bytes.fetch_add(frame.cost(), Ordering::Relaxed);
        // One frame larger than the limit still passes when nothing else waits.
        if waiting == 0 || waiting.saturating_add(frame.cost()) <= MAX_WAITING_BYTES {
            return self.frames.send(frame.clone()).is_ok();
        }
        self.gauge.lagged.cancel();
        false
    }
}

/// The answer that is expected, and whether pieces of it were shown.
#[derive(Debug)]
struct Expected {
    id: EventId,
    anchor_seq: Option<u64>,
    /// The attempt whose start was told and whose end was not.
    open: Option<u32>,
}

#[derive(Debug, Default)]
struct Audiences {
    subscribers: Vec<Subscriber>,
    expected: Option<Expected>,
}

impl Audiences {
    /// Offers a frame to everybody; the bytes of an audience are made when the first of its members is met.
    fn offer(&mut self, make: impl Fn(Audience) -> Option<Published>) {
        let (mut bare, mut enveloped) = (None, None);
        self.subscribers.retain(|subscriber| {
            let made = match subscriber.audience {
                Audience::Events => &mut bare,
                Audience::Session => &mut enveloped,
            };
            match made.get_or_insert_with(|| make(subscriber.audience)) {
                Some(frame) => subscriber.offer(frame),
                None => !subscriber.frames.is_closed(),
            }
        });
    }

    fn tell(&mut self, kind: &str, frame: &SessionFrame<'_>) {
        self.offer(|audience| match audience {
            Audience::Events => None,
            Audience::Session => Some(Published { bytes: frame.text().into(), seq: None, kind: kind.into() }),
        });
    }

    /// Tells that the open attempt has ended without an event.
    fn abort(&mut self, reason: &str) {
        let Some(Expected { id, open, .. }) = &mut self.expected else { return };
        let Some(attempt) = open.take() else { return };
        let id = id.clone();
        self.tell("item_aborted", &SessionFrame::ItemAborted { item_id: &id, attempt, reason });
    }
}

/// The subscribers of one conversation; `None` once it is closed.
#[derive(Clone, Debug)]
pub(crate) struct Hub {
    audiences: Arc<Mutex<Option<Audiences>>>,
    /// Subscriptions that are held.
    listeners: Arc<AtomicUsize>,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self { audiences: Arc::new(Mutex::new(Some(Audiences::default()))), listeners: Arc::default() }
    }

    /// Adds a subscriber unless `limit` of them listen already. After the close it ends at once.
    pub(crate) fn subscribe(&self, audience: Audience, limit: usize) -> Result<Subscription, TooManySubscribers> {
        let (frames, receiver) = mpsc::unbounded_channel();
        let gauge = Arc::new(Gauge::default());
        let mut item = None;
        if let Some(all) = self.lock().as_mut() {
            all.subscribers.retain(|subscriber| !subscriber.frames.is_closed());
            if all.subscribers.len() >= limit {
                return Err(TooManySubscribers);
            }
            all.subscribers.push(Subscriber { audience, frames, gauge: Arc::clone(&gauge) });
            item = all.expected.as_ref().and_then(|expected| {
                let Expected { id, anchor_seq, open } = expected;
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

    /// Hands a stored event to everybody. The answer that was expected under its id has come.
    pub(crate) fn publish_stored(&self, id: &EventId, frame: &Published) {
        if let Some(all) = self.lock().as_mut() {
            all.expected.take_if(|expected| expected.id == *id);
            all.offer(|audience| Some(in_form(audience, frame)));
        }
    }

    /// Hands an event to everybody that is not stored.
    pub(crate) fn publish(&self, frame: &Published) {
        if let Some(all) = self.lock().as_mut() {
            all.offer(|audience| Some(in_form(audience, frame)));
        }
    }

    /// An answer is expected, whose event will have this id.
    pub(crate) fn expect(&self, id: EventId, anchor_seq: Option<u64>) {
        if let Some(all) = self.lock().as_mut() {
            all.abort("no_durable_event");
            all.expected = Some(Expected { id, anchor_seq, open: None });
        }
    }

    /// The id of the answer that is expected.
    pub(crate) fn expected(&self) -> Option<EventId> {
        self.lock().as_ref()?.expected.as_ref().map(|expected| expected.id.clone())
    }

    /// The first piece of an attempt has come. Nothing happens when the answer is no longer expected.
    pub(crate) fn start_attempt(&self, item_id: &EventId, attempt: u32) {
        if let Some(all) = self.lock().as_mut()
            && let Some(expected) = all.expected.as_mut().filter(|expected| expected.id == *item_id)
        {
            expected.open = Some(attempt);
            let anchor_seq = expected.anchor_seq;
            all.tell("item_started", &SessionFrame::ItemStarted { item_id, attempt, anchor_seq });
        }
    }

    /// Hands a piece of the expected answer to everybody.
    pub(crate) fn piece(&self, item_id: &EventId, make: impl Fn(Audience) -> Option<Published>) {
        if let Some(all) = self.lock().as_mut()
            && all.expected.as_ref().is_some_and(|expected| expected.id == *item_id)
        {
            all.offer(make);
        }
    }

    /// An attempt is void; another may follow.
    pub(crate) fn abort_attempt(&self, item_id: &EventId, reason: &str) {
        if let Some(all) = self.lock().as_mut()
            && all.expected.as_ref().is_some_and(|expected| expected.id == *item_id)
        {
            all.abort(reason);
        }
    }

    /// No answer is expected any more. Nothing is told when its event has come or nothing of it was shown.
    pub(crate) fn give_up(&self, reason: &str) {
        if let Some(all) = self.lock().as_mut() {
            all.abort(reason);
            all.expected = None;
        }
    }

    /// Ends all subscriptions, now and later.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Audiences>> {
        self.audiences.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event in the form of an audience.
fn in_form(audience: Audience, frame: &Published) -> Published {
    match (audience, frame.seq) {
        (Audience::Events, _) => frame.clone(),
        (Audience::Session, Some(seq)) => {
            Published { bytes: session::durable(seq, &frame.bytes).into(), ..frame.clone() }
        }
        (Audience::Session, None) => Published { bytes: session::transient(&frame.bytes).into(), ..frame.clone() },
    }
}

#[cfg(test)]
mod tests;
