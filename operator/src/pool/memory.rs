//! What is remembered of pools between two reconciles: expectations and back-off.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::view::{Key, PodView};

use super::plan::slot;

/// A creation whose outcome is not known, or a deletion, is expected to be seen within this time.
const EXPECTED: Duration = Duration::from_secs(30);
/// Longest pause after failures.
const LONGEST: Duration = Duration::from_secs(300);

/// What is remembered of all pools.
#[derive(Default)]
pub struct Pools {
    inner: Mutex<HashMap<Key, Remembered>>,
}

/// What is remembered of one pool.
#[derive(Clone, Default)]
pub(crate) struct Remembered {
    /// Slots whose creation may or may not have happened.
    pub(crate) slots: BTreeMap<u32, Instant>,
    /// Slots whose name a pod of somebody else has.
    pub(crate) foreign: BTreeMap<u32, Instant>,
    /// The `network` section that the policy was made after.
    pub(crate) isolated: Option<String>,
    /// Members whose deletion was asked for.
    pub(crate) leaving: BTreeMap<Arc<str>, Instant>,
    /// Failures in a row.
    failures: u32,
    not_before: Option<Instant>,
    /// The last failure, for the status.
    pub(crate) last_failure: Option<String>,
    /// When the status was written last.
    pub(crate) written: Option<Instant>,
}

impl Pools {
    fn inner(&self) -> MutexGuard<'_, HashMap<Key, Remembered>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &Key) -> Remembered {
        self.inner().get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn put(&self, key: &Key, remembered: Remembered) {
        self.inner().insert(key.clone(), remembered);
    }

    pub(crate) fn forget(&self, key: &Key) {
        self.inner().remove(key);
    }
}

impl Remembered {
    /// Drops expectations that were met or are too old.
    pub(crate) fn settle(&mut self, pool: &Key, pods: &[Arc<PodView>]) {
        let seen: BTreeSet<u32> = pods.iter().filter_map(|pod| slot(&pool.name, &pod.key.name)).collect();
        self.slots.retain(|slot, at| !seen.contains(slot) && at.elapsed() < EXPECTED);
        self.leaving
            .retain(|uid, at| at.elapsed() < EXPECTED && pods.iter().any(|pod| pod.uid == *uid && !pod.deleting));
    }

    /// A member was made.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
        self.not_before = None;
        self.last_failure = None;
    }

    /// A member could not be made, or was over soon after: 1 s, 2 s, ... 5 minutes.
    pub(crate) fn failed(&mut self, why: String) {
        self.failures = self.failures.saturating_add(1);
        let pause = Duration::from_secs(1_u64 << self.failures.min(9).saturating_sub(1)).min(LONGEST);
        self.not_before = Some(Instant::now() + pause);
        self.last_failure = Some(why);
    }

    /// How long nothing may be made.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.not_before.map(|at| at.saturating_duration_since(Instant::now())).filter(|pause| !pause.is_zero())
    }
}
