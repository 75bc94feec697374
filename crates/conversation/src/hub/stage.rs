//! What the hub's lock guards: who listens, which answer is expected, and what waits for the disk.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use openhands_protocol::{
    EventId,
    session::{self, SessionFrame},
};
use tokio::sync::mpsc;

use super::{Audience, Gauge, MAX_WAITING_BYTES, Published};

/// Most bytes of pieces that wait for the disk; further ones are left out, which their order shows.
pub(super) const MAX_HELD_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) audience: Audience,
    /// Bounded by the gauge.
    pub(super) frames: mpsc::UnboundedSender<Published>,
    pub(super) gauge: Arc<Gauge>,
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
pub(super) struct Expected {
    pub(super) id: EventId,
    pub(super) anchor_seq: Option<u64>,
    /// The attempt whose start was told and whose end was not.
    pub(super) open: Option<u32>,
}

/// Something that is shown, or changes what newcomers are told.
#[derive(Debug)]
pub(super) enum Act {
    /// A stored event; it needs its file on disk. The answer that was expected under its id has come.
    Stored { id: EventId, seq: u64, frame: Published },
    /// An event that is not stored.
    Event(Published),
    /// An answer is expected.
    Expect { id: EventId, anchor_seq: Option<u64> },
    /// The first piece of an attempt has come.
    Start { id: EventId, attempt: u32 },
    /// A piece in the forms of both audiences.
    Piece { id: EventId, bare: Option<Published>, enveloped: Option<Published> },
    /// An attempt is void; another may follow.
    Abort { id: EventId, reason: String },
    /// No answer is expected any more.
    GiveUp { reason: String },
}

#[derive(Debug, Default)]
pub(super) struct Stage {
    pub(super) subscribers: Vec<Subscriber>,
    pub(super) expected: Option<Expected>,
    /// Events below this are on disk.
    pub(super) written: u64,
    /// What waits for the disk, in order.
    held: VecDeque<Act>,
    /// Bytes of the pieces among it.
    held_bytes: usize,
}

impl Stage {
    /// Performs an act, or holds it behind what waits for the disk.
    pub(super) fn submit(&mut self, act: Act) {
        if self.held.is_empty() && self.may(&act) {
            self.perform(act);
        } else {
            self.held.push_back(act);
        }
    }

    fn may(&self, act: &Act) -> bool {
        !matches!(act, Act::Stored { seq, .. } if *seq >= self.written)
    }

    pub(super) fn release(&mut self, written: u64) {
        self.written = self.written.max(written);
        while self.held.front().is_some_and(|act| self.may(act)) {
            if let Some(act) = self.held.pop_front() {
                self.perform(act);
            }
        }
        if self.held.is_empty() {
            self.held_bytes = 0;
        }
    }

    pub(super) fn perform(&mut self, act: Act) {
        match act {
            Act::Stored { id, frame, seq: _ } => {
                self.expected.take_if(|expected| expected.id == id);
                self.offer(|audience| Some(in_form(audience, &frame)));
            }
            Act::Event(frame) => self.offer(|audience| Some(in_form(audience, &frame))),
            Act::Expect { id, anchor_seq } => {
                self.abort("no_durable_event");
                self.expected = Some(Expected { id, anchor_seq, open: None });
            }
            Act::Start { id, attempt } => {
                if let Some(expected) = self.expected.as_mut().filter(|expected| expected.id == id) {
                    expected.open = Some(attempt);
                    let anchor_seq = expected.anchor_seq;
                    self.tell("item_started", &SessionFrame::ItemStarted { item_id: &id, attempt, anchor_seq });
                }
            }
            Act::Piece { id, bare, enveloped } => {
                if self.expects(&id) {
                    self.offer(|audience| match audience {
                        Audience::Events => bare.clone(),
                        Audience::Session => enveloped.clone(),
                    });
                }
            }
            Act::Abort { id, reason } => {
                if self.expects(&id) {
                    self.abort(&reason);
                }
            }
            Act::GiveUp { reason } => {
                self.abort(&reason);
                self.expected = None;
            }
        }
    }

    /// Offers a piece of an answer, or holds it.
    pub(super) fn piece(&mut self, id: &EventId, make: impl Fn(Audience) -> Option<Published>) {
        if self.held.is_empty() {
            if self.expects(id) {
                self.offer(make);
            }
            return;
        }
        let listens = |audience| self.subscribers.iter().any(|subscriber| subscriber.audience == audience);
        let form = |audience| listens(audience).then(|| make(audience)).flatten();
        let (bare, enveloped) = (form(Audience::Events), form(Audience::Session));
        let cost: usize = bare.iter().chain(&enveloped).map(Published::cost).sum();
        // A piece that nobody wants costs nothing, and would be held without a bound.
        if cost > 0 && self.held_bytes.saturating_add(cost) <= MAX_HELD_BYTES {
            self.held_bytes += cost;
            self.held.push_back(Act::Piece { id: id.clone(), bare, enveloped });
        }
    }

    fn expects(&self, id: &EventId) -> bool {
        self.expected.as_ref().is_some_and(|expected| expected.id == *id)
    }

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
