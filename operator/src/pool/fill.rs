//! Making and deleting members: in batches that grow while all goes well, and behind the claims that are on their way.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use super::{memory::Remembered, plan::Doomed};
use crate::{
    api::CallError,
    context::Context,
    keyring::random_hex,
    names,
    pod::{Owner, PodPlan, build},
    view::{PodObject, PodView, PoolView},
};

/// Largest batch.
const BATCH: usize = 16;
/// A batch waits so long at most for claims that are on their way: a pool that is never refilled makes every claim cold.
const YIELD: Duration = Duration::from_millis(750);

/// What came of one creation.
enum Made {
    /// The member.
    Member(Box<PodView>),
    /// Nobody knows.
    Unsure,
    /// A pod of somebody else has the name.
    Foreign,
    /// Refused; in the API server's words.
    Refused(String),
}

/// Makes members in these slots; the rest of a failed round is left for the next.
pub(crate) async fn create(cx: &Context, pool: &PoolView, slots: &[u32], remembered: &mut Remembered) {
    let mut batch = 1;
    let mut rest = slots;
    while !rest.is_empty() {
        yield_to_claims(cx).await;
        let (now, later) = rest.split_at(batch.min(rest.len()));
        let begun = Instant::now();
        let outcomes = join_all(now.iter().map(|slot| member(cx, pool, *slot))).await;
        let mut failed = false;
        for (slot, outcome) in now.iter().zip(outcomes) {
            match outcome {
                Made::Member(pod) => {
                    cx.world.put_pod(*pod);
                    remembered.succeeded();
                }
                Made::Unsure => {
                    remembered.slots.insert(*slot, Instant::now());
                    failed = true;
                }
                Made::Foreign => {
                    tracing::warn!(pool = %pool.key, slot, "a foreign pod has the name of a member");
                    remembered.foreign.insert(*slot, Instant::now());
                }
                Made::Refused(why) => {
                    remembered.failed(why);
                    failed = true;
                }
            }
        }
        if failed {
            return;
        }
        rest = later;
        batch = (batch * 2).min(BATCH);
        // A slow answer is an API server at work on something more urgent.
        if cx.claiming.count() > 0 && !rest.is_empty() {
            tokio::time::sleep(begun.elapsed().min(Duration::from_millis(500))).await;
        }
    }
}

async fn yield_to_claims(cx: &Context) {
    let begun = Instant::now();
    while cx.claiming.count() > 0 && begun.elapsed() < YIELD {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn member(cx: &Context, pool: &PoolView, slot: u32) -> Made {
    let name = names::member(&pool.key.name, slot);
    let nonce = random_hex::<16>();
    let Some(key) = cx.keyring.init_key(cx.keyring.current(), &pool.key.namespace, &name, &nonce) else {
        return Made::Refused("the keyring has no current key".to_owned());
    };
    let plan = PodPlan {
        namespace: &pool.key.namespace,
        name: &name,
        owner: Owner::Pool { name: &pool.key.name, uid: &pool.uid },
        template: &pool.spec.template,
        default_image: &cx.options.sandbox_image,
        default_server_image: &cx.options.sandbox_server_image,
        default_pull_policy: cx.options.sandbox_image_pull_policy.as_str(),
        key_id: cx.keyring.current(),
        nonce: &nonce,
        key_digest: &key.digest,
    };
    match cx.refill.create::<_, PodObject>(&pool.key.namespace, &build(&plan)).await {
        Ok(pod) => Made::Member(Box::new(PodView::from(pod))),
        Err(CallError::Refused(why)) => Made::Refused(why),
        Err(CallError::NotFound) => Made::Refused("the namespace is gone".to_owned()),
        Err(CallError::AlreadyExists) => found(cx, pool, &name).await,
        Err(CallError::Conflict(_) | CallError::Busy | CallError::Unknown(_)) => Made::Unsure,
    }
}

/// Whose pod has the name: ours when the answer to an earlier creation was lost or the watch is late.
async fn found(cx: &Context, pool: &PoolView, name: &str) -> Made {
    match cx.refill.get::<PodObject>(&pool.key.namespace, name).await {
        Ok(found) => {
            let found = PodView::from(found);
            if found.pool.as_deref() == Some(&*pool.key.name) { Made::Member(Box::new(found)) } else { Made::Foreign }
        }
        Err(_) => Made::Unsure,
    }
}

/// Deletes members that are too many; one that was claimed meanwhile has another version and stays.
pub(crate) async fn delete(cx: &Context, pool: &PoolView, doomed: &[Doomed], remembered: &mut Remembered) {
    for batch in doomed.chunks(BATCH) {
        let calls = batch
            .iter()
            .map(|one| cx.refill.delete::<Pod>(&pool.key.namespace, &one.name, &one.uid, Some(&one.version)));
        for (one, outcome) in batch.iter().zip(join_all(calls).await) {
            match outcome {
                Ok(()) => {
                    remembered.leaving.insert(Arc::clone(&one.uid), Instant::now());
                    if one.over {
                        remembered.failed(format!("the member {} was over by itself", one.name));
                    }
                }
                Err(error) => tracing::debug!(pod = %one.name, %error, "a member was not deleted"),
            }
        }
    }
}
