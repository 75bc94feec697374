//! A streamed answer: server-sent events until the provider says it is done.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use reqwest::Response;
use serde_json::Value;
use sse_stream::SseByteStream;
use tokio::time::{Instant, timeout_at};

use super::{OpenAiClient, Pieces, error, response::Assembly};
use crate::{LlmError, http::chain};

/// What bounds a stream.
pub(super) struct Limits {
    /// The first event comes before this.
    pub(super) first: Instant,
    /// From then on none takes longer; without it each may take until `end`.
    pub(super) idle: Option<Duration>,
    /// Nothing is read after this.
    pub(super) end: Instant,
    /// Bytes on the wire.
    pub(super) bytes: usize,
}

/// Why the bytes ended early.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Transport(#[from] reqwest::Error),
    #[error("more bytes than an answer may have")]
    TooLarge,
}

/// Reads the events of an answer and hands their pieces out as they come.
pub(super) async fn read(
    client: &OpenAiClient,
    answer: Response,
    limits: Limits,
    pieces: &mut Pieces<'_>,
) -> Result<Assembly, LlmError> {
    let mut left = limits.bytes;
    let bytes = answer.bytes_stream().map(move |chunk| {
        let chunk = chunk?;
        left = left.checked_sub(chunk.len()).ok_or(Broken::TooLarge)?;
        Ok::<Bytes, Broken>(chunk)
    });
    // A last event that was not closed by an empty line would be dropped.
    let bytes = bytes.chain(stream::once(async { Ok(Bytes::from_static(b"\n\n")) }));
    let mut events = std::pin::pin!(SseByteStream::new(Box::pin(bytes)));
    let (mut assembly, mut deadline) = (Assembly::default(), limits.first);
    loop {
        let next = timeout_at(deadline.min(limits.end), events.next()).await;
        let event = match next {
            Err(_) if deadline == limits.first => {
                return Err(LlmError::Timeout(still(client, "sent no piece of its stream in time (llm.timeout)")));
            }
            Err(_) => {
                return Err(LlmError::Timeout(still(
                    client,
                    "stopped in the middle of its stream (llm.stream_idle_timeout)",
                )));
            }
            Ok(None) => break,
            Ok(Some(Err(broken))) => return Err(break_off(client, &broken, &assembly)),
            Ok(Some(Ok(event))) => event,
        };
        deadline = limits.idle.map_or(limits.end, |idle| Instant::now() + idle);
        let Some(data) = event.data.as_deref().map(str::trim).filter(|data| !data.is_empty()) else { continue };
        if data == "[DONE]" {
            return if assembly.is_empty() && !assembly.is_finished() {
                Err(client.no_response("its stream was empty"))
            } else {
                Ok(assembly)
            };
        }
        let event: Value = serde_json::from_str(data)
            .map_err(|error| client.no_response(&format!("a piece of its stream is no JSON: {error}")))?;
        if let Some(reported) = error::in_document(&event) {
            return Err(client.reported(reported));
        }
        assembly.take(&event, pieces);
    }
    // Not every server ends with a mark, but each says why it stopped.
    if assembly.is_finished() { Ok(assembly) } else { Err(client.no_response("its stream ended too early")) }
}

fn still(client: &OpenAiClient, what: &str) -> String {
    format!("{} at {} {what}", client.config.model, client.host())
}

fn break_off(client: &OpenAiClient, broken: &sse_stream::Error, assembly: &Assembly) -> LlmError {
    if let sse_stream::Error::Body(cause) = broken
        && matches!(cause.downcast_ref::<Broken>(), Some(Broken::TooLarge))
    {
        return client.too_large();
    }
    let beginning = if assembly.is_empty() { "before its first piece" } else { "in the middle" };
    client.no_response(&format!("its stream broke {beginning}: {}", chain(broken)))
}
