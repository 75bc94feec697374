//! Which parts of a start request this server can do. What it cannot do is refused by name, or, where the conversation works
//! without it, kept and logged; nothing is silently pretended.

use std::collections::BTreeMap;

use openhands_protocol::{
    AgentSpec,
    policy::{ConfirmationPolicy, SecurityAnalyzer, SecurityRisk},
};
use serde_json::Value;

use crate::{request::NewConversation, toolset::Wrong};

/// Members that must be absent, null, false or empty, and why.
const REFUSED: [(&str, &str); 5] = [
    ("plugins", "plugins are not supported yet: leave them out"),
    ("worktree", "git work trees of their own are not supported yet: leave it false"),
    ("worktree_options", "git work trees of their own are not supported yet: leave them out"),
    ("agent_launch_additions", "agent profiles are not supported yet: put the additions into agent.agent_context"),
    ("container", "conversations run in this server's own container: leave it out"),
];

/// Members that are kept without an effect.
const KEPT: [&str; 1] = ["agent_definitions"];

/// Checks a start request as far as it can be checked without doing anything. Returns the members that are kept without an
/// effect.
pub(crate) fn check(new: &NewConversation) -> Result<Vec<String>, Wrong> {
    if new.max_iterations == 0 {
        return wrong("max_iterations", "must be at least 1");
    }
    check_budget(new.max_budget)?;
    let thresholds = &new.stuck_detection_thresholds;
    let all =
        [thresholds.action_observation, thresholds.action_error, thresholds.monologue, thresholds.alternating_pattern];
    if all.contains(&0) {
        return wrong("stuck_detection_thresholds", "each must be at least 1");
    }
    check_tags(&new.tags)?;
    check_policy(&new.confirmation_policy)?;
    check_analyzer(new.security_analyzer.as_ref())?;
    if let Some(hooks) = new.hook_config.as_ref().filter(|hooks| !is_nothing(hooks)) {
        let names = hooks.as_object().map(|hooks| hooks.keys().cloned().collect::<Vec<_>>().join(", "));
        let names = names.unwrap_or_default();
        return wrong("hook_config", &format!("hooks are not supported yet ({names}): leave them out"));
    }
    for (member, why) in REFUSED {
        if new.extra.get(member).is_some_and(|value| !is_nothing(value)) {
            return wrong(member, why);
        }
    }
    match new.extra.get("conversation_runtime") {
        None | Some(Value::Null) => {}
        Some(Value::String(runtime)) if runtime == "local" => {}
        Some(_) => return wrong("conversation_runtime", "only \"local\" is supported"),
    }
    let mut kept = check_agent(&new.agent)?;
    kept.extend(
        KEPT.iter()
            .filter(|member| new.extra.get(**member).is_some_and(|value| !is_nothing(value)))
            .map(|member| (*member).to_owned()),
    );
    Ok(kept)
}

fn check_agent(agent: &AgentSpec) -> Result<Vec<String>, Wrong> {
    let members = agent.members();
    if members.kind != "Agent" {
        return wrong("agent.kind", &format!("{:?} is not supported, only \"Agent\" is", members.kind));
    }
    if !members.mcp_config.is_empty() {
        return wrong("agent.mcp_config", "MCP servers are not supported yet: leave it empty");
    }
    if members.critic.as_ref().is_some_and(|critic| !critic.is_null()) {
        return wrong("agent.critic", "critics are not supported yet: leave it null");
    }
    if members.tool_concurrency_limit == 0 {
        return wrong("agent.tool_concurrency_limit", "must be at least 1");
    }
    if members.llm.model.trim().is_empty() {
        return wrong("agent.llm.model", "must name a model, such as \"openai/gpt-5\"");
    }
    let mut kept = Vec::new();
    openhands_agent::summarizers(members.condenser.as_ref())
        .map_err(|(member, problem)| (format!("agent.condenser.{member}"), problem))?;
    let context = |member: &str| members.agent_context.as_ref().and_then(|context| context.get(member));
    for member in [
        "skills",
        "secrets",
        "load_user_skills",
        "load_public_skills",
        "load_project_skills",
        "load_memory",
        "marketplace_path",
    ] {
        // The default of the marketplace path means something only together with public skills.
        let counts = member != "marketplace_path" || context("load_public_skills") == Some(&Value::Bool(true));
        if counts && context(member).is_some_and(|value| !is_nothing(value)) {
            kept.push(format!("agent.agent_context.{member}"));
        }
    }
    Ok(kept)
}

/// A budget is an amount of money.
pub(crate) fn check_budget(budget: Option<f64>) -> Result<(), Wrong> {
    match budget {
        Some(dollars) if !dollars.is_finite() || dollars <= 0.0 => {
            wrong("max_budget_per_run", "must be greater than 0")
        }
        _ => Ok(()),
    }
}

/// A policy that cannot be meant is refused (F1-SEC-10).
pub(crate) fn check_policy(policy: &ConfirmationPolicy) -> Result<(), Wrong> {
    match policy {
        ConfirmationPolicy::ConfirmRisky { threshold: SecurityRisk::Unknown, .. } => {
            wrong("confirmation_policy.threshold", "must be LOW, MEDIUM or HIGH")
        }
        ConfirmationPolicy::ConfirmRisky { .. }
        | ConfirmationPolicy::AlwaysConfirm {}
        | ConfirmationPolicy::NeverConfirm {} => Ok(()),
    }
}

/// Only analyzers that really analyze are taken: a policy relies on them.
pub(crate) fn check_analyzer(analyzer: Option<&SecurityAnalyzer>) -> Result<(), Wrong> {
    match analyzer.map(|analyzer| analyzer.kind.as_str()) {
        None | Some("LLMSecurityAnalyzer" | "NoOpSecurityAnalyzer") => Ok(()),
        Some(kind) => {
            let why = format!("{kind:?} is not supported yet: use \"LLMSecurityAnalyzer\" or null");
            wrong("security_analyzer.kind", &why)
        }
    }
}

/// Keys of small letters, digits and underscores, values of at most 256 characters.
pub(crate) fn check_tags(tags: &BTreeMap<String, String>) -> Result<(), Wrong> {
    const MAX_TAGS: usize = 256;
    if tags.len() > MAX_TAGS {
        return wrong("tags", &format!("at most {MAX_TAGS} are kept"));
    }
    for (key, value) in tags {
        let is_key = !key.is_empty()
            && key.len() <= 256
            && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_key {
            return wrong(&format!("tags.{key}"), "keys are small letters, digits and underscores");
        }
        if value.chars().count() > 256 {
            return wrong(&format!("tags.{key}"), "values have at most 256 characters");
        }
    }
    Ok(())
}

fn wrong<T>(member: &str, why: &str) -> Result<T, Wrong> {
    Err((member.to_owned(), why.to_owned()))
}

/// Null, false, and lists and objects that hold nothing but such.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_nothing),
        Value::Object(members) => members.values().all(is_nothing),
    }
}

#[cfg(test)]
mod tests {
    use openhands_protocol::ConversationId;
    use serde_json::{Map, json};

    use super::*;

    fn request(agent: Value, extra: Value) -> NewConversation {
        let mut whole = json!({"llm": {"model": "openai/m"}});
        whole.as_object_mut().unwrap().extend(agent.as_object().unwrap().clone());
        NewConversation {
            extra: extra.as_object().unwrap().clone(),
            ..NewConversation::new(ConversationId::random(), AgentSpec::from_json(whole).unwrap(), Value::Null)
        }
    }

    fn refused(agent: Value, extra: Value, member: &str) {
        assert_eq!(check(&request(agent, extra)).unwrap_err().0, member);
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        refused(json!({"kind": "ACPAgent"}), json!({}), "agent.kind");
        refused(json!({"mcp_config": {"a": {}}}), json!({}), "agent.mcp_config");
        refused(json!({"critic": {"kind": "X"}}), json!({}), "agent.critic");
        refused(json!({"llm": {"model": " "}}), json!({}), "agent.llm.model");
        refused(json!({}), json!({"plugins": [{"source": "x"}]}), "plugins");
        refused(json!({}), json!({"worktree": true}), "worktree");
        refused(json!({}), json!({"conversation_runtime": "docker"}), "conversation_runtime");
        let hooks = NewConversation { hook_config: Some(json!({"stop": [{"x": 1}]})), ..request(json!({}), json!({})) };
        assert_eq!(check(&hooks).unwrap_err().0, "hook_config");
        let analyzer = SecurityAnalyzer { kind: "GraySwanAnalyzer".to_owned(), settings: Map::new() };
        let analyzer = NewConversation { security_analyzer: Some(analyzer), ..request(json!({}), json!({})) };
        assert_eq!(check(&analyzer).unwrap_err().0, "security_analyzer.kind");
        let tags = NewConversation {
            tags: BTreeMap::from([("Upper".to_owned(), String::new())]),
            ..request(json!({}), json!({}))
        };
        assert_eq!(check(&tags).unwrap_err().0, "tags.Upper");
    }

    #[test]
    fn what_the_client_always_sends_is_accepted() {
        let new = NewConversation {
            hook_config: Some(json!({"stop": []})),
            ..request(
                json!({"mcp_config": {}, "critic": null, "condenser": null, "agent_context": null}),
                json!({"plugins": null, "agent_definitions": [], "worktree": false, "observability_tags": []}),
            )
        };
        assert_eq!(check(&new), Ok(vec![]));
    }

    #[test]
    fn what_works_without_is_kept_and_named() {
        let new = request(
            json!({"condenser": {"kind": "NoOpCondenser"}, "agent_context": {"skills": [{"name": "s"}],
                "load_public_skills": false, "marketplace_path": "m"}}),
            json!({"agent_definitions": [{"name": "a"}]}),
        );
        assert_eq!(check(&new), Ok(vec!["agent.agent_context.skills".to_owned(), "agent_definitions".to_owned()]));
    }
}
