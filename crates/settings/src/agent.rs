//! The settings of an agent, with the reference's names and defaults, and the agent that they describe.

mod members;
mod parts;

use openhands_protocol::LlmConfig;
use openhands_secrets::Cipher;
use serde_json::{Map, Value, json};

use self::members::{Members, Summarizing, VERSION};
use crate::{
    error::{Invalid, SettingsError},
    lenient,
    llm::{self, Show},
    places,
};

/// Members of older versions, dropped when they are read.
const RETIRED: [&str; 2] = ["enable_sub_agents", "enable_switch_llm_tool"];

/// Agent settings whose members all have a value; secrets in clear.
#[derive(Clone, PartialEq)]
pub struct AgentSettings {
    json: Value,
    llm: Option<LlmConfig>,
}

impl std::fmt::Debug for AgentSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentSettings").field("llm", &self.llm).finish_non_exhaustive()
    }
}

impl Default for AgentSettings {
    fn default() -> Self {
        let llm = LlmConfig::default();
        let json = serde_json::to_value(Members { condenser: json!(Summarizing::default()), ..Members::default() });
        Self { json: json.unwrap_or_default(), llm: Some(llm) }
    }
}

impl AgentSettings {
    /// Settings as a client sends them, secrets in clear: absent members get their defaults, everything is checked.
    ///
    /// # Errors
    /// [`SettingsError::Invalid`] names the first member that is wrong, [`SettingsError::NotSupported`] a kind of agent that
    /// this server does not run.
    pub fn from_client(json: Value) -> Result<Self, SettingsError> {
        let members = json.as_object().ok_or_else(|| Invalid::new("", "expected an object"))?;
        if let Some(name) = RETIRED.iter().find(|name| members.contains_key(**name)) {
            return Err(Invalid::new(name, "was removed: list the tool in tools").into());
        }
        match kind_of(members) {
            "openhands" | "llm" => Ok(Self::read(json)?),
            "acp" => Err(SettingsError::NotSupported("agent_kind acp".to_owned())),
            _ => Err(Invalid::new("agent_kind", "must be openhands").into()),
        }
    }

    /// The same for a client that may send tokens of this server instead of secrets. Tokens that belong elsewhere are no secrets.
    ///
    /// # Errors
    /// As [`AgentSettings::from_client`].
    pub fn from_client_sealed(mut json: Value, cipher: Option<&Cipher>) -> Result<Self, SettingsError> {
        places::visit(&mut json, &mut |place, value| {
            let sent = value.as_str().unwrap_or_default();
            *value = place.destination.open(cipher, sent).value().map_or(Value::Null, |text| text.expose().into());
        });
        places::remove_unset(&mut json);
        Self::from_client(json)
    }

    /// Settings as they are stored, of this or an older version, secrets in clear. Settings of agents that this server does not run
    /// are kept as they are.
    ///
    /// # Errors
    /// As [`AgentSettings::from_client`], and for settings of a newer version.
    pub(crate) fn from_stored(mut json: Value) -> Result<Self, Invalid> {
        let members = json.as_object_mut().ok_or_else(|| Invalid::new("", "expected an object"))?;
        match members.get("schema_version").unwrap_or(&Value::Null) {
            Value::Null => {}
            version => match version.as_u64() {
                Some(version) if version <= VERSION => {}
                Some(_) => return Err(Invalid::new("schema_version", "written by a newer version")),
                None => return Err(Invalid::new("schema_version", "expected a whole number")),
            },
        }
        if !matches!(kind_of(members), "openhands" | "llm") {
            return Ok(Self { json, llm: None });
        }
        migrate(members);
        Self::read(json)
    }

    fn read(json: Value) -> Result<Self, Invalid> {
        let mut members: Members = lenient::read(&json)?;
        members.schema_version = VERSION;
        members.agent_kind = "openhands".to_owned();
        members.condenser = members::condenser(members.condenser)?;
        members::check(&mut members)?;
        let config = members.llm.clone();
        let mut normal = serde_json::to_value(&members).unwrap_or_default();
        if let Some(place) = normal.get_mut("llm") {
            *place = llm::to_json(&config, Show::Plain);
        }
        Ok(Self { json: normal, llm: Some(config) })
    }

    /// Which agent they describe: `openhands` or another that this server only keeps.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.json.as_object().map_or("openhands", kind_of)
    }

    /// The model, if this kind of agent has one.
    #[must_use]
    pub const fn llm(&self) -> Option<&LlmConfig> {
        self.llm.as_ref()
    }

    /// The same settings with another model; settings without one stay as they are, and the answer is false.
    pub fn set_llm(&mut self, config: &LlmConfig) -> bool {
        if self.llm.is_none() {
            return false;
        }
        self.llm = Some(config.clone());
        if let Some(place) = self.json.get_mut("llm") {
            *place = llm::to_json(config, Show::Plain);
        }
        true
    }

    /// Names the meta-profile that routes tasks, or none; settings that cannot route stay as they are, and the answer is false.
    pub(crate) fn set_meta_profile(&mut self, name: Option<&str>) -> bool {
        if self.llm.is_none() {
            return false;
        }
        if let Some(members) = self.json.as_object_mut() {
            members.insert("active_meta_profile".to_owned(), json!(name));
            members.insert("enable_classify_and_switch_llm_tool".to_owned(), json!(name.is_some()));
        }
        true
    }

    /// All members, secrets in clear.
    pub(crate) const fn plain(&self) -> &Value {
        &self.json
    }

    /// All members, secrets shown as asked.
    #[must_use]
    pub fn json(&self, show: Show<'_>) -> Value {
        let mut json = self.json.clone();
        places::visit(&mut json, &mut |place, value| {
            if let Value::String(text) = value
                && !text.is_empty()
            {
                *text = show.text(&place.destination, text);
            }
        });
        json
    }

    /// The agent that these settings describe, as a start request has it. `None` for settings of an agent this server does not
    /// run.
    #[must_use]
    pub fn agent(&self) -> Option<Value> {
        let config = self.llm.as_ref()?;
        let members: Members = serde_json::from_value(self.json.clone()).ok()?;
        let (tools, mut built_in) = parts::tools(members.tools);
        if members.enable_classify_and_switch_llm_tool {
            // Not there yet: whoever builds the agent says so by the tool's name.
            built_in.push("ClassifyAndSwitchLLMTool".to_owned());
        }
        let key = members.verification.critic_api_key.is_some() || config.api_key.is_some();
        let critic = (members.verification.critic_enabled && key).then(|| json!({"kind": "APIBasedCritic"}));
        let mut agent = json!({
            "kind": "Agent",
            "llm": llm::to_json(config, Show::Plain),
            "tools": tools,
            "include_default_tools": built_in,
            "mcp_config": members.mcp_config,
            "agent_context": members.agent_context,
            "persona": members.persona,
            "critic": critic,
            "condenser": parts::condenser_of(&members.condenser, config),
            "tool_concurrency_limit": members.tool_concurrency_limit,
        });
        if let Some(members) = agent.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        Some(agent)
    }
}

fn kind_of(members: &Map<String, Value>) -> &str {
    members.get("agent_kind").and_then(Value::as_str).unwrap_or("openhands")
}

/// Takes out what older versions had.
fn migrate(members: &mut Map<String, Value>) {
    for name in RETIRED {
        members.shift_remove(name);
    }
    for (name, retired) in
        [("verification", &["confirmation_mode", "security_analyzer"][..]), ("llm", &["modify_params"])]
    {
        if let Some(below) = members.get_mut(name).and_then(Value::as_object_mut) {
            below.retain(|name, _| !retired.contains(&name.as_str()));
        }
    }
    // Once the servers stood one level further in.
    if let Some(servers) =
        members.get_mut("mcp_config").and_then(|config| config.get_mut("mcpServers")).map(Value::take)
    {
        members.insert("mcp_config".to_owned(), servers);
    }
}

#[cfg(test)]
mod tests;
