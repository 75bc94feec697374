//! A streamed body as events, whatever its framing, until the provider says it is done.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use reqwest::Response;
use serde_json::Value;
use sse_stream::SseByteStream;
use tokio::time::{Instant, timeout_at};

use crate::{
    LlmError,
    adapter::{Adapter, Framing, Pieces, Reading},
    aws_frames,
    caller::Caller,
    http::chain,
};

/// What bounds a stream.
pub(crate) struct Limits {
    /// The first event comes before this.
    pub(crate) first: Instant,
    /// From then on none takes longer; without it each may take until `end`.
    pub(crate) idle: Option<Duration>,
    /// Nothing is read after this.
    pub(crate) end: Instant,
    /// Bytes on the wire.
    pub(crate) bytes: usize,
}

/// Why the bytes ended early.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Transport(#[from] reqwest::Error),
    #[error("more bytes than an answer may have")]
    TooLarge,
}

/// One event of a stream.
enum Event {
    /// As it came.
    Text(String),
    Parsed(Value),
}

/// Why there is no next event.
enum Trouble {
    TooLarge,
    Broken(String),
}

/// Reads the events of an answer and hands their pieces out as they come.
pub(crate) async fn read<A: Adapter>(
    caller: &Caller<A>,
    answer: Response,
    limits: Limits,
    pieces: &mut Pieces<'_>,
) -> Result<A::Reading, LlmError> {
    let mut left = limits.bytes;
    let bytes = answer.bytes_stream().map(move |chunk| {
        let chunk = chunk?;
        left = left.checked_sub(chunk.len()).ok_or(Broken::TooLarge)?;
        Ok::<Bytes, Broken>(chunk)
    });
    of_bytes(caller, bytes, limits, pieces).await
}

async fn of_bytes<A: Adapter>(
    caller: &Caller<A>,
    bytes: impl Stream<Item = Result<Bytes, Broken>> + Send + 'static,
    limits: Limits,
    pieces: &mut Pieces<'_>,
) -> Result<A::Reading, LlmError> {
    match A::FRAMING {
        Framing::Sse => assemble(caller, sse(bytes), limits, pieces).await,
        Framing::Aws => assemble(caller, aws(bytes), limits, pieces).await,
    }
}

/// The same out of memory.
#[cfg(any(test, feature = "inside"))]
pub(crate) async fn of_memory<A: Adapter>(
    caller: &Caller<A>,
    chunks: Vec<Bytes>,
    pieces: &mut Pieces<'_>,
) -> Result<A::Reading, LlmError> {
    let end = Instant::now() + Duration::from_secs(3600);
    let limits = Limits { first: end, idle: None, end, bytes: usize::MAX };
    of_bytes(caller, stream::iter(chunks.into_iter().map(Ok)), limits, pieces).await
}

async fn assemble<A: Adapter>(
    caller: &Caller<A>,
    events: impl Stream<Item = Result<Event, Trouble>>,
    limits: Limits,
    pieces: &mut Pieces<'_>,
) -> Result<A::Reading, LlmError> {
    let mut events = std::pin::pin!(events);
    let (mut reading, mut deadline) = (A::Reading::default(), limits.first);
    loop {
        let event = match timeout_at(deadline.min(limits.end), events.next()).await {
            Err(_) if deadline == limits.first => {
                return Err(LlmError::Timeout(caller.still("sent no piece of its stream in time (llm.timeout)")));
            }
            Err(_) => {
                let text = "stopped in the middle of its stream (llm.stream_idle_timeout)";
                return Err(LlmError::Timeout(caller.still(text)));
            }
            Ok(None) => break,
            Ok(Some(Err(Trouble::TooLarge))) => return Err(caller.too_large()),
            Ok(Some(Err(Trouble::Broken(why)))) => {
                let place = if reading.is_empty() { "before its first piece" } else { "in the middle" };
                return Err(caller.no_response(&format!("its stream broke {place}: {why}")));
            }
            Ok(Some(Ok(event))) => event,
        };
        deadline = limits.idle.map_or(limits.end, |idle| Instant::now() + idle);
        let event = match event {
            Event::Parsed(event) => event,
            Event::Text(data) => match data.trim() {
                "" => continue,
                "[DONE]" if reading.is_empty() && !reading.is_finished() => {
                    return Err(caller.no_response("its stream was empty"));
                }
                "[DONE]" => return Ok(reading),
                data => serde_json::from_str(data)
                    .map_err(|error| caller.no_response(&format!("a piece of its stream is no JSON: {error}")))?,
            },
        };
        caller.check(&event)?;
        reading.take(&event, pieces);
        if reading.is_over() {
            return Ok(reading);
        }
    }
    // Not every server ends with a mark, but each says why it stopped.
    if reading.is_finished() { Ok(reading) } else { Err(caller.no_response("its stream ended too early")) }
}

/// The data of server-sent events.
fn sse(
    bytes: impl Stream<Item = Result<Bytes, Broken>> + Send + 'static,
) -> impl Stream<Item = Result<Event, Trouble>> {
    // A last event that was not closed by an empty line would be dropped.
    let bytes = bytes.chain(stream::once(async { Ok(Bytes::from_static(b"\n\n")) }));
    SseByteStream::new(Box::pin(bytes)).map(|event| match event {
        Ok(event) => Ok(Event::Text(event.data.unwrap_or_default())),
        Err(sse_stream::Error::Body(cause)) if matches!(cause.downcast_ref::<Broken>(), Some(Broken::TooLarge)) => {
            Err(Trouble::TooLarge)
        }
        Err(error) => Err(Trouble::Broken(chain(&error))),
    })
}

/// The events of AWS's binary stream, each as an object with its name as the only member.
fn aws(
    bytes: impl Stream<Item = Result<Bytes, Broken>> + Send + 'static,
) -> impl Stream<Item = Result<Event, Trouble>> {
    let state = (Box::pin(bytes), aws_frames::Decoder::default(), VecDeque::new(), None);
    stream::unfold(Some(state), |state| async {
        let (mut bytes, mut decoder, mut ready, mut wrong): (_, _, VecDeque<Value>, Option<&'static str>) = state?;
        loop {
            if let Some(event) = ready.pop_front() {
                return Some((Ok(Event::Parsed(event)), Some((bytes, decoder, ready, wrong))));
            }
            if let Some(why) = wrong {
                return Some((Err(Trouble::Broken(why.to_owned())), None));
            }
            match bytes.next().await {
                Some(Ok(chunk)) => {
                    let read = decoder.push(&chunk);
                    ready.extend(read.0);
                    wrong = read.1;
                }
                Some(Err(Broken::TooLarge)) => return Some((Err(Trouble::TooLarge), None)),
                Some(Err(error)) => return Some((Err(Trouble::Broken(chain(&error))), None)),
                None => return None,
            }
        }
    })
}
