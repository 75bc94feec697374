//! Hands published frames to subscribers: in order, bounded, and never waiting for anyone.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Most frames that wait for one subscriber.
const MAX_WAITING_FRAMES: usize = 4096;
/// Most bytes that wait for one subscriber.
const MAX_WAITING_BYTES: usize = 16 * 1024 * 1024;

/// A frame: an event as compact JSON without nulls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The event's bytes, the same that are on disk.
    pub bytes: Bytes,
    /// The position in the log; `None` for events that are not stored (snapshots, deltas).
    pub seq: Option<u64>,
    /// The event's `kind`.
    pub kind: Arc<str>,
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
    frames: mpsc::Receiver<Published>,
    gauge: Arc<Gauge>,
}

impl Subscription {
    /// The next frame.
    ///
    /// # Errors
    /// [`SubscriptionEnded`] once the waiting frames are taken and no more will come.
    pub async fn recv(&mut self) -> Result<Published, SubscriptionEnded> {
        match self.frames.recv().await {
            Some(frame) => {
                self.gauge.bytes.fetch_sub(frame.bytes.len(), Ordering::Relaxed);
                Ok(frame)
            }
            None if self.gauge.lagged.load(Ordering::Relaxed) => Err(SubscriptionEnded::Lagged),
            None => Err(SubscriptionEnded::Closed),
        }
    }
}

#[derive(Debug, Default)]
struct Gauge {
    bytes: AtomicUsize,
    lagged: AtomicBool,
}

#[derive(Debug)]
struct Subscriber {
    frames: mpsc::Sender<Published>,
    gauge: Arc<Gauge>,
}

impl Subscriber {
    /// Whether the subscriber stays.
    fn offer(&self, frame: &Published) -> bool {
        let waiting = self.gauge.bytes.fetch_add(frame.bytes.len(), Ordering::Relaxed);
        // One frame larger than the limit still passes when nothing else waits.
        let fits = waiting == 0 || waiting.saturating_add(frame.bytes.len()) <= MAX_WAITING_BYTES;
        match fits.then(|| self.frames.try_send(frame.clone())) {
            Some(Ok(())) => true,
            Some(Err(mpsc::error::TrySendError::Closed(_))) => false,
            Some(Err(mpsc::error::TrySendError::Full(_))) | None => {
                self.gauge.lagged.store(true, Ordering::Relaxed);
                false
            }
        }
    }
}

/// The subscribers of one conversation; `None` once it is closed.
#[derive(Clone, Debug)]
pub(crate) struct Hub {
    subscribers: Arc<Mutex<Option<Vec<Subscriber>>>>,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self { subscribers: Arc::new(Mutex::new(Some(Vec::new()))) }
    }

    /// Adds a subscriber unless `limit` of them listen already. After the close it ends at once.
    pub(crate) fn subscribe(&self, limit: usize) -> Result<Subscription, TooManySubscribers> {
        let (frames, receiver) = mpsc::channel(MAX_WAITING_FRAMES);
        let gauge = Arc::new(Gauge::default());
        if let Some(all) = self.lock().as_mut() {
            all.retain(|subscriber| !subscriber.frames.is_closed());
            if all.len() >= limit {
                return Err(TooManySubscribers);
            }
            all.push(Subscriber { frames, gauge: Arc::clone(&gauge) });
        }
        Ok(Subscription { frames: receiver, gauge })
    }

    /// Whether anybody listens; saves making frames that nobody takes.
    pub(crate) fn is_heard(&self) -> bool {
        self.lock().as_ref().is_some_and(|all| !all.is_empty())
    }

    /// Hands a frame to everybody.
    pub(crate) fn publish(&self, frame: &Published) {
        if let Some(all) = self.lock().as_mut() {
            all.retain(|subscriber| subscriber.offer(frame));
        }
    }

    /// Ends all subscriptions, now and later.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<Subscriber>>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seq: u64, size: usize) -> Published {
        Published { bytes: Bytes::from(vec![b'x'; size]), seq: Some(seq), kind: "K".into() }
    }

    #[tokio::test]
    async fn frames_arrive_in_order_and_the_close_is_seen() {
        let hub = Hub::new();
        assert!(!hub.is_heard());
        let mut subscription = hub.subscribe(1).unwrap();
        assert_eq!(hub.subscribe(1).unwrap_err(), TooManySubscribers);
        hub.publish(&frame(0, 1));
        hub.publish(&frame(1, 1));
        hub.close();
        assert_eq!(subscription.recv().await, Ok(frame(0, 1)));
        assert_eq!(subscription.recv().await, Ok(frame(1, 1)));
        assert_eq!(subscription.recv().await, Err(SubscriptionEnded::Closed));
        assert_eq!(hub.subscribe(1).unwrap().recv().await, Err(SubscriptionEnded::Closed));
    }

    #[tokio::test]
    async fn a_slow_subscriber_is_ended_and_frees_its_place() {
        let hub = Hub::new();
        let mut slow = hub.subscribe(1).unwrap();
        hub.publish(&frame(0, MAX_WAITING_BYTES + 1));
        hub.publish(&frame(1, 1));
        assert_eq!(slow.recv().await.map(|frame| frame.seq), Ok(Some(0)));
        assert_eq!(slow.recv().await, Err(SubscriptionEnded::Lagged));
        assert!(hub.subscribe(1).is_ok());
    }

    #[tokio::test]
    async fn too_many_small_frames_end_a_subscriber_too() {
        let hub = Hub::new();
        let mut slow = hub.subscribe(1).unwrap();
        for seq in 0..=MAX_WAITING_FRAMES as u64 {
            hub.publish(&frame(seq, 1));
        }
        for seq in 0..MAX_WAITING_FRAMES as u64 {
            assert_eq!(slow.recv().await.map(|frame| frame.seq), Ok(Some(seq)));
        }
        assert_eq!(slow.recv().await, Err(SubscriptionEnded::Lagged));
    }

    #[tokio::test]
    async fn a_dropped_subscription_is_forgotten() {
        let hub = Hub::new();
        drop(hub.subscribe(1).unwrap());
        hub.publish(&frame(0, 1));
        assert!(!hub.is_heard());
    }
}
