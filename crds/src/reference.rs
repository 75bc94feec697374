//! Names of other objects of the same namespace.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One key of a Secret of the same namespace. The Secret must carry the label `openhands.dev/conversation-secret: "true"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
    /// Key inside the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// A Secret of the same namespace, made and owned by the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretNameRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A WarmPool of the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolRef {
    /// Name of the WarmPool.
    #[schemars(length(min = 1, max = 50), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
}

/// A secret value that the agent's commands may use under a name of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedSecret {
    /// Name under which commands see it, a shell variable name.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// Where the value is.
    pub secret_key_ref: SecretKeyRef,
    /// What it is for, told to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub description: Option<String>,
}

/// An environment variable. Names that steer the server or the loader (`OH_*`, `OPENHANDS_*`, `LD_*`, `PATH`) are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvVar {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    #[x_kube(validation = Rule::new("!self.startsWith('OH_') && !self.startsWith('OPENHANDS_') && !self.startsWith('LD_') && self != 'PATH'")
        .message("env[].name must not be PATH or begin with OH_, OPENHANDS_ or LD_"))]
    pub name: String,
    /// Its value, kept in clear in this object: put secrets into Secrets.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub value: String,
}
