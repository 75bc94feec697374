//! What is remembered of Conversations between two reconciles. Losing it costs nothing but time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
