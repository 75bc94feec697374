//! Step 5: the status write that names the pod. It is the permission to start the agent on it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use openhands_crds::status::BoundSandbox;

use super::{
    open::address,
    patch::{NotWritten, write},
    status::{News, seconds},
};
use crate::{
    context::Context,
    machine::Answer,
    names,
    view::{ConversationView, PodView},
};

/// Names the pod, and this start of its container.
pub(crate) async fn bind(
    cx: &Context,
    view: &Arc<ConversationView>,
    pod: &PodView,
    restarts: i32,
) -> Result<(Answer, Option<Arc<ConversationView>>), NotWritten> {
    let Some(address) = address(pod) else { return Ok((Answer::Unclear, None)) };
    let sandbox = BoundSandbox {
        pod_uid: pod.uid.to_string(),
        pod: pod.key.name.to_string(),
        node: pod.node.as_deref().map(ToOwned::to_owned),
        address: address.to_string(),
        pool: pod.pool.as_deref().map(ToOwned::to_owned),
        warm: *pod.key.name != *names::cold_pod(&view.key.name, &view.uid, 0),
        restarts,
        claimed_at: pod.claimed_at.map(Time),
        ready_at: Some(Time(seconds(Timestamp::now()))),
    };
    match write(cx, view, &[News::Bound(sandbox)]).await {
        Ok(view) => Ok((Answer::Done, Some(view))),
        Err(NotWritten::OtherBound) => Ok((Answer::OtherBound, None)),
        Err(error) => Err(error),
    }
}
