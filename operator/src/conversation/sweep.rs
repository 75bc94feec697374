//! Step 11: pods that nobody names are deleted, after they and their Conversation were read from the source.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use openhands_crds::Conversation;
use tokio::time::Instant;

use super::patch::{self, NotWritten};
use crate::{
    api::CallError,
    context::Context,
    machine::Answer,
    names,
    view::{ConversationView, Key, PodObject, PodView},
};

/// How often orphans are looked for.
const ROUND: Duration = Duration::from_secs(5);
/// How long the garbage collector has for its work before we do it. It learns of new kinds only every 30 seconds.
const GRACE: Duration = Duration::from_secs(10);
/// Orphans of one round: after a large deletion the collector is at work on the same pods.
const A_ROUND: usize = 32;

/// Deletes a pod that carries the Conversation's uid and is not the one its status names.
pub(crate) async fn discard(cx: &Context, view: &ConversationView, pod: &PodView) -> Answer {
    match patch::read(cx, view).await {
        Ok(current) if current.status.sandbox.as_ref().is_some_and(|bound| *bound.pod_uid == *pod.uid) => {
            return Answer::Unclear;
        }
        Ok(_) | Err(NotWritten::Gone) => {}
        Err(_) => return Answer::Unclear,
    }
    match delete(cx, &pod.key, &pod.uid, |found| found.conversation_uid.as_deref() == Some(&*view.uid)).await {
        Ok(()) => Answer::Done,
        Err(_) => Answer::Unclear,
    }
}

/// Reads a pod, deletes it when it is still the one and `still` holds, and takes the outcome into the world.
async fn delete(cx: &Context, key: &Key, uid: &str, still: impl Fn(&PodView) -> bool) -> Result<(), CallError> {
    let found = match cx.kube.get::<PodObject>(&key.namespace, &key.name).await {
        Ok(found) => PodView::from(found),
        Err(CallError::NotFound) => {
            cx.world.remove_pod(key, Some(uid));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if *found.uid != *uid || found.deleting || !still(&found) {
        if *found.uid != *uid {
            cx.world.remove_pod(key, Some(uid));
        }
        cx.world.put_pod(found);
        return Ok(());
    }
    tracing::info!(pod = %key, uid, "deleting a pod that no Conversation names");
    cx.kube.delete::<Pod>(&key.namespace, &key.name, uid, None).await?;
    // What is left is seen at once, so that the next decision is not made on a pod that is going.
    match cx.kube.get::<PodObject>(&key.namespace, &key.name).await {
        Ok(left) => drop(cx.world.put_pod(PodView::from(left))),
        Err(CallError::NotFound) => drop(cx.world.remove_pod(key, Some(uid))),
        Err(_) => {}
    }
    Ok(())
}

/// Looks for pods whose Conversation is gone, for ever. Owner references do this; it heals what they cannot, such as a claim
/// that was committed after its Conversation had been collected.
pub async fn sweep_orphans(cx: Arc<Context>) {
    let mut since: HashMap<Arc<str>, Instant> = HashMap::new();
    loop {
        tokio::time::sleep(ROUND).await;
        let orphans = cx.world.orphans();
        since.retain(|uid, _| orphans.iter().any(|pod| pod.uid == *uid));
        let mut left = A_ROUND;
        for pod in orphans.iter().filter(|pod| !pod.deleting) {
            let first = *since.entry(Arc::clone(&pod.uid)).or_insert_with(Instant::now);
            if first.elapsed() >= GRACE && left > 0 {
                left -= 1;
                sweep(&cx, pod).await;
            }
        }
    }
}

async fn sweep(cx: &Context, pod: &PodView) {
    let Some(uid) = pod.conversation_uid.clone() else { return };
    let name = match cx.kube.get::<k8s_openapi::api::core::v1::Pod>(&pod.key.namespace, &pod.key.name).await {
        Ok(found) => found.metadata.labels.unwrap_or_default().remove(names::CONVERSATION).unwrap_or_default(),
        Err(_) => return,
    };
    let gone = match cx.kube.get::<Conversation>(&pod.key.namespace, &name).await {
        Ok(found) => found.metadata.uid.as_deref() != Some(&*uid),
        Err(CallError::NotFound) => true,
        Err(_) => false,
    };
    if gone
        && let Err(error) =
            delete(cx, &pod.key, &pod.uid, |found| found.conversation_uid == Some(Arc::clone(&uid))).await
    {
        tracing::warn!(pod = %pod.key, %error, "an orphan could not be deleted");
    }
}
