//! Who hears of new bash events. A listener that does not keep up is dropped, never waited for.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Most listeners at once.
pub const MAX_SUBSCRIBERS: usize = 50;
/// Most events that wait for one listener.
const MAX_WAITING: usize = 1024;
/// Most bytes that wait for one listener.
const MAX_WAITING_BYTES: usize = 16 * 1024 * 1024;

/// All places are taken.
#[derive(Debug, thiserror::Error)]
#[error("too many subscribers of bash events: at most {MAX_SUBSCRIBERS}")]
pub struct TooManySubscribers;

/// One listener's queue. It ends when the listener fell behind or the service closed.
#[derive(Debug)]
pub struct Subscription {
    events: mpsc::Receiver<Bytes>,
    waiting: Arc<AtomicUsize>,
}

impl Subscription {
    /// The next event, as it goes on the wire; `None` when the listener fell behind or the service closed.
    pub async fn recv(&mut self) -> Option<Bytes> {
        let event = self.events.recv().await?;
        self.waiting.fetch_sub(event.len(), Ordering::Relaxed);
        Some(event)
    }
}

#[derive(Debug)]
struct Listener {
    events: mpsc::Sender<Bytes>,
    waiting: Arc<AtomicUsize>,
}

/// The listeners of a service.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    listeners: Mutex<Vec<Listener>>,
}

impl Subscribers {
    pub(super) fn subscribe(&self) -> Result<Subscription, TooManySubscribers> {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| !listener.events.is_closed());
        if listeners.len() >= MAX_SUBSCRIBERS {
            return Err(TooManySubscribers);
        }
        let (sender, events) = mpsc::channel(MAX_WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        listeners.push(Listener { events: sender, waiting: Arc::clone(&waiting) });
        Ok(Subscription { events, waiting })
    }

    pub(super) fn publish(&self, event: &Bytes) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| {
            let before = listener.waiting.fetch_add(event.len(), Ordering::Relaxed);
            // The first event of an empty queue always fits, however long it is.
            (before == 0 || before + event.len() <= MAX_WAITING_BYTES)
                && listener.events.try_send(event.clone()).is_ok()
        });
    }

    pub(super) fn close(&self) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_arrive_in_order() {
        let subscribers = Subscribers::default();
        let mut subscription = subscribers.subscribe().unwrap();
        for text in ["a", "b"] {
            subscribers.publish(&Bytes::from_static(text.as_bytes()));
        }
        subscribers.close();
        assert_eq!(subscription.recv().await.unwrap(), "a");
        assert_eq!(subscription.recv().await.unwrap(), "b");
        assert_eq!(subscription.recv().await, None);
    }

    #[tokio::test]
    async fn a_slow_listener_is_dropped_and_its_place_is_free() {
        let subscribers = Subscribers::default();
        let mut slow = subscribers.subscribe().unwrap();
        let others: Vec<_> = (1..MAX_SUBSCRIBERS).map(|_| subscribers.subscribe().unwrap()).collect();
        assert!(subscribers.subscribe().is_err());
        drop(others);
        for _ in 0..=MAX_WAITING {
            subscribers.publish(&Bytes::from_static(b"x"));
        }
        for _ in 0..MAX_WAITING {
            slow.recv().await.unwrap();
        }
        assert_eq!(slow.recv().await, None);
        assert!((0..MAX_SUBSCRIBERS).all(|_| subscribers.subscribe().is_ok()));
    }

    #[tokio::test]
    async fn bytes_are_bounded_too() {
        let subscribers = Subscribers::default();
        let mut slow = subscribers.subscribe().unwrap();
        let big = Bytes::from(vec![b'x'; MAX_WAITING_BYTES]);
        subscribers.publish(&big);
        subscribers.publish(&Bytes::from_static(b"y"));
        assert_eq!(slow.recv().await.unwrap().len(), MAX_WAITING_BYTES);
        assert_eq!(slow.recv().await, None);
    }
}
