//! Where a Conversation gets its pod from.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{reference::PoolRef, template::SandboxTemplate};

/// Where the pod comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.poolRef) != has(self.template)")
        .message("exactly one of sandbox.poolRef and sandbox.template must be set"),
    validation = Rule::new("self.policy != 'WarmOnly' || has(self.poolRef)")
        .message("sandbox.policy WarmOnly needs sandbox.poolRef")
)]
pub struct Sandbox {
    /// A WarmPool of the same namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_ref: Option<PoolRef>,
    /// A pod of its own, always a cold start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<SandboxTemplate>,
    /// Whether a dormant member of the pool is taken, and what happens when there is none.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::policy")]
    pub policy: StartPolicy,
}

/// Warm or cold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StartPolicy {
    /// A dormant member when there is one, else a new pod of the pool's template.
    #[default]
    PreferWarm,
    /// A dormant member, waiting for one when there is none.
    WarmOnly,
    /// Always a new pod.
    ColdOnly,
}
