//! From what watches see to what has to be looked at, and the workers that look.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::task::JoinSet;

use crate::{
    context::Context,
    conversation,
    metrics::Kind,
    pool,
    queue::Queue,
    view::{Key, PodView, Watched},
};

/// Decides what has to be looked at again.
pub fn told(cx: &Context, watched: Watched) {
    match watched {
        Watched::Conversation(key) => {
            match cx.world.conversation(&key) {
                Some(view) if view.deleting => wake_pool_of(cx, &key),
                Some(view) => cx.memory.seen(&view.uid),
                None => wake_pool_of(cx, &key),
            }
            cx.conversations.add(key);
        }
        Watched::Pool(key) => {
            for conversation in cx.world.unbound_of_pool(&key) {
                cx.conversations.add(conversation);
            }
            cx.pool_queue.add(key);
        }
        Watched::Pod(before, after) => pod(cx, before.as_deref(), after.as_deref()),
        Watched::Secret(key) => {
            for conversation in cx.world.waiters_for_secret(&key) {
                cx.conversations.add(conversation);
            }
        }
    }
}

/// A departing Conversation makes room below its pool's cap; the pod's own events tell, this only helps where they are late.
fn wake_pool_of(cx: &Context, key: &Key) {
    if let Some(pool) = cx.world.conversation(key).and_then(|view| view.pool.as_ref().map(|pool| key.sibling(pool))) {
        cx.pool_queue.add(pool);
    }
}

fn pod(cx: &Context, before: Option<&PodView>, after: Option<&PodView>) {
    for side in [before, after].into_iter().flatten() {
        let owner = side.conversation_uid.as_ref().and_then(|uid| cx.world.conversation_of_uid(uid));
        if let Some(view) = owner
            && matters(before, after)
        {
            cx.conversations.add(view.key.clone());
        }
    }
    let Some(pool) = after.or(before).and_then(|pod| pod.pool.as_ref().map(|pool| pod.key.sibling(pool))) else {
        return;
    };
    cx.pool_queue.add(pool.clone());
    let became_free = after.is_some_and(PodView::is_free) && !before.is_some_and(PodView::is_free);
    // Room below the cap, or a free member: one of those who wait may try.
    if (became_free || after.is_none())
        && let Some(waiter) = cx.world.next_waiter(&pool)
    {
        cx.conversations.add(waiter);
    }
}

/// Whether a claimed pod changed in what its Conversation looks at.
fn matters(before: Option<&PodView>, after: Option<&PodView>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return true };
    before.uid != after.uid
        || before.ip != after.ip
        || before.restarts != after.restarts
        || before.deleting != after.deleting
        || before.phase != after.phase
        || before.running != after.running
        || before.trouble != after.trouble
        || before.conversation_uid != after.conversation_uid
}

/// Starts the workers; they end when the set is dropped, which must happen before the Lease is given back.
#[must_use]
pub fn work(cx: &Arc<Context>) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    for _ in 0..cx.options.workers {
        let cx = Arc::clone(cx);
        let queue = cx.conversations.clone();
        workers.spawn(worker(queue, "conversation", cx, |cx, key| {
            async move { conversation::reconcile(&cx, &key).await }.boxed()
        }));
    }
    for _ in 0..4 {
        let cx = Arc::clone(cx);
        let queue = cx.pool_queue.clone();
        workers.spawn(worker(queue, "pool", cx, |cx, key| async move { pool::reconcile(&cx, &key).await }.boxed()));
    }
    workers
}

async fn worker(
    queue: Queue<Key>,
    kind: &'static str,
    cx: Arc<Context>,
    look: fn(Arc<Context>, Key) -> futures::future::BoxFuture<'static, Option<Duration>>,
) {
    loop {
        let key = queue.next().await;
        // A bug in one reconcile must not take the worker along.
        let again = match std::panic::AssertUnwindSafe(look(Arc::clone(&cx), key.clone())).catch_unwind().await {
            Ok(again) => again,
            Err(_) => {
                tracing::error!(%key, kind, "a reconcile panicked");
                cx.metrics.failures.get_or_create(&Kind { kind }).inc();
                Some(Duration::from_secs(30))
            }
        };
        cx.metrics.reconciles.get_or_create(&Kind { kind }).inc();
        queue.done(key, again);
    }
}

/// Small duties of a leader, for ever: gauges, and forgetting what is gone.
pub async fn housekeeping(cx: Arc<Context>) {
    loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (conversations, pods, pools) = cx.world.sizes();
        for (kind, size) in [("conversation", conversations), ("pod", pods), ("pool", pools)] {
            cx.metrics.objects.get_or_create(&Kind { kind }).set(i64::try_from(size).unwrap_or(i64::MAX));
        }
        for uid in cx.memory.retain(|uid| cx.world.conversation_of_uid(uid).is_some()) {
            cx.reports.forget(&uid);
        }
    }
}
