//! Other models for a call that the configured one cannot answer for now (F2-FALL rows).
//!
//! Every call begins with the primary. When that has used up its own attempts with an error that may heal, the saved models are
//! asked in their order, each with its own attempts; their own fallbacks stay out of it. When nobody answers, the primary's error
//! is what the caller sees. Does not know where profiles are kept: a look-up is handed in.

use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use openhands_protocol::{LlmConfig, llm::FallbackStrategy};
use tokio_util::sync::CancellationToken;

use crate::{Delta, DeltaSink, LlmClient, LlmError, LlmRequest, LlmResponse};

/// Gives the saved configuration of a name with its secrets in clear, or says why there is none. May read files: it is called
/// where blocking is allowed.
pub type ProfileLookup = Arc<dyn Fn(&str) -> Result<LlmConfig, String> + Send + Sync>;

/// Makes the client of one configuration, without its fallbacks.
pub(crate) type Make = Arc<dyn Fn(&LlmConfig) -> Result<Arc<dyn LlmClient>, LlmError> + Send + Sync>;

/// More names than this are a mistake, or a way to keep a server busy.
const NAMES_LIMIT: usize = 16;
/// A spending limit holds for every model behind it.
const BUDGET: [&str; 2] = ["budget_exceeded", "budget has been exceeded"];

/// A client with others behind it.
pub(crate) struct Fallback {
    primary: Arc<dyn LlmClient>,
    model: String,
    others: Vec<Other>,
    look_up: ProfileLookup,
    make: Make,
}

/// A saved model, made when it is first needed and kept from then on.
struct Other {
    name: String,
    client: RwLock<Option<Arc<dyn LlmClient>>>,
}

impl Fallback {
    /// `strategy` around `primary`, the client of `model`.
    pub(crate) fn new(
        primary: Arc<dyn LlmClient>,
        model: &str,
        strategy: &FallbackStrategy,
        look_up: ProfileLookup,
        make: Make,
    ) -> Result<Self, LlmError> {
        if let Some(place) = &strategy.profile_store_dir {
            return Err(LlmError::NotSupported(format!(
                "llm.fallback_strategy.profile_store_dir {place:?}; leave it out, profiles come from the server's own store"
            )));
        }
        if strategy.fallback_llms.len() > NAMES_LIMIT {
            return Err(LlmError::BadRequest(format!(
                "llm.fallback_strategy.fallback_llms has {} names, at most {NAMES_LIMIT} are tried",
                strategy.fallback_llms.len()
            )));
        }
        let others =
            strategy.fallback_llms.iter().map(|name| Other { name: name.clone(), client: RwLock::new(None) }).collect();
        Ok(Self { primary, model: model.to_owned(), others, look_up, make })
    }

    /// The client of a saved model; `None`, and a line in the log, when it cannot be had. What failed is looked up again with the
    /// next call: profiles get repaired.
    async fn client_of(&self, other: &Other) -> Option<Arc<dyn LlmClient>> {
        let known = other.client.read().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_some() {
            return known;
        }
        let (look_up, make, name) = (Arc::clone(&self.look_up), Arc::clone(&self.make), other.name.clone());
        let made = tokio::task::spawn_blocking(move || {
            let config = look_up(&name)?;
            make(&config).map_err(|error| error.to_string())
        });
        match made.await.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(client) => {
                let mut known = other.client.write().unwrap_or_else(PoisonError::into_inner);
                Some(Arc::clone(known.get_or_insert(client)))
            }
            Err(reason) => {
                tracing::error!(profile = other.name, reason, "a fallback's profile cannot be used and is skipped");
                None
            }
        }
    }
}

#[async_trait]
impl LlmClient for Fallback {
    async fn complete(
        &self,
        request: &LlmRequest,
        deltas: Option<DeltaSink<'_>>,
        cancel: &CancellationToken,
    ) -> Result<LlmResponse, LlmError> {
        let mut pieces = TakenBack { sink: deltas, is_given: false };
        let error = match pieces.ask(&*self.primary, request, cancel).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        if !may_heal(&error) {
            return Err(error);
        }
        for (number, other) in self.others.iter().enumerate() {
            let client = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(LlmError::Cancelled),
                client = self.client_of(other) => client,
            };
            let Some(client) = client else { continue };
            tracing::warn!(
                model = self.model,
                profile = other.name,
                number = number + 1,
                of = self.others.len(),
                code = error.code(),
                "the model cannot answer for now, a fallback is asked"
            );
            match pieces.ask(&*client, request, cancel).await {
                Ok(response) => return Ok(response),
                Err(failure) if matches!(failure, LlmError::Cancelled) || is_over_budget(&failure) => {
                    return Err(failure);
                }
                Err(failure) => {
                    tracing::warn!(profile = other.name, code = failure.code(), "the fallback failed too");
                }
            }
        }
        Err(error)
    }
}

/// Whether another model may do better. A refusal of the request or the key stays one.
fn may_heal(error: &LlmError) -> bool {
    error.is_retryable() && !is_over_budget(error)
}

fn is_over_budget(error: &LlmError) -> bool {
    let LlmError::RateLimit { message, .. } = error else { return false };
    let message = message.to_ascii_lowercase();
    BUDGET.iter().any(|mark| message.contains(mark))
}

/// Pieces of several clients' streams for one receiver; those of a failed one are taken back.
struct TakenBack<'a> {
    sink: Option<DeltaSink<'a>>,
    is_given: bool,
}

impl TakenBack<'_> {
    async fn ask(
        &mut self,
        client: &dyn LlmClient,
        request: &LlmRequest,
        cancel: &CancellationToken,
    ) -> Result<LlmResponse, LlmError> {
        let Some(sink) = &mut self.sink else {
            return client.complete(request, None, cancel).await;
        };
        let is_given = &mut self.is_given;
        let mut watched = |delta: Delta| {
            *is_given = delta != Delta::Restart;
            sink(delta);
        };
        let result = client.complete(request, Some(&mut watched), cancel).await;
        if matches!(&result, Err(error) if !matches!(error, LlmError::Cancelled)) && std::mem::take(&mut self.is_given)
        {
            sink(Delta::Restart);
        }
        result
    }
}

#[cfg(test)]
mod tests;
