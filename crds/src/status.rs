//! What the operator knows about a Conversation.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{reference::SecretNameRef, schema};

/// Where a Conversation stands. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationStatus {
    /// The generation of the specification this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Accepted`, `Ready`, `Started`, `Finished` (reason says how), `Failed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// One word for people; never an input.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub phase: Option<String>,
    /// Where the agent's run stands, in the server's words: `idle`, `running`, `paused`, `waiting_for_confirmation`,
    /// `finished`, `error`, `stuck`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub execution_status: Option<String>,
    /// Id of the conversation on the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36))]
    pub conversation_id: Option<String>,
    /// The bound pod. Naming it here is the permission to start the agent on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<BoundSandbox>,
    /// The Secret with the server's keys: `session-api-key` opens the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key_secret_ref: Option<SecretNameRef>,
    /// Actions that wait for the user's yes or no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_actions: Option<i32>,
    /// What the models cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Time of the last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_activity: Option<Time>,
    /// The agent's last words, at most 1 KiB, without control characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub final_message: Option<String>,
}

/// A condition as everywhere in Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What is true or false.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64))]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[schemars(schema_with = "schema::condition_status")]
    pub status: String,
    /// The generation of the specification it speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When `status` changed last.
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Time,
    /// One word for programs.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z][A-Za-z0-9]*$"))]
    pub reason: String,
    /// A sentence for people.
    #[serde(default)]
    #[schemars(length(max = 2048))]
    pub message: String,
}

/// The pod of a Conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BoundSandbox {
    /// Uid of the pod.
    #[serde(rename = "podUID")]
    #[schemars(length(min = 1, max = 64))]
    pub pod_uid: String,
    /// Name of the pod.
    #[schemars(length(min = 1, max = 253))]
    pub pod: String,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// `host:port` of the server inside the cluster.
    #[schemars(length(max = 64))]
    pub address: String,
    /// The WarmPool it came from or was built after.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub pool: Option<String>,
    /// Whether it was a dormant member.
    pub warm: bool,
    /// Which start of the container holds the keys of this Conversation, counted from 0.
    #[serde(default)]
    pub restarts: i32,
    /// When it was claimed or created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub claimed_at: Option<Time>,
    /// When it answered with the keys of this Conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub ready_at: Option<Time>,
}

/// What the models cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// US dollars as a decimal string.
    #[schemars(length(max = 32))]
    pub cost: String,
    /// Tokens read.
    #[serde(default)]
    pub prompt_tokens: i64,
    /// Tokens written.
    #[serde(default)]
    pub completion_tokens: i64,
}
