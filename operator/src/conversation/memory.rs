//! What is remembered of Conversations between two reconciles. Losing it costs nothing but time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::session::SessionKeys;
use crate::machine::Attempt;

/// What is remembered of a Conversation between two reconciles; losing it costs nothing but time.
#[derive(Default)]
pub struct Memory {
    inner: Mutex<HashMap<Arc<str>, Remembered>>,
}

/// See [`Memory`].
#[derive(Clone, Default)]
pub(crate) struct Remembered {
    pub(crate) attempt: Option<Attempt>,
    /// The session keys, until the Conversation is bound.
    pub(crate) keys: Option<SessionKeys>,
    /// When it was seen first.
    pub(crate) seen: Option<Instant>,
    /// Unclear answers in a row, and since when.
    pub(crate) unclear: u32,
    pub(crate) unclear_since: Option<Instant>,
    /// Pods in a row that were given up before they were bound, and until when no other is taken.
    pub(crate) rejected: u32,
    pub(crate) rested_until: Option<Instant>,
    /// The last poll, and polls in a row that failed.
    pub(crate) polled: Option<Instant>,
    pub(crate) poll_failures: u32,
}

impl Memory {
    fn inner(&self) -> MutexGuard<'_, HashMap<Arc<str>, Remembered>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A Conversation was seen by the watch.
    pub fn seen(&self, uid: &Arc<str>) {
        self.inner().entry(Arc::clone(uid)).or_default().seen.get_or_insert_with(Instant::now);
    }

    pub(crate) fn get(&self, uid: &Arc<str>) -> Remembered {
        self.inner().get(uid).cloned().unwrap_or_default()
    }

    pub(crate) fn put(&self, uid: &Arc<str>, remembered: Remembered) {
        self.inner().insert(Arc::clone(uid), remembered);
    }

    /// Forgets Conversations that are not known any more.
    pub fn retain(&self, known: impl Fn(&str) -> bool) -> Vec<Arc<str>> {
        let mut gone = Vec::new();
        self.inner().retain(|uid, _| {
            let keep = known(uid);
            if !keep {
                gone.push(Arc::clone(uid));
            }
            keep
        });
        gone
    }
}

impl Remembered {
    /// A pod was given up: the first time another is taken at once, then after 2 s, 4 s, ... 5 minutes.
    pub(crate) fn reject(&mut self) {
        self.rejected = self.rejected.saturating_add(1);
        if self.rejected > 1 {
            let pause =
                Duration::from_secs(1_u64 << self.rejected.min(9).saturating_sub(1)).min(Duration::from_secs(300));
            self.rested_until = Some(Instant::now() + pause);
        }
    }
}
