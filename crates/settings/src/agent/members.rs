//! The members of agent settings: their defaults and their limits.

use openhands_protocol::{LlmConfig, agent::ToolRef, time};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{error::Invalid, lenient, llm};

/// The version of agent settings that is written.
pub(super) const VERSION: u64 = 9;
const LONGEST_PERSONA: usize = 65_536;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Members {
    pub(super) schema_version: u64,
    pub(super) agent_kind: String,
    pub(super) agent: String,
    pub(super) llm: LlmConfig,
    pub(super) tools: Option<Vec<ToolRef>>,
    pub(super) enable_classify_and_switch_llm_tool: bool,
    pub(super) active_meta_profile: Option<String>,
    pub(super) meta_profile: Option<Map<String, Value>>,
    pub(super) meta_profile_llms: Map<String, Value>,
    pub(super) tool_concurrency_limit: u32,
    pub(super) mcp_config: Map<String, Value>,
    pub(super) persona: Option<String>,
    pub(super) agent_context: Context,
    pub(super) condenser: Value,
    pub(super) verification: Verification,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

impl Default for Members {
    fn default() -> Self {
        Self {
            schema_version: VERSION,
            agent_kind: "openhands".to_owned(),
            agent: "CodeActAgent".to_owned(),
            llm: LlmConfig::default(),
            tools: None,
            enable_classify_and_switch_llm_tool: false,
            active_meta_profile: None,
            meta_profile: None,
            meta_profile_llms: Map::new(),
            tool_concurrency_limit: 1,
            mcp_config: Map::new(),
            persona: None,
            agent_context: Context::default(),
            condenser: json!({}),
            verification: Verification::default(),
            extra: Map::new(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Context {
    pub(super) skills: Vec<Value>,
    pub(super) system_message_suffix: Option<String>,
    pub(super) user_message_suffix: Option<String>,
    pub(super) load_user_skills: bool,
    pub(super) load_public_skills: bool,
    pub(super) marketplace_path: Option<String>,
    pub(super) registered_marketplaces: Vec<Value>,
    pub(super) load_project_skills: bool,
    pub(super) load_memory: bool,
    pub(super) disabled_skills: Vec<String>,
    pub(super) secrets: Option<Map<String, Value>>,
    pub(super) current_datetime: Option<String>,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            skills: Vec::new(),
            system_message_suffix: None,
            user_message_suffix: None,
            load_user_skills: false,
            load_public_skills: false,
            marketplace_path: Some("marketplaces/default.json".to_owned()),
            registered_marketplaces: Vec::new(),
            load_project_skills: false,
            load_memory: false,
            disabled_skills: Vec::new(),
            secrets: None,
            current_datetime: Some(time::utc_now()),
            extra: Map::new(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Summarizing {
    pub(super) condenser_kind: String,
    pub(super) enabled: bool,
    pub(super) max_size: u64,
    pub(super) max_tokens: Option<u64>,
    pub(super) keep_first: u64,
    pub(super) minimum_progress: f64,
    pub(super) hard_context_reset_max_retries: u64,
    pub(super) hard_context_reset_context_scaling: f64,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

impl Default for Summarizing {
    fn default() -> Self {
        Self {
            condenser_kind: "llm_summarizing".to_owned(),
            enabled: true,
            max_size: 240,
            max_tokens: None,
            keep_first: 2,
            minimum_progress: 0.1,
            hard_context_reset_max_retries: 5,
            hard_context_reset_context_scaling: 0.8,
            extra: Map::new(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Unchanging {
    pub(super) condenser_kind: String,
    pub(super) enabled: bool,
}

impl Default for Unchanging {
    fn default() -> Self {
        Self { condenser_kind: "no_op".to_owned(), enabled: true }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Verification {
    pub(super) critic_enabled: bool,
    pub(super) critic_mode: String,
    pub(super) enable_iterative_refinement: bool,
    pub(super) critic_threshold: f64,
    pub(super) max_refinement_iterations: u64,
    pub(super) critic_server_url: Option<String>,
    pub(super) critic_model_name: Option<String>,
    pub(super) critic_api_key: Option<String>,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

impl Default for Verification {
    fn default() -> Self {
        Self {
            critic_enabled: false,
            critic_mode: "finish_and_message".to_owned(),
            enable_iterative_refinement: false,
            critic_threshold: 0.6,
            max_refinement_iterations: 3,
            critic_server_url: None,
            critic_model_name: None,
            critic_api_key: None,
            extra: Map::new(),
        }
    }
}

/// Reads a condenser of either kind; absent members get their defaults.
pub(super) fn condenser(json: Value) -> Result<Value, Invalid> {
    let kind = json.get("condenser_kind").and_then(Value::as_str).unwrap_or("llm_summarizing").to_owned();
    let wrong = |error: Invalid| error.below("condenser");
    match kind.as_str() {
        "no_op" => {
            let condenser: Unchanging = lenient::read(&json).map_err(wrong)?;
            Ok(json!(condenser))
        }
        "llm_summarizing" => {
            let condenser: Summarizing = lenient::read(&json).map_err(wrong)?;
            let fraction = |value: f64| value > 0.0 && value < 1.0;
            for (member, fits, reason) in [
                ("max_size", condenser.max_size >= 20, "must be 20 or more"),
                ("max_tokens", condenser.max_tokens != Some(0), "must be 1 or more"),
                ("minimum_progress", fraction(condenser.minimum_progress), "must be between 0 and 1"),
                ("hard_context_reset_max_retries", condenser.hard_context_reset_max_retries > 0, "must be 1 or more"),
                (
                    "hard_context_reset_context_scaling",
                    fraction(condenser.hard_context_reset_context_scaling),
                    "must be between 0 and 1",
                ),
            ] {
                if !fits {
                    return Err(Invalid::new(member, reason).below("condenser"));
                }
            }
            Ok(json!(condenser))
        }
        _ => Err(Invalid::new("condenser.condenser_kind", "must be one of llm_summarizing, no_op")),
    }
}

/// What the types cannot say. Servers of MCP are switched on unless they say otherwise.
pub(super) fn check(members: &mut Members) -> Result<(), Invalid> {
    llm::read(serde_json::to_value(&members.llm).unwrap_or_default()).map_err(|error| error.below("llm"))?;
    for (name, config) in &members.meta_profile_llms {
        llm::read(config.clone()).map_err(|error| error.below(name).below("meta_profile_llms"))?;
    }
    for (name, server) in &mut members.mcp_config {
        let wrong = |reason: &str| Invalid::new("", reason).below(name).below("mcp_config");
        let server = server.as_object_mut().ok_or_else(|| wrong("expected an object"))?;
        let given = |member: &str| server.get(member).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        if given("url") == given("command") {
            return Err(wrong("give either url or command"));
        }
        server.entry("enabled").or_insert(true.into());
    }
    let verification = &members.verification;
    for (member, fits, reason) in [
        ("tool_concurrency_limit", members.tool_concurrency_limit > 0, "must be 1 or more"),
        (
            "persona",
            members.persona.as_ref().is_none_or(|text| (1..=LONGEST_PERSONA).contains(&text.chars().count())),
            "must have 1 to 65536 characters",
        ),
        (
            "verification.critic_mode",
            matches!(verification.critic_mode.as_str(), "finish_and_message" | "all_actions"),
            "must be one of finish_and_message, all_actions",
        ),
        (
            "verification.critic_threshold",
            (0.0..=1.0).contains(&verification.critic_threshold),
            "must be between 0 and 1",
        ),
        ("verification.max_refinement_iterations", verification.max_refinement_iterations > 0, "must be 1 or more"),
    ] {
        if !fits {
            return Err(Invalid::new(member, reason));
        }
    }
    Ok(())
}
