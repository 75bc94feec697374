//! An answer being put together out of parts; the chunks of a stream are small whole answers.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    adapter::{Pieces, Reading, count, string},
    answer::{Answer, AnsweredCall, CALLS_LIMIT, Tokens},
};

/// What is there of an answer.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    id: Option<String>,
    text: String,
    reasoning: String,
    /// Whose (a call's id, or empty for the text), and the signature.
    signatures: Vec<(String, String)>,
    calls: Vec<AnsweredCall>,
    finish_reason: Option<String>,
    usage: Value,
}

impl Reading for Assembly {
    fn of_document(document: &Value) -> Option<Self> {
        document.get("candidates")?.get(0)?;
        let mut assembly = Self::default();
        assembly.take(document, &mut Pieces { sink: None, given: false });
        (!assembly.is_empty() || assembly.is_finished()).then_some(assembly)
    }

    fn take(&mut self, event: &Value, pieces: &mut Pieces<'_>) {
        if self.id.is_none() {
            self.id = string(event.get("responseId"));
        }
        if let Some(usage) = event.get("usageMetadata").filter(|usage| usage.is_object()) {
            self.usage = usage.clone();
        }
        let candidate = event.get("candidates").and_then(|candidates| candidates.get(0)).unwrap_or(&Value::Null);
        for part in candidate.pointer("/content/parts").and_then(Value::as_array).into_iter().flatten() {
            self.take_part(part, pieces);
        }
        if let Some(reason) = string(candidate.get("finishReason")) {
            self.finish_reason = Some(reason);
        }
    }

    /// A call that the model could not write down is no answer; asking again helps.
    fn is_finished(&self) -> bool {
        let failed = |reason: &str| matches!(reason, "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL");
        self.finish_reason.as_deref().is_some_and(|reason| !(failed(reason) && self.calls.is_empty()))
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty()
    }

    fn finish(self) -> Answer {
        let block = |(of, signature): (String, String)| json!({"type": "thinking", "thinking": "", "signature": signature, "gemini": {"of": of}});
        let reason = match self.finish_reason.as_deref() {
            Some("STOP") if !self.calls.is_empty() => Some("tool_calls"),
            Some("STOP") => Some("stop"),
            Some("MAX_TOKENS") => Some("length"),
            Some("SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => Some("content_filter"),
            other => other,
        };
        Answer {
            finish_reason: reason.map(ToOwned::to_owned),
            tokens: tokens(&self.usage),
            id: self.id,
            text: self.text,
            reasoning: self.reasoning,
            thinking_blocks: self.signatures.into_iter().map(block).collect(),
            calls: self.calls,
            ..Answer::default()
        }
    }
}

impl Assembly {
    fn take_part(&mut self, part: &Value, pieces: &mut Pieces<'_>) {
        let mut of = String::new();
        if let Some(call) = part.get("functionCall") {
            if self.calls.len() >= CALLS_LIMIT {
                return;
            }
            // Not every version numbers its calls.
            of = string(call.get("id")).unwrap_or_else(|| format!("call_{}", Uuid::new_v4().simple()));
            let name = string(call.get("name")).unwrap_or_default();
            let arguments =
                call.get("args").filter(|args| args.is_object()).map_or_else(|| "{}".to_owned(), Value::to_string);
            pieces.arguments(self.calls.len(), Some(&name), &arguments);
            self.calls.push(AnsweredCall { id: Some(of.clone()), name, arguments, ..AnsweredCall::default() });
        } else if let Some(text) = part.get("text").and_then(Value::as_str) {
            if part.get("thought").and_then(Value::as_bool) == Some(true) {
                self.reasoning.push_str(text);
                pieces.reasoning(text);
                return;
            }
            self.text.push_str(text);
            pieces.text(text);
        }
        if let Some(signature) = string(part.get("thoughtSignature")) {
            self.signatures.push((of, signature));
        }
    }
}

fn tokens(usage: &Value) -> Tokens {
    let reasoning = count(usage, &["/thoughtsTokenCount"]);
    Tokens {
        prompt: count(usage, &["/promptTokenCount"]),
        completion: count(usage, &["/candidatesTokenCount"]).saturating_add(reasoning),
        cache_read: count(usage, &["/cachedContentTokenCount"]),
        cache_write: 0,
        reasoning,
    }
}
