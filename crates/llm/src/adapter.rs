//! What an adapter has to say for one provider's interface; attempts, streams, bounds and prices are `caller`'s business.

use openhands_protocol::LlmConfig;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value};
use url::Url;

use crate::{
    Credentials, Delta, DeltaSink, LlmError, LlmRequest, answer::Answer, endpoint::Endpoint, failure::Reported,
    models::Abilities,
};

/// Everything a provider's adapter is made from.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) config: LlmConfig,
    pub(crate) endpoint: Endpoint,
    pub(crate) abilities: Abilities,
    /// Texts that end an answer.
    pub(crate) stop: Vec<String>,
}

/// What may differ between the attempts of one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Attempt {
    pub(crate) temperature: Option<f64>,
    /// Whether prefixes are marked for the provider's cache.
    pub(crate) caching: bool,
    /// Whether signed or encrypted reasoning of earlier turns is sent back.
    pub(crate) reasoning: bool,
    pub(crate) streamed: bool,
}

/// How events are told apart in a streamed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events with JSON data.
    Sse,
    /// The binary event stream of AWS.
    Aws,
}

/// One provider's interface.
pub(crate) trait Adapter: Send + Sync + 'static {
    /// How its answers are read.
    type Reading: Reading;
    const FRAMING: Framing = Framing::Sse;
    /// Whether it takes images as bytes only.
    const INLINE_IMAGES: bool = false;

    fn setup(&self) -> &Setup;

    /// Where a call goes.
    fn url(&self, _streamed: bool) -> Url {
        self.setup().endpoint.url.clone()
    }

    /// The members of a request's body.
    fn body(&self, request: &LlmRequest, attempt: Attempt) -> Result<Map<String, Value>, LlmError>;

    /// Headers of the interface; the configuration's own are added afterwards.
    fn headers(&self) -> Result<HeaderMap, LlmError>;

    /// Headers that depend on the body. Bearer tokens are in the headers already.
    fn sign(
        &self,
        _credentials: &Credentials,
        _url: &Url,
        _headers: &mut HeaderMap,
        _body: &[u8],
    ) -> Result<(), LlmError> {
        Ok(())
    }

    /// Whether it answers in streams alone, even when nobody listens to the pieces.
    fn streams_only(&self) -> bool {
        false
    }

    /// The error in an answer with a good status, or in an event.
    fn reported(&self, document: &Value) -> Option<Reported>;
}

/// An answer being read, from one document or from the events of a stream; both ways give the same.
pub(crate) trait Reading: Default + Send {
    /// A whole answer; `None` when the document is none.
    fn of_document(document: &Value) -> Option<Self>;

    /// Takes one event and hands its pieces out.
    fn take(&mut self, event: &Value, pieces: &mut Pieces<'_>);

    /// Whether the provider said why it stopped.
    fn is_finished(&self) -> bool;

    /// Whether nothing more will come, so that the connection need not be read to its end.
    fn is_over(&self) -> bool {
        false
    }

    /// Whether nothing of an answer came.
    fn is_empty(&self) -> bool;

    fn finish(self) -> Answer;
}

/// Where pieces go, and whether some have gone there.
pub(crate) struct Pieces<'a> {
    pub(crate) sink: Option<DeltaSink<'a>>,
    pub(crate) given: bool,
}

impl Pieces<'_> {
    pub(crate) fn give(&mut self, delta: Delta) {
        if let Some(sink) = &mut self.sink {
            self.given = true;
            sink(delta);
        }
    }

    pub(crate) fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.give(Delta::Text(text.to_owned()));
        }
    }

    pub(crate) fn reasoning(&mut self, text: &str) {
        if !text.is_empty() {
            self.give(Delta::Reasoning(text.to_owned()));
        }
    }

    pub(crate) fn arguments(&mut self, index: usize, name: Option<&str>, arguments: &str) {
        if name.is_some() || !arguments.is_empty() {
            self.give(Delta::ToolArguments {
                index,
                name: name.map(ToOwned::to_owned),
                arguments: arguments.to_owned(),
            });
        }
    }

    /// Takes back what was handed out.
    pub(crate) fn restart(&mut self) {
        if std::mem::take(&mut self.given)
            && let Some(sink) = &mut self.sink
        {
            sink(Delta::Restart);
        }
    }
}

/// Adds `litellm_extra_body`; members that the reader of the answer depends on stay ours.
pub(crate) fn add_extra_body(body: &mut Map<String, Value>, config: &LlmConfig, ours: &[&str]) {
    for (name, value) in &config.litellm_extra_body {
        if !ours.contains(&name.as_str()) {
            body.insert(name.clone(), value.clone());
        }
    }
}

/// An object of values that exist already. `json!` would copy each of them, and what is inside, once more at every level.
pub(crate) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Sets a member unless it is null.
pub(crate) fn set(body: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    let value = value.into();
    if !value.is_null() {
        body.insert(name.to_owned(), value);
    }
}

/// A text that is there and not empty.
pub(crate) fn string(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(ToOwned::to_owned)
}

/// A count at the first of these places.
pub(crate) fn count(usage: &Value, pointers: &[&str]) -> u64 {
    pointers.iter().find_map(|pointer| usage.pointer(pointer)?.as_u64()).unwrap_or(0)
}
