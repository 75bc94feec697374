//! Parts of the agent that settings describe, in the form that a start request has.

use openhands_protocol::{LlmConfig, agent::ToolRef};
use serde_json::{Map, Value, json};

use crate::llm::{self, Show};

/// Tools that are classes of their own instead of names, as settings may spell them.
const BUILT_IN: [(&str, &str); 4] = [
    ("finish", "FinishTool"),
    ("think", "ThinkTool"),
    ("switch_llm", "SwitchLLMTool"),
    ("invoke_skill", "InvokeSkillTool"),
];

/// The tools by name and the built-in ones by class. Without a list of their own, settings mean the stock tools.
pub(super) fn tools(listed: Option<Vec<ToolRef>>) -> (Vec<ToolRef>, Vec<String>) {
    let named = |name: &str| ToolRef { name: name.to_owned(), params: Map::new() };
    let listed = listed.unwrap_or_else(|| ["terminal", "file_editor", "task_tracker", "switch_llm"].map(named).into());
    let mut built_in = vec!["FinishTool".to_owned(), "ThinkTool".to_owned()];
    let mut tools: Vec<ToolRef> = Vec::new();
    for tool in listed {
        let class = BUILT_IN.iter().find(|(name, class)| tool.name == *name || tool.name == *class);
        match class {
            Some((_, class)) if !built_in.iter().any(|known| known == class) => built_in.push((*class).to_owned()),
            Some(_) => {}
            None if tools.iter().any(|known| known.name == tool.name) => {}
            None => tools.push(tool),
        }
    }
    (tools, built_in)
}

/// The condenser in the form that an agent has, with the agent's model under a usage id of its own.
pub(super) fn condenser_of(settings: &Value, config: &LlmConfig) -> Value {
    if settings.get("enabled") == Some(&Value::Bool(false)) {
        return Value::Null;
    }
    let mut condenser = settings.as_object().cloned().unwrap_or_default();
    condenser.retain(|name, value| !matches!(name.as_str(), "enabled" | "condenser_kind") && !value.is_null());
    if settings.get("condenser_kind").and_then(Value::as_str) == Some("no_op") {
        return json!({"kind": "NoOpCondenser"});
    }
    let own = LlmConfig { usage_id: "condenser".to_owned(), ..config.clone() };
    condenser.insert("kind".to_owned(), "LLMSummarizingCondenser".into());
    condenser.insert("llm".to_owned(), llm::to_json(&own, Show::Plain));
    Value::Object(condenser)
}
