//! A pool of dormant pods that Conversations claim.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{status::Condition, template::SandboxTemplate};

/// Pods at most when `maxPods` is not set.
pub const DEFAULT_MAX_PODS: i32 = 1000;

/// What the pool holds.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "openhands.dev",
    version = "v1alpha1",
    kind = "WarmPool",
    plural = "warmpools",
    shortname = "wp",
    category = "openhands",
    namespaced,
    status = "WarmPoolStatus",
    doc = "A pool of dormant sandbox pods that Conversations claim.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas", description = "unclaimed members wanted"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.ready", description = "unclaimed members that can be claimed"),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updated", description = "unclaimed members of the current template"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.template.image", priority = "1"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = "1"),
    validation = Rule::new("size(self.metadata.name) <= 50").message("metadata.name must have at most 50 characters: pods are named after it")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.maxPods) || self.maxPods >= self.replicas")
    .message("spec.maxPods must not be smaller than spec.replicas"))]
pub struct WarmPoolSpec {
    /// Unclaimed members wanted.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// What the members look like.
    pub template: SandboxTemplate,
    /// Pods of this pool at most, idle, claimed and terminating ones together; 1000 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_pods: Option<i32>,
    /// Make and delete no members while this is set; claims go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

const fn one() -> i32 {
    1
}

impl WarmPoolSpec {
    /// The cap on all pods of this pool.
    #[must_use]
    pub fn max_pods(&self) -> i32 {
        self.max_pods.unwrap_or(DEFAULT_MAX_PODS)
    }
}

/// Where a pool stands. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarmPoolStatus {
    /// The generation of the specification this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Unclaimed members that exist (what the scale subresource reports).
    #[serde(default)]
    pub replicas: i32,
    /// Unclaimed members wanted.
    #[serde(default)]
    pub desired: i32,
    /// Unclaimed members that can be claimed.
    #[serde(default)]
    pub ready: i32,
    /// Unclaimed members whose server runs and waits, ready or not.
    #[serde(default)]
    pub dormant: i32,
    /// Unclaimed members of the current template.
    #[serde(default)]
    pub updated: i32,
    /// Label selector of the unclaimed members.
    #[serde(default)]
    #[schemars(length(max = 512))]
    pub selector: String,
    /// `Ready`: all wanted members can be claimed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
