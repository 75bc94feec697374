//! Tool calls by prompt, for models and servers without an interface for them (F1-LLM-14).
//!
//! A wrapper around any client: the tools are described in the system prompt, earlier calls and results are told as text, and calls
//! are read out of what the model writes. Conversations keep ordinary tool calls, so the setting can change half-way.

mod parse;
mod render;

use std::sync::Arc;

use async_trait::async_trait;
use openhands_protocol::{Content, ToolCall};
use tokio_util::sync::CancellationToken;

use crate::{Delta, DeltaSink, LlmClient, LlmError, LlmRequest, LlmResponse};

/// Ends an answer behind its first call.
pub(crate) const STOP: &str = "</function";
/// Begins a call.
const BEGIN: &str = "<function=";

/// A client that takes tools by prompt.
pub(crate) struct Prompted {
    inner: Arc<dyn LlmClient>,
    max_chars: usize,
}

impl Prompted {
    pub(crate) fn new(inner: Arc<dyn LlmClient>, max_chars: usize) -> Self {
        Self { inner, max_chars }
    }
}

#[async_trait]
impl LlmClient for Prompted {
    async fn complete(
        &self,
        request: &LlmRequest,
        deltas: Option<DeltaSink<'_>>,
        cancel: &CancellationToken,
    ) -> Result<LlmResponse, LlmError> {
        let told = render::told(request, self.max_chars);
        let Some(sink) = deltas else {
            let response = self.inner.complete(&told, None, cancel).await?;
            return Ok(read(response, request));
        };
        let mut filter = Filter::default();
        let mut inner = |delta: Delta| match delta {
            Delta::Text(text) => {
                let shown = filter.push(&text);
                if !shown.is_empty() {
                    sink(Delta::Text(shown));
                }
            }
            Delta::Restart => {
                filter = Filter::default();
                sink(Delta::Restart);
            }
            other => sink(other),
        };
        let response = self.inner.complete(&told, Some(&mut inner), cancel).await?;
        let rest = filter.rest();
        if !rest.is_empty() {
            sink(Delta::Text(rest));
        }
        let response = read(response, request);
        for (index, call) in response.message.tool_calls.iter().flatten().enumerate() {
            sink(Delta::ToolArguments { index, name: Some(call.name.clone()), arguments: call.arguments.clone() });
        }
        Ok(response)
    }
}

/// What was said before the first call that a text holds, and the calls.
#[cfg(any(test, feature = "inside"))]
pub(crate) fn calls(text: &str, tools: &[crate::OfferedTool]) -> (String, Vec<(String, String)>) {
    parse::answer(text, tools)
}

/// Takes the calls out of an answer's text.
fn read(mut response: LlmResponse, request: &LlmRequest) -> LlmResponse {
    let (said, calls) = parse::answer(&response.message.joined_text(), &request.tools);
    if calls.is_empty() {
        return response;
    }
    let said = said.trim_end();
    response.message.content = if said.is_empty() { Vec::new() } else { vec![Content::text(said)] };
    let call = |(name, arguments): (String, String)| ToolCall {
        id: format!("call_{}", uuid::Uuid::new_v4().simple()),
        responses_item_id: None,
        name,
        arguments,
        origin: Default::default(),
    };
    response.message.tool_calls = Some(calls.into_iter().map(call).collect());
    response.finish_reason = Some("tool_calls".to_owned());
    response
}

/// Lets text through up to the first call. What may be the beginning of one is held back.
#[derive(Debug, Default)]
struct Filter {
    held: String,
    closed: bool,
}

impl Filter {
    fn push(&mut self, text: &str) -> String {
        if self.closed {
            return String::new();
        }
        self.held.push_str(text);
        if let Some(at) = self.held.find(BEGIN) {
            self.closed = true;
            let shown = self.held.get(..at).unwrap_or_default().to_owned();
            self.held.clear();
            return shown;
        }
        let kept = (1..BEGIN.len())
            .rev()
            .find(|length| BEGIN.get(..*length).is_some_and(|begin| self.held.ends_with(begin)))
            .unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        std::mem::replace(&mut self.held, rest)
    }

    fn rest(self) -> String {
        self.held
    }
}

#[cfg(test)]
mod tests;
