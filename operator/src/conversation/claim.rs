//! Steps 2 and 3: pick a member from memory and claim it with one patch.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::json;

use super::status::seconds;
use crate::{
    api::CallError,
    context::Context,
    keyring::Keyring,
    machine::Answer,
    metrics::Outcome,
    pod::{claimed_marks, conversation_owner},
    view::{ConversationView, PodObject, PodView, PoolView},
};

/// Lost races before the queue is asked again.
const RACES: usize = 4;

/// Claims a free member of the pool.
pub(crate) async fn pick(cx: &Context, view: &ConversationView, pool: &PoolView) -> Answer {
    for _ in 0..RACES {
        let chosen = cx.world.reserve(&pool.key, &view.uid, |free, claimed_on| {
            choose(free, claimed_on, &pool.template_hash, &cx.keyring)
        });
        let Some(member) = chosen else { return Answer::Nothing };
        match claim(cx, view, &member).await {
            Claim::Ours(pod) => {
                let uid = Arc::clone(&pod.uid);
                cx.world.put_pod(*pod);
                cx.world.release(&uid);
                count(cx, "warm");
                return Answer::Claimed(uid);
            }
            Claim::Others => {
                cx.world.release(&member.uid);
                count(cx, "race");
            }
            Claim::Unknown => {
                cx.world.release(&member.uid);
                return Answer::Unclear;
            }
        }
    }
    Answer::Unclear
}

fn count(cx: &Context, outcome: &'static str) {
    cx.metrics.claims.get_or_create(&Outcome { outcome }).inc();
}

/// Members of the current template first, then the node with the fewest claimed pods, then the oldest.
fn choose(
    free: &[Arc<PodView>],
    claimed_on: &BTreeMap<Arc<str>, usize>,
    template_hash: &str,
    keyring: &Keyring,
) -> Option<Arc<PodView>> {
    free.iter()
        .filter(|pod| can_be_initialised(pod, keyring))
        .min_by_key(|pod| {
            let current = pod.template_hash.as_deref() == Some(template_hash);
            let crowd = pod.node.as_ref().and_then(|node| claimed_on.get(node)).copied().unwrap_or_default();
            (!current, crowd, pod.created, pod.key.clone())
        })
        .cloned()
}

/// Whether the keyring has the key its server was started with.
pub(crate) fn can_be_initialised(pod: &PodView, keyring: &Keyring) -> bool {
    let (Some(key_id), Some(nonce), Some(digest)) = (&pod.key_id, &pod.nonce, &pod.key_digest) else { return false };
    keyring
        .init_key(key_id, &pod.key.namespace, &pod.key.name, nonce)
        .is_some_and(|key| key.digest.eq_ignore_ascii_case(digest))
}

enum Claim {
    Ours(Box<PodView>),
    Others,
    Unknown,
}

async fn claim(cx: &Context, view: &ConversationView, member: &PodView) -> Claim {
    let now = seconds(Timestamp::now()).to_string();
    let (labels, annotations) = claimed_marks(&view.key.name, &view.uid, &now);
    let patch = json!({
        "metadata": {
            "uid": *member.uid,
            "resourceVersion": *member.version,
            "labels": labels,
            "annotations": annotations,
            // A merge patch replaces the list: the pool is no owner any more.
            "ownerReferences": [conversation_owner(&view.key.name, &view.uid)],
        }
    });
    let (namespace, name) = (&member.key.namespace, &member.key.name);
    match cx.kube.merge::<PodObject>(namespace, name, &patch).await {
        Ok(pod) => Claim::Ours(Box::new(PodView::from(pod))),
        // Nothing happened.
        Err(CallError::Busy) => Claim::Unknown,
        // It may have been our own patch whose answer was lost, so the source decides, not the error.
        Err(_) => decide_by_source(cx, view, member).await,
    }
}

async fn decide_by_source(cx: &Context, view: &ConversationView, member: &PodView) -> Claim {
    match cx.kube.get::<PodObject>(&member.key.namespace, &member.key.name).await {
        Ok(found) => {
            let found = PodView::from(found);
            if found.uid == member.uid && found.conversation_uid.as_deref() == Some(&*view.uid) {
                return Claim::Ours(Box::new(found));
            }
            cx.world.put_pod(found);
            Claim::Others
        }
        Err(CallError::NotFound) => {
            cx.world.remove_pod(&member.key, Some(&member.uid));
            Claim::Others
        }
        Err(_) => Claim::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::for_tests;

    fn member(name: &str, created: i64, node: &str, hash: &str) -> Arc<PodView> {
        let keyring = for_tests();
        let digest = keyring.init_key("a", "n", name, "o").unwrap().digest;
        let pod: PodObject = serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": "n", "uid": name,
                "creationTimestamp": Timestamp::from_second(created).unwrap().to_string(),
                "labels": {"openhands.dev/template-hash": hash},
                "annotations": {"openhands.dev/key-id": "a", "openhands.dev/init-nonce": "o"}
            },
            "spec": {"nodeName": node, "containers": [
                {"name": "agent-server", "env": [{"name": "OH_INIT_KEY_SHA256", "value": digest}]}]},
            "status": {"podIP": "10.0.0.1"}
        }))
        .unwrap();
        Arc::new(PodView::from(pod))
    }

    #[test]
    fn the_current_template_then_an_empty_node_then_age_decides() {
        let chosen = |free: &[Arc<PodView>], crowd: &[(&str, usize)]| {
            let crowd = crowd.iter().map(|(node, count)| (Arc::from(*node), *count)).collect();
            choose(free, &crowd, "now", &for_tests()).map(|pod| pod.key.name.to_string())
        };
        let free = [
            member("old", 1, "x", "then"),
            member("a", 5, "x", "now"),
            member("b", 4, "x", "now"),
            member("c", 6, "y", "now"),
        ];
        assert_eq!(chosen(&free, &[]).as_deref(), Some("b"));
        assert_eq!(chosen(&free, &[("x", 1)]).as_deref(), Some("c"));
        assert_eq!(chosen(&free[..1], &[]).as_deref(), Some("old"));
        let mut foreign = (*free[1]).clone();
        foreign.key_digest = Some("00".into());
        assert_eq!(chosen(&[Arc::new(foreign)], &[]), None);
    }
}
