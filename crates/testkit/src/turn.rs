//! One answer of a scripted model.

use std::time::Duration;

use serde_json::{Value, json};

/// A tool call in a scripted answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedCall {
    /// The call's id; empty for a provider that sends none.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The argument string, as it is.
    pub arguments: String,
}

/// What the model answers to one request. Build it with [`Turn::text`], [`Turn::calls`], [`Turn::error`] or [`Turn::raw`] and
/// change the rest by its methods.
#[derive(Clone, Debug)]
pub struct Turn {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// Sent instead of an answer.
    pub(crate) raw: Option<String>,
    /// The same with its content type, for what is no text.
    pub(crate) bytes: Option<(&'static str, Vec<u8>)>,
    pub(crate) text: Option<String>,
    pub(crate) reasoning: Option<String>,
    /// Proves the reasoning, or holds it encrypted.
    pub(crate) signature: Option<String>,
    /// Reasoning that the provider keeps to itself.
    pub(crate) redacted: Option<String>,
    pub(crate) calls: Vec<ScriptedCall>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<Value>,
    pub(crate) delay: Duration,
    /// Bytes of the body after which something happens.
    pub(crate) after: Option<(usize, Break)>,
    /// The body is sent in pieces of so many bytes.
    pub(crate) piece: usize,
    /// Pause before each piece.
    pub(crate) pause: Duration,
    pub(crate) done_mark: bool,
}

/// What happens in the middle of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// The connection is broken.
    Cut,
    /// The body ends as if it were whole.
    End,
    /// Nothing more comes, and the connection stays.
    Stall,
}

impl Turn {
    fn empty() -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            raw: None,
            bytes: None,
            text: None,
            reasoning: None,
            signature: None,
            redacted: None,
            calls: Vec::new(),
            finish_reason: None,
            usage: Some(json!({
                "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110,
                "prompt_tokens_details": {"cached_tokens": 40},
                "completion_tokens_details": {"reasoning_tokens": 3},
            })),
            delay: Duration::ZERO,
            after: None,
            piece: usize::MAX,
            pause: Duration::ZERO,
            done_mark: true,
        }
    }

    /// A text answer.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: Some(text.to_owned()), finish_reason: Some("stop".to_owned()), ..Self::empty() }
    }

    /// An answer that calls tools: (id, name, arguments).
    #[must_use]
    pub fn calls(calls: &[(&str, &str, Value)]) -> Self {
        let call = |(id, name, arguments): &(&str, &str, Value)| ScriptedCall {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            arguments: arguments.as_str().map_or_else(|| arguments.to_string(), ToOwned::to_owned),
        };
        Self { calls: calls.iter().map(call).collect(), finish_reason: Some("tool_calls".to_owned()), ..Self::empty() }
    }

    /// A provider's error in the usual shape.
    #[must_use]
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        Self::raw(status, &json!({"error": {"message": message, "type": code, "code": code}}).to_string())
    }

    /// Any body.
    #[must_use]
    pub fn raw(status: u16, body: &str) -> Self {
        Self { status, raw: Some(body.to_owned()), ..Self::empty() }
    }

    /// Any body of any content type, with status 200.
    #[must_use]
    pub fn bytes(content_type: &'static str, body: Vec<u8>) -> Self {
        Self { bytes: Some((content_type, body)), ..Self::empty() }
    }

    /// Text beside tool calls.
    #[must_use]
    pub fn saying(mut self, text: &str) -> Self {
        self.text = Some(text.to_owned());
        self
    }

    /// Reasoning before the answer.
    #[must_use]
    pub fn thinking(mut self, text: &str) -> Self {
        self.reasoning = Some(text.to_owned());
        self
    }

    /// The signature of the reasoning (Anthropic, Gemini, Bedrock), or its encrypted form (Responses).
    #[must_use]
    pub fn signed(mut self, signature: &str) -> Self {
        self.signature = Some(signature.to_owned());
        self
    }

    /// Reasoning that only the provider can read.
    #[must_use]
    pub fn redacted(mut self, data: &str) -> Self {
        self.redacted = Some(data.to_owned());
        self
    }

    /// One more response header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The usage block; `None` leaves it out.
    #[must_use]
    pub fn usage(mut self, usage: Option<Value>) -> Self {
        self.usage = usage;
        self
    }

    /// Another finish reason; `None` leaves it out.
    #[must_use]
    pub fn finish_reason(mut self, reason: Option<&str>) -> Self {
        self.finish_reason = reason.map(ToOwned::to_owned);
        self
    }

    /// Waits before the first byte.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sends the body in pieces of `bytes`, whatever they split.
    #[must_use]
    pub fn pieces(mut self, bytes: usize, pause: Duration) -> Self {
        (self.piece, self.pause) = (bytes.max(1), pause);
        self
    }

    /// Breaks the connection after so many bytes of the body.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.after = Some((bytes, Break::Cut));
        self
    }

    /// Ends the body in order, but too early.
    #[must_use]
    pub fn end_after(mut self, bytes: usize) -> Self {
        self.after = Some((bytes, Break::End));
        self
    }

    /// Sends nothing more after so many bytes, and keeps the connection.
    #[must_use]
    pub fn stall_after(mut self, bytes: usize) -> Self {
        self.after = Some((bytes, Break::Stall));
        self
    }

    /// Leaves the `[DONE]` of a stream out.
    #[must_use]
    pub fn without_done(mut self) -> Self {
        self.done_mark = false;
        self
    }
}
