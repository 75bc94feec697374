//! The trait that every provider's adapter implements.

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{Delta, LlmError, LlmRequest, LlmResponse};

/// Where pieces of a streaming answer go. Called in order, from the task that reads the stream; must not block.
pub type DeltaSink<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// A model behind a provider's interface.
#[async_trait]
pub trait LlmClient: Send + Sync {
    /// One call, with the retries its configuration asks for. With `deltas` the answer is streamed and the pieces are handed
    /// out as they come; the assembled answer equals what the same call would have returned whole. Dropping the future or
    /// cancelling closes the connection.
    ///
    /// # Errors
    /// [`LlmError`] after the last attempt; [`LlmError::Cancelled`] as soon as `cancel` fires.
    async fn complete(
        &self,
        request: &LlmRequest,
        deltas: Option<DeltaSink<'_>>,
        cancel: &CancellationToken,
    ) -> Result<LlmResponse, LlmError>;
}
