//! One client over several models: a router chooses for each call (F1-REG-02, F2-ROUT rows).
//!
//! The two routers of the reference are here; own ones implement [`Router`]. On the wire of the reference a router loses its models
//! (its own server receives a plain model called `router`), so `llm.router_name` and `llm.llms_for_routing` are an addition.

use std::sync::Arc;

use async_trait::async_trait;
use openhands_protocol::{Content, LlmConfig};
use rand::RngExt as _;
use tokio_util::sync::CancellationToken;

use crate::{DeltaSink, LlmClient, LlmError, LlmRequest, LlmResponse, count::Counter, models::Abilities};

/// The name of [`MultimodalRouter`] in `llm.router_name`.
const MULTIMODAL: &str = "multimodal_router";
/// The name of [`RandomRouter`] in `llm.router_name`.
const RANDOM: &str = "random_router";
/// More models than this are a mistake.
const MODELS_LIMIT: usize = 32;

/// Chooses a model for each call.
pub trait Router: Send + Sync {
    /// Its name, for logs and errors.
    fn name(&self) -> &str;

    /// Whether it can choose among these models at all.
    ///
    /// # Errors
    /// A text that names the model that is missing.
    fn check(&self, _models: &RoutedModels) -> Result<(), String> {
        Ok(())
    }

    /// The name of the model that answers this request.
    fn select(&self, request: &LlmRequest, models: &RoutedModels) -> String;
}

/// The models of a router, by name, in the order in which they were configured. Never empty.
pub struct RoutedModels(Vec<(String, RoutedModel)>);

/// One of a router's models.
pub struct RoutedModel {
    config: LlmConfig,
    client: Arc<dyn LlmClient>,
    counter: Counter,
    input_limit: Option<u64>,
}

impl RoutedModel {
    /// A model's configuration with its client.
    #[must_use]
    pub fn new(config: LlmConfig, client: Arc<dyn LlmClient>) -> Self {
        let window = Abilities::of(&config).context_window;
        Self { counter: Counter::of(&config), input_limit: (window > 0).then_some(window), config, client }
    }

    /// Its configuration.
    #[must_use]
    pub const fn config(&self) -> &LlmConfig {
        &self.config
    }

    /// The longest prompt, tokens: configured, else what the table knows.
    #[must_use]
    pub const fn input_limit(&self) -> Option<u64> {
        self.input_limit
    }

    /// Whether the request is longer than its input limit.
    #[must_use]
    pub fn is_too_small_for(&self, request: &LlmRequest) -> bool {
        self.input_limit.is_some_and(|limit| self.counter.exceeds(request, limit))
    }
}

impl RoutedModels {
    /// The model of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RoutedModel> {
        self.iter().find(|(known, _)| *known == name).map(|(_, model)| model)
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &RoutedModel)> {
        self.0.iter().map(|(name, model)| (name.as_str(), model))
    }
}

/// A router with its models: a client like any other.
pub struct Routed {
    router: Box<dyn Router>,
    models: RoutedModels,
}

impl Routed {
    /// `router` over `models`.
    ///
    /// # Errors
    /// [`LlmError::BadRequest`] when there are no models, too many, two of one name, or not those that the router needs.
    pub fn new(router: Box<dyn Router>, models: Vec<(String, RoutedModel)>) -> Result<Self, LlmError> {
        let wrong = |text: String| Err(LlmError::BadRequest(format!("llm.llms_for_routing {text}")));
        if models.is_empty() {
            return wrong(format!("is empty, {} needs at least one model", router.name()));
        }
        if models.len() > MODELS_LIMIT {
            return wrong(format!("has {} models, at most {MODELS_LIMIT} are routed to", models.len()));
        }
        if let Some((name, _)) = models
            .iter()
            .enumerate()
            .find(|(at, (name, _))| models.iter().take(*at).any(|(other, _)| other == name))
            .map(|(_, model)| model)
        {
            return wrong(format!("has two models called {name:?}"));
        }
        let models = RoutedModels(models);
        match router.check(&models) {
            Ok(()) => Ok(Self { router, models }),
            Err(text) => wrong(text),
        }
    }

    fn chosen(&self, request: &LlmRequest) -> Result<(&str, &RoutedModel), LlmError> {
        let name = self.router.select(request, &self.models);
        self.models.iter().find(|(known, _)| *known == name).ok_or_else(|| {
            let known: Vec<_> = self.models.iter().map(|(name, _)| name).collect();
            LlmError::BadRequest(format!(
                "{} chose the model {name:?}, which is not in llm.llms_for_routing; there are: {}",
                self.router.name(),
                known.join(", ")
            ))
        })
    }
}

#[async_trait]
impl LlmClient for Routed {
    async fn complete(
        &self,
        request: &LlmRequest,
        deltas: Option<DeltaSink<'_>>,
        cancel: &CancellationToken,
    ) -> Result<LlmResponse, LlmError> {
        let (name, model) = self.chosen(request)?;
        tracing::debug!(router = self.router.name(), chosen = name, model = model.config.model, "a model was chosen");
        let mut response = model.client.complete(request, deltas, cancel).await?;
        // Statistics belong to the slot of the model that answered (F2-ROUT-04).
        response.usage_id.get_or_insert_with(|| model.config.usage_id.clone());
        Ok(response)
    }
}

/// The router that a configuration names.
pub(crate) fn named(name: Option<&str>) -> Result<Box<dyn Router>, LlmError> {
    match name {
        Some(MULTIMODAL) => Ok(Box::new(MultimodalRouter)),
        Some(RANDOM) => Ok(Box::new(RandomRouter)),
        Some(other) => {
            Err(LlmError::NotSupported(format!("llm.router_name {other:?}; there are {MULTIMODAL:?} and {RANDOM:?}")))
        }
        None => Err(LlmError::BadRequest(format!(
            "llm.llms_for_routing is set, llm.router_name is not: set it to {MULTIMODAL:?} or {RANDOM:?}"
        ))),
    }
}

/// Images go to `primary`, and what is too long for `secondary`; everything else goes to `secondary`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MultimodalRouter;

impl MultimodalRouter {
    /// The model that sees.
    pub const PRIMARY: &str = "primary";
    /// The cheaper model.
    pub const SECONDARY: &str = "secondary";
}

impl Router for MultimodalRouter {
    fn name(&self) -> &str {
        MULTIMODAL
    }

    fn check(&self, models: &RoutedModels) -> Result<(), String> {
        [Self::PRIMARY, Self::SECONDARY]
            .into_iter()
            .find(|name| models.get(name).is_none())
            .map_or(Ok(()), |missing| Err(format!("has no model called {missing:?}, which {MULTIMODAL} needs")))
    }

    fn select(&self, request: &LlmRequest, models: &RoutedModels) -> String {
        let mut parts = request.messages.iter().flat_map(|message| &message.content);
        let has_image = parts.any(|part| matches!(part, Content::Image { .. }));
        let is_too_long = || models.get(Self::SECONDARY).is_some_and(|model| model.is_too_small_for(request));
        if has_image || is_too_long() { Self::PRIMARY } else { Self::SECONDARY }.to_owned()
    }
}

/// Any of the models, each as likely as the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomRouter;

impl Router for RandomRouter {
    fn name(&self) -> &str {
        RANDOM
    }

    fn select(&self, _request: &LlmRequest, models: &RoutedModels) -> String {
        let at = rand::rng().random_range(0..models.iter().len().max(1));
        models.iter().nth(at).map(|(name, _)| name.to_owned()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
