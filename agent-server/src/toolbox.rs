//! The tools and models of this server, in the shape that conversations ask for them.

use std::{collections::BTreeMap, sync::Arc};

use openhands_conversation::{LlmFactory, ToolRequest, Toolbox};
use openhands_subscription::Subscription;
use openhands_tools::{Registry, Tool, ToolSetup};

/// The names an agent may give in `tools`.
pub const TOOL_NAMES: [&str; 7] =
    ["apply_patch", "file_editor", "finish", "switch_llm", "task_tracker", "terminal", "think"];

/// The built-in tools.
pub struct StockTools(Registry);

impl Default for StockTools {
    fn default() -> Self {
        Self(Registry::stock())
    }
}

impl Toolbox for StockTools {
    fn build(&self, request: &ToolRequest<'_>) -> Result<Vec<Arc<dyn Tool>>, String> {
        let setup = ToolSetup {
            working_dir: request.working_dir.to_owned(),
            persistence_dir: Some(request.conversation_dir.to_owned()),
            profiles: saved_profiles(request),
            ..ToolSetup::default()
        };
        self.0.build(request.tools, request.include_default_tools, &setup).map_err(|error| error.to_string())
    }
}

/// The names that the tool for changing models lists; read only for an agent that has it.
fn saved_profiles(request: &ToolRequest<'_>) -> Vec<String> {
    let changes_models = |name: &str| name == "switch_llm" || name == "SwitchLLMTool";
    let has_tool = request.tools.iter().any(|tool| changes_models(&tool.name))
        || request.include_default_tools.iter().any(|name| changes_models(name));
    request.profiles.filter(|_| has_tool).map(|profiles| profiles.names()).unwrap_or_default()
}

/// Makes model clients. Keys that a model's configuration leaves out are looked up in this process's environment and in
/// `variables`, which win.
pub fn models(variables: &BTreeMap<String, String>) -> LlmFactory {
    let mut environment: openhands_llm::Environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    environment.extend(variables.clone());
    Arc::new(move |config, options| openhands_llm::client_with(config, &environment, options))
}

/// The same with the tokens of a plan, for the models that it pays for and no others.
pub fn with_plan(models: LlmFactory, subscription: &Subscription) -> LlmFactory {
    let tokens = subscription.tokens();
    Arc::new(move |config, options| {
        let mut options = options.clone();
        options.credentials.get_or_insert_with(|| Arc::clone(&tokens));
        models(config, &options)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listed_names_are_the_registered_ones() {
        assert_eq!(Registry::stock().names().collect::<Vec<_>>(), TOOL_NAMES);
    }
}
