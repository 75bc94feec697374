//! Ways past the network for measurements and fuzzing (feature `inside`): a request as its bytes, an answer out of bytes.
//!
//! Not for programs: a client is made by [`client_with`](crate::client_with).

use bytes::Bytes;
use openhands_protocol::{LlmConfig, secret::SecretText};
use tokio::runtime::Runtime;

use crate::{
    ClientOptions, Delta, DeltaSink, LlmError, LlmRequest, LlmResponse, OfferedTool,
    adapter::{Adapter, Pieces, Reading as _, Setup},
    anthropic::Anthropic,
    aws_frames,
    bedrock::Bedrock,
    caller::Caller,
    endpoint::{Endpoint, Mode},
    factory::Environment,
    frames,
    gemini::Gemini,
    http::http_client,
    models::Abilities,
    openai::OpenAi,
    prompted,
    providers::Interface,
    responses::Responses,
};

/// A model of each interface.
pub const MODELS: [&str; 5] = [
    "openai/scripted",
    "openai/gpt-5",
    "anthropic/claude-sonnet-4-5",
    "gemini/gemini-3.1-pro-preview",
    "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
];

/// A model's adapter without its connection.
pub struct Inside {
    caller: Box<dyn Adapted>,
    runtime: Runtime,
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Inside").finish_non_exhaustive()
    }
}

impl Inside {
    /// The adapter of a model.
    ///
    /// # Errors
    /// As [`client_with`](crate::client_with).
    pub fn of(model: &str) -> Result<Self, LlmError> {
        let config = LlmConfig {
            model: model.to_owned(),
            api_key: Some(SecretText::new("key")),
            base_url: Some("http://127.0.0.1:9".to_owned()),
            ..LlmConfig::default()
        };
        let endpoint = Endpoint::of(&config, &Environment::default())?;
        let abilities = Abilities::of(&config);
        let (interface, mode) = (endpoint.provider.interface, endpoint.mode);
        let setup = Setup { config, endpoint, abilities, stop: Vec::new() };
        let caller = match (interface, mode) {
            (Interface::OpenAi | Interface::Azure, Mode::Chat) => boxed(OpenAi::new(setup)),
            (Interface::OpenAi | Interface::Azure, Mode::Responses) => boxed(Responses::new(setup)),
            (Interface::Anthropic, _) => boxed(Anthropic::new(setup)),
            (Interface::Gemini, _) => boxed(Gemini::new(setup)),
            (Interface::Bedrock, _) => boxed(Bedrock::new(setup)),
            (Interface::Other, _) => Err(LlmError::NotSupported(model.to_owned())),
        };
        let failed = |error: std::io::Error| LlmError::Internal(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
        Ok(Self { caller: caller?, runtime })
    }

    /// The body that a request becomes.
    ///
    /// # Errors
    /// [`LlmError::BadRequest`] when it cannot be written.
    pub fn body(&self, request: &LlmRequest, streamed: bool) -> Result<Bytes, LlmError> {
        self.caller.body(request, streamed)
    }

    /// The answer in the body of a whole answer.
    ///
    /// # Errors
    /// What a client reports.
    pub fn whole(&self, bytes: &[u8]) -> Result<LlmResponse, LlmError> {
        self.caller.whole(bytes)
    }

    /// Whether a streamed body says the same in pieces of this size as in one.
    ///
    /// # Errors
    /// Both answers, where they differ.
    pub fn check_stream(&self, bytes: &[u8], size: usize) -> Result<(), String> {
        let pieces = bytes.chunks(size.max(1)).map(Bytes::copy_from_slice).collect();
        let mut deltas = String::new();
        let mut sink = |delta: Delta| deltas.push_str(&format!("{delta:?}"));
        let split = shown(self.streamed(pieces, Some(&mut sink)));
        let whole = shown(self.streamed(vec![Bytes::copy_from_slice(bytes)], None));
        if split == whole { Ok(()) } else { Err(format!("in pieces of {size}: {split}\nin one: {whole}")) }
    }

    /// The answer in the body of a streamed answer, which comes in these chunks.
    ///
    /// # Errors
    /// What a client reports.
    pub fn streamed(&self, chunks: Vec<Bytes>, sink: Option<DeltaSink<'_>>) -> Result<LlmResponse, LlmError> {
        self.caller.streamed(&self.runtime, chunks, sink)
    }
}

fn boxed<A: Adapter>(adapter: A) -> Result<Box<dyn Adapted>, LlmError> {
    let http = http_client().map_err(|error| LlmError::ServiceUnavailable(error.to_string()))?;
    Ok(Box::new(Caller::new(adapter, http, &ClientOptions::default())?))
}

/// A caller of any adapter.
trait Adapted: Send + Sync {
    fn body(&self, request: &LlmRequest, streamed: bool) -> Result<Bytes, LlmError>;
    fn whole(&self, bytes: &[u8]) -> Result<LlmResponse, LlmError>;
    fn streamed(
        &self,
        runtime: &Runtime,
        chunks: Vec<Bytes>,
        sink: Option<DeltaSink<'_>>,
    ) -> Result<LlmResponse, LlmError>;
}

impl<A: Adapter> Adapted for Caller<A> {
    fn body(&self, request: &LlmRequest, streamed: bool) -> Result<Bytes, LlmError> {
        self.written(request, self.plan(streamed))
    }

    fn whole(&self, bytes: &[u8]) -> Result<LlmResponse, LlmError> {
        Ok(self.parse(bytes)?.into_response(self.setup(), None))
    }

    fn streamed(
        &self,
        runtime: &Runtime,
        chunks: Vec<Bytes>,
        sink: Option<DeltaSink<'_>>,
    ) -> Result<LlmResponse, LlmError> {
        let mut pieces = Pieces { sink, given: false };
        let reading = runtime.block_on(frames::of_memory(self, chunks, &mut pieces))?;
        Ok(reading.finish().into_response(self.setup(), None))
    }
}

/// An answer without what is made up anew for each.
fn shown(answer: Result<LlmResponse, LlmError>) -> String {
    match answer {
        Ok(answer) => {
            let message = answer.message;
            let calls: Vec<_> = message.tool_calls.iter().flatten().map(|call| (&call.name, &call.arguments)).collect();
            let usage = (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.cache_read_tokens);
            format!("{:?}", (message.joined_text(), message.reasoning_content, calls, answer.finish_reason, usage))
        }
        Err(error) => format!("{} {error}", error.code()),
    }
}

/// Whether AWS's frames hold the same events in pieces of this size as in one.
///
/// # Errors
/// Both lists, where they differ.
pub fn check_aws_frames(bytes: &[u8], size: usize) -> Result<(), String> {
    let read = |chunks: &mut dyn Iterator<Item = &[u8]>| {
        let (mut decoder, mut events) = (aws_frames::Decoder::default(), Vec::new());
        for chunk in chunks {
            let (more, wrong) = decoder.push(chunk);
            events.extend(more);
            if wrong.is_some() {
                return (events, wrong);
            }
        }
        (events, None)
    };
    let (split, whole) = (read(&mut bytes.chunks(size.max(1))), read(&mut std::iter::once(bytes)));
    if split == whole { Ok(()) } else { Err(format!("in pieces of {size}: {split:?}\nin one: {whole:?}")) }
}

/// Whether the calls in a text that a model wrote are calls: named, with an object for arguments, within the text's bounds.
///
/// # Errors
/// The call that is none.
pub fn check_written_calls(text: &str) -> Result<(), String> {
    let parameters = serde_json::json!({"type": "object", "properties": {
        "command": {"type": "string"}, "count": {"type": "integer"}, "is": {"type": "boolean"}, "list": {"type": "array"},
    }});
    let tool = OfferedTool { name: "terminal".to_owned(), description: String::new(), parameters };
    let (said, calls) = prompted::calls(text, &[tool]);
    let is_call = |(name, arguments): &(String, String)| {
        !name.is_empty() && serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(arguments).is_ok()
    };
    match calls.iter().find(|call| !is_call(call)) {
        Some(wrong) => Err(format!("{wrong:?} is no call")),
        None if !text.starts_with(&said) => Err(format!("{said:?} does not begin the text")),
        None => Ok(()),
    }
}
