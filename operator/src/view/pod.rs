//! A pod as the operator needs it.

use std::{net::IpAddr, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;

use super::key::{Key, version_number};
use crate::names;

/// The members of a pod that are read from the wire; the rest is skipped by the parser.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = Pod)]
#[serde(rename_all = "camelCase")]
pub struct PodObject {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    #[serde(default)]
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    env: Vec<Env>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Env {
    name: String,
    value: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<IpAddr>,
    reason: Option<String>,
    message: Option<String>,
    #[serde(default)]
    conditions: Vec<Condition>,
    #[serde(default)]
    container_statuses: Vec<ContainerStatus>,
    #[serde(default)]
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    #[serde(default)]
    name: String,
    #[serde(default)]
    restart_count: i32,
    #[serde(default)]
    state: State,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct State {
    running: Option<serde::de::IgnoredAny>,
    waiting: Option<Reason>,
    terminated: Option<Reason>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Reason {
    reason: Option<String>,
    message: Option<String>,
}

/// Where a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Not all containers were started yet.
    Pending,
    /// Bound to a node, containers started.
    Running,
    /// Over: succeeded or failed; it never runs again.
    Over,
}

/// Why a pod does not get on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// One word, such as `CrashLoopBackOff` or `Unschedulable`.
    pub reason: String,
    /// A sentence, cut to 256 characters.
    pub message: String,
}

/// A pod as the operator needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Where it is.
    pub key: Key,
    /// Its uid.
    pub uid: Arc<str>,
    /// Its resource version.
    pub version: Arc<str>,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The pool it came from or was built after.
    pub pool: Option<Arc<str>>,
    /// Whether it belongs, or belonged, to a Conversation.
    pub claimed: bool,
    /// The Conversation it belongs to.
    pub conversation_uid: Option<Arc<str>>,
    /// When it was claimed.
    pub claimed_at: Option<Timestamp>,
    /// Hash of its template.
    pub template_hash: Option<Arc<str>>,
    /// Which key of the keyring its init key comes from.
    pub key_id: Option<Arc<str>>,
    /// What makes its init key its own.
    pub nonce: Option<Arc<str>>,
    /// The digest of the init key that its server was started with.
    pub key_digest: Option<Arc<str>>,
    /// Where it stands.
    pub phase: PodPhase,
    /// Whether the kubelet calls it ready.
    pub ready: bool,
    /// Whether the server's container runs.
    pub running: bool,
    /// How often the server's container was started again.
    pub restarts: i32,
    /// Its address.
    pub ip: Option<IpAddr>,
    /// Its node.
    pub node: Option<Arc<str>>,
    /// Why it does not get on.
    pub trouble: Option<Trouble>,
}

impl PodView {
    /// Whether it can be claimed: ready, of nobody, not on its way out.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.ready && !self.claimed && !self.deleting && self.phase != PodPhase::Over && self.ip.is_some()
    }

    /// The version as a number.
    #[must_use]
    pub fn version_number(&self) -> u64 {
        version_number(&self.version)
    }
}

impl From<PodObject> for PodView {
    fn from(pod: PodObject) -> Self {
        let PodObject { metadata, spec, status } = pod;
        let label =
            |name: &str| metadata.labels.as_ref().and_then(|all| all.get(name)).map(|value| Arc::from(value.as_str()));
        let note = |name: &str| {
            metadata.annotations.as_ref().and_then(|all| all.get(name)).map(|value| Arc::from(value.as_str()))
        };
        let server = status.container_statuses.iter().find(|one| one.name == names::SERVER_CONTAINER);
        let phase = match status.phase.as_deref() {
            Some("Running") => PodPhase::Running,
            Some("Succeeded" | "Failed") => PodPhase::Over,
            _ => PodPhase::Pending,
        };
        let key_digest = spec
            .containers
            .iter()
            .find(|one| one.name == names::SERVER_CONTAINER)
            .and_then(|one| one.env.iter().find(|env| env.name == "OH_INIT_KEY_SHA256"))
            .and_then(|env| env.value.as_deref())
            .map(Arc::from);
        Self {
            key: Key::of(&metadata),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            version: metadata.resource_version.as_deref().unwrap_or_default().into(),
            created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            pool: label(names::POOL),
            claimed: label(names::STATE).as_deref() != Some(names::IDLE),
            conversation_uid: label(names::CONVERSATION_UID),
            claimed_at: note(names::CLAIMED_AT).and_then(|time: Arc<str>| time.parse().ok()),
            template_hash: label(names::TEMPLATE_HASH),
            key_id: note(names::KEY_ID),
            nonce: note(names::INIT_NONCE),
            key_digest,
            phase,
            ready: status.conditions.iter().any(|one| one.kind == "Ready" && one.status == "True"),
            running: server.is_some_and(|one| one.state.running.is_some()),
            restarts: server.map_or(0, |one| one.restart_count),
            ip: status.pod_ip,
            node: spec.node_name.as_deref().map(Arc::from),
            trouble: trouble(&status, phase),
        }
    }
}

fn trouble(status: &Status, phase: PodPhase) -> Option<Trouble> {
    let told = |reason: Option<&str>, message: Option<&str>| {
        Some(Trouble {
            reason: reason.unwrap_or("Unknown").to_owned(),
            message: message.unwrap_or_default().chars().take(256).collect(),
        })
    };
    if phase == PodPhase::Over {
        return told(status.reason.as_deref().or(Some("PodOver")), status.message.as_deref());
    }
    for one in status.container_statuses.iter().chain(&status.init_container_statuses) {
        // Waiting without a name of trouble is the ordinary way to the start.
        if let Some(waiting) = one.state.waiting.as_ref()
            && !matches!(waiting.reason.as_deref(), None | Some("ContainerCreating" | "PodInitializing"))
        {
            return told(waiting.reason.as_deref(), waiting.message.as_deref());
        }
        if let Some(terminated) = one.state.terminated.as_ref()
            && terminated.reason.as_deref() != Some("Completed")
        {
            return told(terminated.reason.as_deref(), terminated.message.as_deref());
        }
    }
    status
        .conditions
        .iter()
        .find(|one| one.kind == "PodScheduled" && one.status == "False")
        .and_then(|one| told(one.reason.as_deref(), one.message.as_deref()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_read_into_a_few_members() {
        let pod: PodObject = serde_json::from_value(json!({
            "metadata": {"name": "p-0", "namespace": "n", "uid": "u", "resourceVersion": "12",
                "labels": {"openhands.dev/pool": "p", "openhands.dev/state": "idle"}},
            "spec": {"nodeName": "node", "containers": [{"name": "agent-server", "env": [
                {"name": "OPENHANDS_POD_UID", "valueFrom": {}}, {"name": "OH_INIT_KEY_SHA256", "value": "d"}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "agent-server", "restartCount": 2, "state": {"running": {"startedAt": "x"}}}]}
        }))
        .unwrap();
        let view = PodView::from(pod);
        assert!(view.is_free() && view.running);
        assert_eq!((view.restarts, view.version_number(), view.key_digest.as_deref()), (2, 12, Some("d")));
        assert_eq!(view.trouble, None);
    }

    #[test]
    fn trouble_is_named() {
        let with = |status: serde_json::Value| {
            let pod: PodObject = serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap();
            PodView::from(pod).trouble.map(|trouble| trouble.reason)
        };
        assert_eq!(
            with(
                json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]})
            ),
            Some("ImagePullBackOff".to_owned())
        );
        assert_eq!(
            with(
                json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]})
            ),
            None
        );
        assert_eq!(
            with(json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]})),
            Some("Unschedulable".to_owned())
        );
        assert_eq!(with(json!({"phase": "Failed", "reason": "Evicted"})), Some("Evicted".to_owned()));
    }
}
