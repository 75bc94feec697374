//! What every reconcile shares.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    api::Kube,
    cli::Controller,
    conversation::{Memory, Reports},
    events::Events,
    keyring::Keyring,
    metrics::Metrics,
    pool::Pools,
    queue::Queue,
    view::{Key, World},
};

/// What every reconcile shares.
pub struct Context {
    /// Calls on the way of claims.
    pub kube: Kube,
    /// Calls for refill, which must not take connections from claims.
    pub refill: Kube,
    /// What is known of the cluster.
    pub world: Arc<World>,
    /// The operator's own keys.
    pub keyring: Keyring,
    /// What is counted.
    pub metrics: Metrics,
    /// Conversations to look at.
    pub conversations: Queue<Key>,
    /// WarmPools to look at.
    pub pool_queue: Queue<Key>,
    /// What is remembered of attempts.
    pub memory: Memory,
    /// What is remembered of pools.
    pub pools: Pools,
    /// The latest reports.
    pub reports: Reports,
    /// Kubernetes Events.
    pub events: Events,
    /// Conversations on their way to a sandbox at this moment.
    pub claiming: Claiming,
    /// The flags.
    pub options: Controller,
}

/// How many claims are on their way; refill yields to them.
#[derive(Default)]
pub struct Claiming(AtomicUsize);

/// One claim on its way; it is over when this is dropped.
pub struct ClaimGuard<'a>(&'a Claiming);

impl Claiming {
    /// A claim begins.
    pub fn begin(&self) -> ClaimGuard<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        ClaimGuard(self)
    }

    /// Claims on their way.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for ClaimGuard<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A good reconcile is looked at again after this long at the latest: watches can miss things.
pub const SLOW: Duration = Duration::from_secs(600);
