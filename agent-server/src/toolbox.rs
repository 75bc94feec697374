//! The tools and models of this server, in the shape that conversations ask for them.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use openhands_conversation::{LlmFactory, ToolRequest, Toolbox};
use openhands_protocol::secret::SecretText;
use openhands_subscription::Subscription;
use openhands_tools::{Registry, Tool, ToolSetup};

/// The names an agent may give in `tools`.
pub const TOOL_NAMES: [&str; 7] =
    ["apply_patch", "file_editor", "finish", "switch_llm", "task_tracker", "terminal", "think"];

/// The built-in tools.
pub struct StockTools {
    registry: Registry,
    /// Its tokens lie where tools can read them.
    plan: Option<Subscription>,
}

impl StockTools {
    /// Tools beside the tokens of a plan, which are hidden in what they print.
    #[must_use]
    pub fn beside(plan: Subscription) -> Self {
        Self { plan: Some(plan), ..Self::default() }
    }
}

impl Default for StockTools {
    fn default() -> Self {
        Self { registry: Registry::stock(), plan: None }
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
        self.registry.build(request.tools, request.include_default_tools, &setup).map_err(|error| error.to_string())
    }

    fn fresh_keys(&self) -> BoxFuture<'static, Vec<SecretText>> {
        let Some(plan) = self.plan.clone() else { return Box::pin(std::future::ready(Vec::new())) };
        Box::pin(async move {
            // What cannot be read cannot be printed either.
            let stored = plan.stored().await.ok().flatten();
            stored.into_iter().flat_map(|stored| [stored.access_token, stored.refresh_token]).collect()
        })
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
