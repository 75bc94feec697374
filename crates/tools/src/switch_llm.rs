//! The tool by which an agent changes to another saved model. The change itself is the conversation's: see [`ModelSwitch`].

mod spec;

use async_trait::async_trait;
use openhands_protocol::tool::ToolSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{InvalidArguments, Observation, Tool, ToolContext, ToolError, arguments, observation};

/// Why the conversation keeps its model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SwitchRefused(pub String);

/// The conversation, as far as it can change its model.
#[async_trait]
pub trait ModelSwitch: Send + Sync {
    /// Changes to the saved profile and returns the name of its model. The next model call uses it; one that is under way
    /// does not.
    ///
    /// # Errors
    /// [`SwitchRefused`] with a text for the model that asked; it names the profiles there are when the name is unknown.
    async fn switch_profile(&self, name: &str) -> Result<String, SwitchRefused>;
}

/// Changes the conversation's model to a saved profile (F2-PROF-10, F2-PROF-14r).
pub struct SwitchLlmTool {
    spec: ToolSpec,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchLlmAction {
    profile_name: String,
    reason: String,
}

impl SwitchLlmTool {
    /// The tool, described with the profiles there are now.
    #[must_use]
    pub fn new(profiles: &[String]) -> Self {
        Self { spec: spec::spec(profiles) }
    }
}

#[async_trait]
impl Tool for SwitchLlmTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn action(&self, arguments: Value) -> Result<Value, InvalidArguments> {
        let action: SwitchLlmAction = arguments::read(&self.spec, arguments)?;
        arguments::tagged(&self.spec.action_kind, &action)
    }

    async fn run(&self, action: &Value, context: &ToolContext) -> Result<Observation, ToolError> {
        let SwitchLlmAction { profile_name, reason } = arguments::stored(action)?;
        let switched = match &context.models {
            Some(models) => tokio::select! {
                switched = models.switch_profile(&profile_name) => switched,
                () = context.cancel.cancelled() => Err(SwitchRefused("The change was interrupted.".to_owned())),
            },
            None => Err(SwitchRefused("This conversation cannot change its model.".to_owned())),
        };
        let (text, active_model) = match &switched {
            Ok(model) => {
                (format!("The profile '{profile_name}' is active: {model} answers from the next step on."), Some(model))
            }
            Err(refused) => (refused.to_string(), None),
        };
        let members = json!({"profile_name": profile_name, "reason": reason, "active_model": active_model});
        Ok(observation::text(&self.spec.observation_kind, text, switched.is_err(), members))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::NoSecrets;

    struct OnlyFast;

    #[async_trait]
    impl ModelSwitch for OnlyFast {
        async fn switch_profile(&self, name: &str) -> Result<String, SwitchRefused> {
            if name == "fast" {
                Ok("openai/fast".to_owned())
            } else {
                Err(SwitchRefused("there is only fast".to_owned()))
            }
        }
    }

    async fn run(name: &str, models: Option<Arc<dyn ModelSwitch>>) -> Value {
        let tool = SwitchLlmTool::new(&["fast".to_owned()]);
        let action = tool.action(json!({"profile_name": name, "reason": "cheaper"})).unwrap();
        assert_eq!(action, json!({"kind": "SwitchLLMAction", "profile_name": name, "reason": "cheaper"}));
        let context = ToolContext {
            working_dir: PathBuf::new(),
            observations_dir: None,
            environment: BTreeMap::new(),
            cancel: CancellationToken::new(),
            secrets: Arc::new(NoSecrets),
            models,
        };
        tool.run(&action, &context).await.unwrap().body
    }

    fn observation(text: &str, is_error: bool, name: &str, model: Option<&str>) -> Value {
        let mut body = json!({
            "kind": "SwitchLLMObservation", "content": [{"cache_prompt": false, "type": "text", "text": text}],
            "is_error": is_error, "profile_name": name, "reason": "cheaper",
        });
        if let Some(model) = model {
            body["active_model"] = json!(model);
        }
        body
    }

    #[tokio::test]
    async fn tells_what_became_of_it() {
        assert_eq!(
            run("fast", Some(Arc::new(OnlyFast))).await,
            observation(
                "The profile 'fast' is active: openai/fast answers from the next step on.",
                false,
                "fast",
                Some("openai/fast")
            )
        );
        assert_eq!(run("slow", Some(Arc::new(OnlyFast))).await, observation("there is only fast", true, "slow", None));
        assert_eq!(
            run("fast", None).await,
            observation("This conversation cannot change its model.", true, "fast", None)
        );
    }

    #[test]
    fn both_arguments_are_required_and_profiles_are_listed() {
        let tool = SwitchLlmTool::new(&["fast".to_owned(), "deep".to_owned()]);
        assert!(tool.spec().description.contains("\n- fast\n- deep\n"), "{}", tool.spec().description);
        assert!(tool.action(json!({"profile_name": "fast"})).is_err());
        assert!(SwitchLlmTool::new(&[]).spec().description.contains("no saved profile"));
    }
}
