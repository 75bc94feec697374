//! The cold path: a pod of the Conversation's own, under a name that is fixed, so that a second writer finds it taken.

use std::sync::Arc;

use jiff::Timestamp;

use super::{accept::Accepted, status::seconds};
use crate::{
    api::CallError,
    context::Context,
    keyring::random_hex,
    machine::Answer,
    metrics::Outcome,
    names, network,
    pod::{Owner, PodPlan, build, conversation_owner},
    view::{ConversationView, PodObject, PodView},
};

/// What came of it, beside the answer for the machine.
pub(crate) enum Created {
    /// See [`Answer`].
    Answer(Answer),
    /// The pool's cap is reached.
    AtCap,
    /// The API server will not have the pod.
    Refused(String),
}

/// Makes the pod, or finds it made.
pub(crate) async fn create(cx: &Context, view: &ConversationView, accepted: &Accepted) -> Created {
    if let Some(pool) = &accepted.pool {
        let most = usize::try_from(pool.spec.max_pods()).unwrap_or(usize::MAX);
        if cx.world.pods_of_pool(&pool.key).len() >= most {
            return Created::AtCap;
        }
    }
    if let (None, Some(network)) = (&accepted.pool, network::wanted(&accepted.template)) {
        let scope = network::Scope {
            namespace: &view.key.namespace,
            name: &view.key.name,
            owner: conversation_owner(&view.key.name, &view.uid),
            selects: (names::CONVERSATION_UID, &view.uid),
        };
        match network::ensure(&cx.kube, &scope, &network, &cx.options).await {
            Ok(()) => {}
            Err(CallError::Refused(message)) => {
                return Created::Refused(format!("the NetworkPolicy is refused: {message}"));
            }
            Err(_) => return Created::Answer(Answer::Unclear),
        }
    }
    let name = names::cold_pod(&view.key.name, &view.uid, 0);
    let nonce = random_hex::<16>();
    let Some(key) = cx.keyring.init_key(cx.keyring.current(), &view.key.namespace, &name, &nonce) else {
        return Created::Refused("the keyring has no current key".to_owned());
    };
    let plan = PodPlan {
        namespace: &view.key.namespace,
        name: &name,
        owner: Owner::Conversation {
            name: &view.key.name,
            uid: &view.uid,
            pool: view.pool.as_deref(),
            now: seconds(Timestamp::now()).to_string(),
        },
        template: &accepted.template,
        default_image: &cx.options.sandbox_image,
        default_server_image: &cx.options.sandbox_server_image,
        default_pull_policy: cx.options.sandbox_image_pull_policy.as_str(),
        key_id: cx.keyring.current(),
        nonce: &nonce,
        key_digest: &key.digest,
    };
    match cx.kube.create::<_, PodObject>(&view.key.namespace, &build(&plan)).await {
        Ok(pod) => {
            cx.metrics.claims.get_or_create(&Outcome { outcome: "cold" }).inc();
            Created::Answer(taken(cx, PodView::from(pod)))
        }
        Err(CallError::Refused(message)) => Created::Refused(message),
        Err(CallError::AlreadyExists | CallError::Unknown(_) | CallError::Conflict(_)) => found(cx, view, &name).await,
        Err(CallError::NotFound | CallError::Busy) => Created::Answer(Answer::Unclear),
    }
}

fn taken(cx: &Context, pod: PodView) -> Answer {
    let uid = Arc::clone(&pod.uid);
    cx.world.put_pod(pod);
    Answer::Claimed(uid)
}

async fn found(cx: &Context, view: &ConversationView, name: &str) -> Created {
    match cx.kube.get::<PodObject>(&view.key.namespace, name).await {
        Ok(pod) => {
            let pod = PodView::from(pod);
            if pod.conversation_uid.as_deref() != Some(&*view.uid) {
                return Created::Refused(format!(
                    "a foreign pod is called {name}: delete it or rename the Conversation"
                ));
            }
            let departing = pod.deleting;
            let answer = taken(cx, pod);
            // The name is free when it is gone; the watch tells.
            Created::Answer(if departing { Answer::Unclear } else { answer })
        }
        Err(_) => Created::Answer(Answer::Unclear),
    }
}
