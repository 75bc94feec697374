//! The tools of one conversation: made once, offered to the model, found by name.

use std::{path::Path, sync::Arc};

use openhands_agent::{Refusal, Toolset, offered_parameters};
use openhands_llm::OfferedTool;
use openhands_protocol::{AgentSpec, tool::ToolSpec};
use openhands_secrets::SecretRegistry;
use openhands_tools::{SecretLookup, Tool, keep_matching};
use serde_json::Value;

use crate::{
    client_tool::{self, ClientTool},
    environment::{Environment, ToolRequest},
};

/// Tools in the order in which the model sees them. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Tools(Arc<Vec<Arc<dyn Tool>>>);

/// Which member of the start request is wrong, and why.
pub(crate) type Wrong = (String, String);

impl Tools {
    /// Makes the agent's tools and the client's.
    pub(crate) fn make(
        env: &Environment,
        agent: &AgentSpec,
        client_tools: &[Value],
        working_dir: &Path,
        conversation_dir: &Path,
    ) -> Result<Self, Wrong> {
        let members = agent.members();
        let request = ToolRequest {
            tools: &members.tools,
            include_default_tools: &members.include_default_tools,
            working_dir,
            conversation_dir,
            profiles: env.profiles.as_deref(),
        };
        let mut tools = env.tools.build(&request).map_err(|why| ("agent.tools".to_owned(), why))?;
        for (index, json) in client_tools.iter().enumerate() {
            let tool = ClientTool::read(json).map_err(|why| (format!("client_tools.{index}"), why))?;
            let name = &tool.spec().name;
            if tools.iter().any(|other| other.spec().name == *name) {
                return Err((format!("client_tools.{index}"), format!("there is another tool called {name:?}")));
            }
            tools.push(tool);
        }
        let tools = keep_matching(tools, members.filter_tools_regex.as_deref())
            .map_err(|error| ("agent.filter_tools_regex".to_owned(), error.to_string()))?;
        Ok(Self(Arc::new(tools)))
    }

    /// The tools as the model is told about them.
    pub(crate) fn offered(&self) -> Vec<OfferedTool> {
        self.0
            .iter()
            .map(|tool| {
                let spec = tool.spec();
                OfferedTool {
                    name: spec.name.clone(),
                    description: spec.description.clone(),
                    parameters: offered_parameters(spec),
                }
            })
            .collect()
    }

    /// The tools as a `SystemPromptEvent` lists them.
    pub(crate) fn definitions(&self) -> Vec<Value> {
        self.0.iter().map(|tool| client_tool::definition(tool.spec())).collect()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.iter().find(|tool| tool.spec().name == name)
    }

    /// Ends what the tools started.
    pub(crate) async fn close(&self) {
        futures::future::join_all(self.0.iter().map(|tool| tool.close())).await;
    }
}

impl Toolset for Tools {
    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|tool| tool.spec().name.as_str()).collect()
    }

    fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.find(name).map(|tool| tool.spec())
    }

    fn action(&self, name: &str, arguments: Value) -> Result<Value, Refusal> {
        match self.find(name) {
            Some(tool) => tool.action(arguments).map_err(|error| Refusal(error.0)),
            None => Err(Refusal("there is no such tool".to_owned())),
        }
    }
}

/// The conversation's secrets as tools see them.
pub(crate) struct ToolSecrets(pub(crate) Arc<SecretRegistry>);

impl SecretLookup for ToolSecrets {
    fn mentioned(&self, text: &str) -> Vec<(String, String)> {
        self.0.mentioned(text)
    }

    fn mask(&self, text: &str) -> String {
        self.0.mask(text)
    }
}
