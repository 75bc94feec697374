//! From projections to the facts that the machine decides on.

use std::sync::Arc;

use openhands_crds::sandbox::StartPolicy;

use super::status;
use crate::{
    context::Context,
    machine::{Binding, Facts, PodFact, PodState, Source},
    view::{ConversationView, PodPhase, PodView},
};

/// Pods that carry the uid, and the bound one whatever it carries.
pub(crate) fn pods(cx: &Context, view: &ConversationView) -> Vec<Arc<PodView>> {
    let mut pods = cx.world.pods_of_conversation(&view.uid);
    if let Some(bound) = &view.status.sandbox
        && !pods.iter().any(|pod| *pod.uid == *bound.pod_uid)
        && let Some(pod) = cx.world.pod(&view.key.sibling(&bound.pod)).filter(|pod| *pod.uid == *bound.pod_uid)
    {
        pods.push(pod);
    }
    pods
}

/// The facts of a Conversation.
pub(crate) fn facts(cx: &Context, view: &ConversationView) -> Facts {
    let state = |pod: &PodView| match (pod.phase, pod.deleting, pod.ip) {
        (PodPhase::Over, _, _) => PodState::Over,
        (_, true, _) => PodState::Deleting,
        (_, false, None) => PodState::Starting,
        (_, false, Some(_)) => PodState::Reachable,
    };
    Facts {
        deleting: view.deleting,
        lost: view.condition(status::FAILED).is_some_and(|one| one.status == "True" && one.reason == "SandboxLost"),
        bound: view
            .status
            .sandbox
            .as_ref()
            .map(|bound| Binding { uid: bound.pod_uid.as_str().into(), restarts: bound.restarts }),
        started: view.is(status::STARTED),
        wants_start: view.wants_start,
        source: match view.policy {
            StartPolicy::PreferWarm => Source::WarmThenCold,
            StartPolicy::WarmOnly => Source::Warm,
            StartPolicy::ColdOnly => Source::Cold,
        },
        pods: pods(cx, view)
            .iter()
            .map(|pod| PodFact { uid: Arc::clone(&pod.uid), state: state(pod), restarts: pod.restarts })
            .collect(),
    }
}
