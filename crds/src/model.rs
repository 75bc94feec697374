//! The agent of a Conversation and its model.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{reference::SecretKeyRef, schema};

/// The agent: either described here, or as raw JSON in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.llm) != has(self.rawSecretRef)")
        .message("exactly one of agent.llm and agent.rawSecretRef must be set"),
    validation = Rule::new("!has(self.rawSecretRef) || !has(self.tools)")
        .message("agent.tools cannot be combined with agent.rawSecretRef: the raw agent names its own tools")
)]
pub struct AgentSpec {
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<Llm>,
    /// The tools. By default `terminal`, `file_editor` and `task_tracker`; `finish` and `think` are always there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub tools: Option<Vec<Tool>>,
    /// When the user is asked before actions run. By default never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmation_policy: Option<ConfirmationPolicy>,
    /// The whole agent as the JSON that an SDK client would send, kept in a Secret (several models, AWS access keys, condensers).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_secret_ref: Option<SecretKeyRef>,
}

/// One tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Name under which the server knows it, such as `terminal`.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_.-]*$"))]
    pub name: String,
}

/// When the user is asked before actions run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.threshold) || self.kind == 'ConfirmRisky'")
    .message("agent.confirmationPolicy.threshold needs kind ConfirmRisky"))]
pub struct ConfirmationPolicy {
    /// Which policy.
    pub kind: ConfirmationKind,
    /// The lowest risk that asks; HIGH by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Risk>,
}

/// The policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConfirmationKind {
    /// Run every action at once.
    NeverConfirm,
    /// Ask before each action.
    AlwaysConfirm,
    /// Ask from a risk upwards.
    ConfirmRisky,
}

/// How dangerous an action looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Risk {
    /// Read-only or confined to the workspace.
    Low,
    /// Changes with an effect beyond the task.
    Medium,
    /// Destructive or leaking.
    High,
}

/// The model and how it is called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Llm {
    /// Provider-prefixed model name, such as `openai/gpt-5.6` or `anthropic/claude-sonnet-5`.
    #[schemars(length(min = 1, max = 256))]
    pub model: String,
    /// Where the provider answers; the provider's own address when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = Rule::new("isURL(self) && url(self).getScheme() in ['http', 'https']")
        .message("agent.llm.baseUrl must be an http or https URL"))]
    pub base_url: Option<String>,
    /// The provider's key; for Bedrock its API key, for Vertex AI the JSON document of a service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_secret_ref: Option<SecretKeyRef>,
    /// Version of the provider's interface (Azure).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub api_version: Option<String>,
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: Option<f64>,
    /// Limit of the prompt, tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_input_tokens: Option<i64>,
    /// Limit of the answer, tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_output_tokens: Option<i64>,
    /// Attempts of a call in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub num_retries: Option<i32>,
    /// Seconds for a whole call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_seconds: Option<i32>,
    /// How hard the model reasons: `none`, `low`, `medium`, `high` or `xhigh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Stream the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// US dollars for a million tokens read, where the price table does not know the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub input_cost_per_million_tokens: Option<f64>,
    /// US dollars for a million tokens written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub output_cost_per_million_tokens: Option<f64>,
    /// More members of the model's configuration under their names in the SDK. A value is JSON text; what is no JSON counts
    /// as a string, such as `aws_region_name: eu-central-1`. Keys and tokens are refused here: they belong into a Secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::extra")]
    #[x_kube(validation = Rule::new("self.all(k, k.matches('^[a-z][a-z0-9_]{0,63}$'))")
        .message("agent.llm.extra: names are 1 to 64 lower-case letters, digits and underscores"),
      validation = Rule::new("self.all(k, !(k in ['api_key', 'aws_access_key_id', 'aws_secret_access_key', 'aws_session_token', 'extra_headers', 'provider_connection_id', 'base_url', 'model', 'usage_id']))")
        .message("agent.llm.extra must not hold secrets or fields that have a name of their own (api_key, aws_*, extra_headers, provider_connection_id, base_url, model, usage_id): use agent.rawSecretRef"))]
    pub extra: BTreeMap<String, String>,
}

/// How hard the model reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    /// Not at all.
    None,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// As much as the model can.
    Xhigh,
}
