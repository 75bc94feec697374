//! What a sandbox pod may reach, and who may reach it.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A NetworkPolicy that denies all but this, also when the section is absent. In: the operator. Out: names, reports to the
/// operator, and the open internet without the cluster's own ranges. The fields add to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.mode != 'Unmanaged' || (!has(self.llm) && !has(self.allow))")
    .message("network.llm and network.allow need network.mode Restricted: with Unmanaged no policy is made"))]
pub struct Network {
    /// Who makes the policy.
    #[serde(default)]
    #[schemars(schema_with = "schema::network_mode")]
    pub mode: NetworkMode,
    /// A model server inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmPeer>,
    /// Address ranges that may be reached as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cidr"]))]
    pub allow: Vec<Range>,
}

/// Who sees to a sandbox's network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NetworkMode {
    /// The operator makes a NetworkPolicy.
    #[default]
    Restricted,
    /// Somebody else does, or nobody.
    Unmanaged,
}

/// Pods of a model server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmPeer {
    /// Labels of the pods.
    #[schemars(schema_with = "schema::labels")]
    #[x_kube(validation = Rule::new("size(self) > 0").message("network.llm.podSelector must name at least one label"))]
    pub pod_selector: BTreeMap<String, String>,
    /// Their namespace; the sandbox's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Their port; every port when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<i32>,
}

/// An address range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Range {
    /// Such as `10.20.0.0/16`.
    #[schemars(length(min = 3, max = 49))]
    #[x_kube(validation = Rule::new("isCIDR(self)").message("network.allow[].cidr must be an address range such as 10.20.0.0/16"))]
    pub cidr: String,
    /// A port; every port when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<i32>,
}
