//! A conversation of a user with an agent, and the sandbox it lives in.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{
    message::InitialMessage,
    model::AgentSpec,
    reference::{EnvVar, NamedSecret},
    sandbox::Sandbox,
    status::ConversationStatus,
};

/// What the user wants. Once a sandbox is bound nothing of it may change.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "openhands.dev",
    version = "v1alpha1",
    kind = "Conversation",
    plural = "conversations",
    shortname = "conv",
    category = "openhands",
    namespaced,
    status = "ConversationStatus",
    doc = "A conversation with an agent in a sandbox pod of its own.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase", description = "where the conversation stands"),
    printcolumn(name = "Execution", type_ = "string", json_path = ".status.executionStatus", description = "where the agent's run stands"),
    printcolumn(name = "Pool", type_ = "string", json_path = ".status.sandbox.pool", description = "the WarmPool the pod came from"),
    printcolumn(name = "Cost", type_ = "string", json_path = ".status.usage.cost", description = "US dollars spent on models"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Pod", type_ = "string", json_path = ".status.sandbox.pod", priority = "1"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = "1"),
    validation = Rule::new("size(self.metadata.name) <= 63").message("metadata.name must have at most 63 characters"),
    validation = Rule::new("has(self.spec.conversationId) == has(oldSelf.spec.conversationId) && (!has(self.spec.conversationId) || self.spec.conversationId == oldSelf.spec.conversationId)")
        .message("spec.conversationId is immutable"),
    validation = Rule::new("!(has(oldSelf.status) && has(oldSelf.status.sandbox)) || self.spec.sandbox == oldSelf.spec.sandbox")
        .message("spec.sandbox is immutable once a sandbox is bound: create another Conversation"),
    validation = Rule::new("!(has(oldSelf.status) && has(oldSelf.status.sandbox)) || (has(self.spec.agent) == has(oldSelf.spec.agent) && (!has(self.spec.agent) || self.spec.agent == oldSelf.spec.agent))")
        .message("spec.agent is immutable once a sandbox is bound: create another Conversation"),
    validation = Rule::new("!(has(oldSelf.status) && has(oldSelf.status.sandbox)) || (has(self.spec.initialMessage) == has(oldSelf.spec.initialMessage) && (!has(self.spec.initialMessage) || self.spec.initialMessage == oldSelf.spec.initialMessage))")
        .message("spec.initialMessage is immutable once a sandbox is bound: send messages to the server instead"),
    validation = Rule::new("!(has(oldSelf.status) && has(oldSelf.status.sandbox)) || (has(self.spec.maxIterations) == has(oldSelf.spec.maxIterations) && (!has(self.spec.maxIterations) || self.spec.maxIterations == oldSelf.spec.maxIterations))")
        .message("spec.maxIterations is immutable once a sandbox is bound"),
    validation = Rule::new("!(has(oldSelf.status) && has(oldSelf.status.sandbox)) || (has(self.spec.secrets) == has(oldSelf.spec.secrets) && (!has(self.spec.secrets) || self.spec.secrets == oldSelf.spec.secrets))")
        .message("spec.secrets is immutable once a sandbox is bound"),
    validation = Rule::new("!(has(oldSelf.status) && has(oldSelf.status.sandbox)) || (has(self.spec.env) == has(oldSelf.spec.env) && (!has(self.spec.env) || self.spec.env == oldSelf.spec.env))")
        .message("spec.env is immutable once a sandbox is bound")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.initialMessage) || has(self.agent)")
        .message("spec.initialMessage needs spec.agent: without an agent nobody reads it"),
    validation = Rule::new("!has(self.maxIterations) || has(self.agent)").message("spec.maxIterations needs spec.agent"),
    validation = Rule::new("!has(self.secrets) || has(self.agent)").message("spec.secrets needs spec.agent")
)]
pub struct ConversationSpec {
    /// Where the pod comes from.
    pub sandbox: Sandbox,
    /// The agent. Without one this is a sandbox for SDK users who bring their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentSpec>,
    /// The first message of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_message: Option<InitialMessage>,
    /// The agent's steps at most; the server's default (500) when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_iterations: Option<i32>,
    /// Id of the conversation on the server; this object's uid when absent. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36), regex(pattern = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"))]
    pub conversation_id: Option<String>,
    /// Secret values that the agent's commands may use by name; they are masked in what the model reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub secrets: Vec<NamedSecret>,
    /// Environment of the agent's commands, also on warm pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<EnvVar>,
}
