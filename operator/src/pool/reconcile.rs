//! One look at a pool.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use openhands_crds::{WarmPool, WarmPoolStatus};
use serde_json::json;
use tokio::time::Instant;

use super::{fill, memory::Remembered, plan::plan, status::status};
use crate::{
    api::CallError,
    context::{Context, SLOW},
    conversation::difference,
    events::About,
    names, network,
    pod::pool_owner,
    view::{Key, PoolView},
};

/// The status is written so often at most.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// One look at a pool; answers when to look again.
pub async fn reconcile(cx: &Context, key: &Key) -> Option<Duration> {
    let Some(pool) = cx.world.pool(key) else {
        cx.pools.forget(key);
        return None;
    };
    if pool.deleting {
        return None;
    }
    let mut remembered = cx.pools.get(key);
    let again = look(cx, &pool, &mut remembered).await;
    cx.pools.put(key, remembered);
    Some(again)
}

async fn look(cx: &Context, pool: &Arc<PoolView>, remembered: &mut Remembered) -> Duration {
    let pods = cx.world.pods_of_pool(&pool.key);
    remembered.settle(&pool.key, &pods);
    let pending: BTreeSet<u32> = remembered.slots.keys().copied().collect();
    let leaving: BTreeSet<Arc<str>> = remembered.leaving.keys().cloned().collect();
    let foreign: BTreeSet<u32> = remembered.foreign.keys().copied().collect();
    let plan = plan(pool, &pods, &pending, &foreign, &leaving);
    let mut again = SLOW;
    if !remembered.slots.is_empty() || !remembered.leaving.is_empty() || !plan.delete.is_empty() {
        again = Duration::from_secs(5);
    }
    fill::delete(cx, pool, &plan.delete, remembered).await;
    let isolated = isolate(cx, pool, remembered).await;
    if !plan.create.is_empty() || !isolated {
        match remembered.pause() {
            Some(pause) => again = again.min(pause),
            // No member is made that its policy does not hold.
            None if !isolated => again = Duration::from_secs(5),
            None => {
                let before = remembered.last_failure.clone();
                fill::create(cx, pool, &plan.create, remembered).await;
                if let Some(failure) =
                    remembered.last_failure.as_ref().filter(|failure| Some(*failure) != before.as_ref())
                {
                    tracing::warn!(pool = %pool.key, failure, "a member could not be made");
                    let about = About { kind: "WarmPool", key: &pool.key, uid: &pool.uid };
                    cx.events.warning(&about, "CreationFailed", failure);
                }
                // What could not be made in this round is looked at again.
                again = again.min(remembered.pause().unwrap_or(Duration::from_secs(5)));
            }
        }
    }
    again.min(write(cx, pool, plan.above_cap, remembered).await)
}

/// Makes the pool's NetworkPolicy what the template says; whether members may be made.
async fn isolate(cx: &Context, pool: &PoolView, remembered: &mut Remembered) -> bool {
    let network = network::wanted(&pool.spec.template);
    let wanted = serde_json::to_string(&network).unwrap_or_default();
    if remembered.isolated.as_ref() == Some(&wanted) {
        return true;
    }
    if remembered.pause().is_some() {
        return false;
    }
    let outcome = match &network {
        None => match network::remove(&cx.refill, &pool.key.namespace, &pool.key.name, &pool.uid).await {
            // Without the right to look there is none of ours to remove.
            Err(CallError::Refused(_)) => Ok(()),
            other => other,
        },
        Some(network) => {
            let scope = network::Scope {
                namespace: &pool.key.namespace,
                name: &pool.key.name,
                owner: pool_owner(&pool.key.name, &pool.uid),
                selects: (names::POOL, &pool.key.name),
            };
            network::ensure(&cx.refill, &scope, network, &cx.options).await
        }
    };
    match outcome {
        Ok(()) => {
            remembered.isolated = Some(wanted);
            true
        }
        Err(error) => {
            remembered.failed(format!("the NetworkPolicy cannot be written: {error}"));
            false
        }
    }
}

/// Writes the status when it changed and the last write is a while ago; answers when to try again.
async fn write(cx: &Context, pool: &PoolView, above_cap: usize, remembered: &mut Remembered) -> Duration {
    let pods = cx.world.pods_of_pool(&pool.key);
    let next = status(pool, &pods, above_cap, remembered.last_failure.as_deref(), Timestamp::now());
    if next == *pool.status {
        return SLOW;
    }
    let wait = remembered.written.map_or(Duration::ZERO, |at| STATUS_EVERY.saturating_sub(at.elapsed()));
    // The first full pool is what people wait for.
    let full = next.ready >= next.desired && pool.status.ready < next.ready;
    // Claims go first, but not for ever.
    let patient = remembered.written.is_none_or(|at| at.elapsed() < STATUS_EVERY * 5);
    if cx.claiming.count() > 0 && patient {
        return STATUS_EVERY;
    }
    if !wait.is_zero() && !full {
        return wait;
    }
    remembered.written = Some(Instant::now());
    match patch(cx, pool, &next).await {
        Ok(()) => SLOW,
        Err(CallError::NotFound) => SLOW,
        Err(error) => {
            tracing::debug!(pool = %pool.key, %error, "the status was not written");
            STATUS_EVERY
        }
    }
}

async fn patch(cx: &Context, pool: &PoolView, next: &WarmPoolStatus) -> Result<(), CallError> {
    let value =
        |status: &WarmPoolStatus| serde_json::to_value(status).map_err(|error| CallError::Refused(error.to_string()));
    let patch = json!({
        "metadata": {"uid": *pool.uid, "resourceVersion": *pool.version},
        "status": difference(&value(&pool.status)?, &value(next)?),
    });
    let (namespace, name) = (&pool.key.namespace, &pool.key.name);
    match cx.refill.merge_status::<WarmPool>(namespace, name, &patch).await {
        Ok(written) => {
            cx.world.put_pool(PoolView::from(written));
            Ok(())
        }
        Err(CallError::Conflict(message)) => {
            if let Ok(found) = cx.refill.get::<WarmPool>(namespace, name).await {
                cx.world.put_pool(PoolView::from(found));
            }
            Err(CallError::Conflict(message))
        }
        Err(error) => Err(error),
    }
}
