//! Models by usage id, each with what it has spent (F1-REG-01, F2-REG rows).

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use indexmap::IndexMap;
use openhands_protocol::{LlmConfig, metrics::Metrics};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{DeltaSink, LlmClient, LlmError, LlmRequest, LlmResponse};

/// Slots of one registry: far more than a conversation has.
const SLOTS_LIMIT: usize = 256;

/// A model in use: configuration, client, and the metrics of its calls. Clones share the metrics, as copies of a model do in the
/// reference, until [`Slot::reset_metrics`] or a registry parts them.
#[derive(Clone)]
pub struct Slot {
    config: Arc<LlmConfig>,
    client: Arc<dyn LlmClient>,
    metrics: Arc<Mutex<Metrics>>,
}

impl Slot {
    /// A model that has spent nothing.
    #[must_use]
    pub fn new(config: LlmConfig, client: Arc<dyn LlmClient>) -> Self {
        let metrics = Arc::new(Mutex::new(Metrics::new(&config.model)));
        Self { config: Arc::new(config), client, metrics }
    }

    /// The model's configuration.
    #[must_use]
    pub fn config(&self) -> &LlmConfig {
        &self.config
    }

    /// The slot's name in statistics.
    #[must_use]
    pub fn usage_id(&self) -> &str {
        &self.config.usage_id
    }

    /// What was spent so far.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins with nothing spent, apart from all clones (F1-LLM-42).
    pub fn reset_metrics(&mut self) {
        self.metrics = Arc::new(Mutex::new(Metrics::new(&self.config.model)));
    }

    /// Goes on with metrics that were stored, apart from all clones (F2-METR-17r).
    pub fn restore_metrics(&mut self, metrics: Metrics) {
        self.metrics = Arc::new(Mutex::new(metrics));
    }

    /// One call, counted. Without a receiver for deltas the answer comes whole, whatever `llm.stream` says (F2-STRM-07r).
    ///
    /// # Errors
    /// As [`LlmClient::complete`]; a failed call is not counted.
    pub async fn complete(
        &self,
        request: &LlmRequest,
        deltas: Option<DeltaSink<'_>>,
        cancel: &CancellationToken,
    ) -> Result<LlmResponse, LlmError> {
        if self.config.stream && deltas.is_none() {
            tracing::debug!(model = self.config.model, "llm.stream is set and nobody listens, the answer comes whole");
        }
        let began = Instant::now();
        let response = self.client.complete(request, deltas, cancel).await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let mut metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let (usage, seconds) = (response.usage.clone(), began.elapsed().as_secs_f64());
        if let Err(error) = metrics.add_call(usage, response.cost, seconds, now) {
            tracing::warn!(model = self.config.model, %error, "a call was not counted");
        }
        Ok(response)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Slot").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Told about every slot that is added.
pub type Subscriber = Box<dyn Fn(&Slot) + Send + Sync>;

/// What a registry refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The usage id is taken.
    #[error("usage id {0:?} is taken: give the model another llm.usage_id, or get the one that is there")]
    Taken(String),
    /// Nothing has that usage id.
    #[error("usage id {usage_id:?} is not registered; there are: {known}")]
    Unknown {
        /// What was asked for.
        usage_id: String,
        /// What is there.
        known: String,
    },
    /// No room for more.
    #[error("a registry holds at most {SLOTS_LIMIT} models, remove one first")]
    Full,
}

/// The models of one owner, such as a conversation.
pub struct LlmRegistry {
    id: Uuid,
    slots: IndexMap<String, Slot>,
    subscriber: Option<Subscriber>,
}

impl Default for LlmRegistry {
    fn default() -> Self {
        Self { id: Uuid::new_v4(), slots: IndexMap::new(), subscriber: None }
    }
}

impl fmt::Debug for LlmRegistry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.list_usage_ids().collect();
        formatter.debug_struct("LlmRegistry").field("id", &self.id).field("usage_ids", &ids).finish_non_exhaustive()
    }
}

impl LlmRegistry {
    /// Tells this registry from others in logs.
    #[must_use]
    pub const fn id(&self) -> Uuid {
        self.id
    }

    /// Who is told about slots from now on; replaces an earlier subscriber. A conversation hangs its statistics in here, so that
    /// whatever is added is counted there (F2-REG-04).
    pub fn subscribe(&mut self, subscriber: Subscriber) {
        self.subscriber = Some(subscriber);
    }

    /// Tells the subscriber about a slot.
    pub fn notify(&self, slot: &Slot) {
        if let Some(subscriber) = &self.subscriber {
            subscriber(slot);
        }
    }

    /// Takes a slot in under its usage id. One that shares its metrics with another, because it is a clone of it, gets its own.
    ///
    /// # Errors
    /// [`RegistryError::Taken`], [`RegistryError::Full`].
    pub fn add(&mut self, mut slot: Slot) -> Result<&Slot, RegistryError> {
        let usage_id = slot.usage_id().to_owned();
        if self.slots.contains_key(&usage_id) {
            return Err(RegistryError::Taken(usage_id));
        }
        if self.slots.len() >= SLOTS_LIMIT {
            return Err(RegistryError::Full);
        }
        if self.slots.values().any(|known| Arc::ptr_eq(&known.metrics, &slot.metrics)) {
            tracing::debug!(registry = %self.id, usage_id, "metrics were shared with another model and begin anew");
            slot.reset_metrics();
        }
        self.notify(&slot);
        Ok(self.slots.entry(usage_id).or_insert(slot))
    }

    /// The slot of a usage id.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`] names those that are there.
    pub fn get(&self, usage_id: &str) -> Result<&Slot, RegistryError> {
        self.slots.get(usage_id).ok_or_else(|| RegistryError::Unknown {
            usage_id: usage_id.to_owned(),
            known: self.list_usage_ids().collect::<Vec<_>>().join(", "),
        })
    }

    /// The slot of a usage id, to reset or restore its metrics.
    pub fn get_mut(&mut self, usage_id: &str) -> Option<&mut Slot> {
        self.slots.get_mut(usage_id)
    }

    /// Lets a slot go; nothing happens when there is none.
    pub fn remove(&mut self, usage_id: &str) -> Option<Slot> {
        self.slots.shift_remove(usage_id)
    }

    /// All usage ids, in the order in which they came.
    pub fn list_usage_ids(&self) -> impl Iterator<Item = &str> {
        self.slots.keys().map(String::as_str)
    }

    /// All slots by usage id.
    #[must_use]
    pub const fn slots(&self) -> &IndexMap<String, Slot> {
        &self.slots
    }
}

#[cfg(test)]
mod tests;
