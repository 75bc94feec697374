//! Bodies of the conversation and event routes, without the events themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    content::{Content, Role},
    id::ConversationId,
    policy::{ConfirmationPolicy, SecurityAnalyzer},
};

/// A message for the agent: body of `POST .../events`, and the `initial_message` of a start request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendMessageRequest {
    /// Who speaks; `user` when absent.
    #[serde(default = "user")]
    pub role: Role,
    /// The parts.
    #[serde(default)]
    pub content: Vec<Content>,
    /// Start a run unless one is going on. An initial message always starts one.
    #[serde(default)]
    pub run: bool,
    /// Who sent it, in runs of several agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
}

const fn user() -> Role {
    Role::User
}

impl SendMessageRequest {
    /// A user's text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![Content::text(text)], run: false, sender: None }
    }
}

/// Body of `POST /api/conversations`: the members a server must understand, and all others as they came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartConversationRequest {
    /// The agent, its secrets in clear; exactly one of the three sources must be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Value>,
    /// Settings that an agent is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_settings: Option<Value>,
    /// A stored agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_profile_id: Option<Value>,
    /// Where the agent works.
    pub workspace: Value,
    /// The id; a random one when absent. Starting an id that exists answers the existing conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// The first message; it starts a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_message: Option<SendMessageRequest>,
    /// Most model calls of one run, at least 1.
    #[serde(default = "max_iterations")]
    pub max_iterations: u32,
    /// Whether loops end the run.
    #[serde(default = "yes")]
    pub stuck_detection: bool,
    /// How many repetitions are a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck_detection_thresholds: Option<StuckDetectionThresholds>,
    /// When the user is asked; never when absent.
    #[serde(default)]
    pub confirmation_policy: ConfirmationPolicy,
    /// Who judges risks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_analyzer: Option<SecurityAnalyzer>,
    /// Secrets by name.
    #[serde(default)]
    pub secrets: Map<String, Value>,
    /// The user's labels.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Tools that the client executes.
    #[serde(default)]
    pub client_tools: Vec<Value>,
    /// Tool name to Python module.
    #[serde(default)]
    pub tool_module_qualnames: Map<String, Value>,
    /// Hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_config: Option<Value>,
    /// Who the conversation belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Whether a model is asked for a title; true when absent.
    #[serde(default = "yes")]
    pub autotitle: bool,
    /// All other members. Not filled by deserialisation: see [`StartConversationRequest::others`].
    #[serde(flatten, skip_deserializing)]
    pub extra: Map<String, Value>,
}

const fn max_iterations() -> u32 {
    500
}

const fn yes() -> bool {
    true
}

impl StartConversationRequest {
    const MEMBERS: [&str; 18] = [
        "agent",
        "agent_settings",
        "agent_profile_id",
        "workspace",
        "conversation_id",
        "initial_message",
        "max_iterations",
        "stuck_detection",
        "stuck_detection_thresholds",
        "confirmation_policy",
        "security_analyzer",
        "secrets",
        "tags",
        "client_tools",
        "tool_module_qualnames",
        "hook_config",
        "user_id",
        "autotitle",
    ];

    /// An agent in a working directory, with defaults.
    #[must_use]
    pub fn new(agent: Value, working_dir: &str) -> Self {
        Self {
            agent: Some(agent),
            agent_settings: None,
            agent_profile_id: None,
            workspace: serde_json::json!({"kind": "LocalWorkspace", "working_dir": working_dir}),
            conversation_id: None,
            initial_message: None,
            max_iterations: max_iterations(),
            stuck_detection: true,
            stuck_detection_thresholds: None,
            confirmation_policy: ConfirmationPolicy::default(),
            security_analyzer: None,
            secrets: Map::new(),
            tags: BTreeMap::new(),
            client_tools: Vec::new(),
            tool_module_qualnames: Map::new(),
            hook_config: None,
            user_id: None,
            autotitle: true,
            extra: Map::new(),
        }
    }

    /// The members of a body that the fields above do not hold, for [`StartConversationRequest::extra`]. Kept apart from
    /// deserialisation, because a flattened map would cost errors the place they happened at.
    #[must_use]
    pub fn others(body: &Value) -> Map<String, Value> {
        let others = body.as_object().into_iter().flatten();
        others
            .filter(|(name, _)| !Self::MEMBERS.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// How many repetitions end a run as stuck; absent members have the reference's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StuckDetectionThresholds {
    /// Equal pairs of action and observation.
    pub action_observation: u32,
    /// Equal pairs of action and error.
    pub action_error: u32,
    /// Messages of the agent in a row.
    pub monologue: u32,
    /// Steps of two alternating pairs.
    pub alternating_pattern: u32,
}

impl Default for StuckDetectionThresholds {
    fn default() -> Self {
        Self { action_observation: 4, action_error: 3, monologue: 3, alternating_pattern: 6 }
    }
}

/// Body of `POST .../events/respond_to_confirmation`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmationResponseRequest {
    /// Yes or no, to all actions that wait.
    pub accept: bool,
    /// Why not; shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Body of `POST .../confirmation_policy`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetConfirmationPolicyRequest {
    /// The policy.
    pub policy: ConfirmationPolicy,
}

/// Body of `POST .../security_analyzer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetSecurityAnalyzerRequest {
    /// The analyzer, null for none. The member must be there.
    #[serde(deserialize_with = "present")]
    pub security_analyzer: Option<SecurityAnalyzer>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<SecurityAnalyzer>, D::Error> {
    Option::deserialize(deserializer)
}

/// Body of `POST .../secrets`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpdateSecretsRequest {
    /// Secrets by name: a string, or a secret source.
    pub secrets: Map<String, Value>,
}

/// Body of `PATCH /api/conversations/{id}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateConversationRequest {
    /// A new title, 1 to 200 characters, not blank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// New tags, in place of all old ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    /// What the conversation may cost from now on, US dollars; null lifts the limit. Not in the reference.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub max_budget_per_run: Option<Option<f64>>,
}

/// Tells a null that was given from a member that was not.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Answer of `GET .../agent_final_response`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentResponseResult {
    /// The message of the last `finish` or text reply; empty when there is none.
    pub response: String,
}

/// The answer of everything that has nothing to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Success {
    /// Always true.
    pub success: bool,
}

impl Success {
    /// It worked.
    pub const YES: Self = Self { success: true };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_start_request_keeps_what_it_does_not_know() {
        let body = json!({
            "agent": {"llm": {"model": "m"}}, "agent_settings": null, "workspace": {"working_dir": "w"},
            "initial_message": {"content": [{"type": "text", "text": "hi"}]}, "plugins": null, "worktree": false,
        });
        let mut request: StartConversationRequest = serde_json::from_value(body.clone()).unwrap();
        request.extra = StartConversationRequest::others(&body);
        assert_eq!(request.extra, Map::from_iter([("plugins".into(), json!(null)), ("worktree".into(), json!(false))]));
        assert_eq!(request.initial_message, Some(SendMessageRequest::text("hi")));
        assert_eq!((request.max_iterations, request.autotitle, request.agent_settings.is_none()), (500, true, true));
        let all = serde_json::to_value(StartConversationRequest {
            agent_settings: Some(json!({})),
            agent_profile_id: Some(json!("p")),
            conversation_id: Some(ConversationId::random()),
            initial_message: request.initial_message.clone(),
            stuck_detection_thresholds: Some(StuckDetectionThresholds::default()),
            security_analyzer: Some(SecurityAnalyzer { kind: "LLMSecurityAnalyzer".into(), settings: Map::new() }),
            hook_config: Some(json!({})),
            user_id: Some("u".into()),
            ..StartConversationRequest::new(json!({}), "w")
        })
        .unwrap();
        assert_eq!(StartConversationRequest::others(&all), Map::new(), "MEMBERS names every field");
    }

    #[test]
    fn an_analyzer_must_be_named_even_when_it_is_none() {
        assert!(serde_json::from_value::<SetSecurityAnalyzerRequest>(json!({})).is_err());
        let none: SetSecurityAnalyzerRequest = serde_json::from_value(json!({"security_analyzer": null})).unwrap();
        assert_eq!(none.security_analyzer, None);
    }
}
