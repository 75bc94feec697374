//! Converse's answers, read as the Messages they are made after: blocks and events are brought into that form.

use serde_json::{Map, Value, json};

use crate::{
    adapter::{Pieces, Reading},
    answer::Answer,
    anthropic,
};

/// The member with what the model said beside the interface.
const MORE: &str = "additionalModelResponseFields";

/// What is there of an answer.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    inner: anthropic::Assembly,
    /// Blocks that began; texts and reasoning do so without saying.
    begun: Vec<u64>,
    over: bool,
}

impl Reading for Assembly {
    fn of_document(document: &Value) -> Option<Self> {
        let content = document.pointer("/output/message/content")?.as_array()?;
        let document = json!({
            "content": content.iter().map(block).collect::<Value>(),
            "stop_reason": document.get("stopReason"),
            "usage": usage(document.get("usage"), document.get(MORE)),
        });
        Some(Self { inner: anthropic::Assembly::of_document(&document)?, ..Self::default() })
    }

    fn take(&mut self, event: &Value, pieces: &mut Pieces<'_>) {
        let Some((name, event)) = event.as_object().and_then(|event| event.iter().next()) else { return };
        let index = event.get("contentBlockIndex").and_then(Value::as_u64).unwrap_or(0);
        match name.as_str() {
            "contentBlockStart" => {
                let start = block(event.get("start").unwrap_or(&Value::Null));
                self.begin(index, &start, pieces);
            }
            "contentBlockDelta" => {
                let part = event.get("delta").unwrap_or(&Value::Null);
                let (kind, delta) = delta(part);
                if !self.begun.contains(&index) {
                    // Redacted reasoning comes whole, in its first piece.
                    self.begin(
                        index,
                        &if kind == "redacted_thinking" { block(part) } else { json!({"type": kind}) },
                        pieces,
                    );
                }
                self.inner.take(&json!({"type": "content_block_delta", "index": index, "delta": delta}), pieces);
            }
            "messageStop" => {
                let delta = json!({"stop_reason": event.get("stopReason")});
                let usage = usage(None, event.get(MORE));
                self.inner.take(&json!({"type": "message_delta", "delta": delta, "usage": usage}), pieces);
            }
            "metadata" => {
                self.inner.take(&json!({"type": "message_delta", "usage": usage(event.get("usage"), None)}), pieces);
                self.over = true;
            }
            _ => {}
        }
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }

    fn is_over(&self) -> bool {
        self.over && self.is_finished()
    }

    fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    fn finish(self) -> Answer {
        self.inner.finish()
    }
}

impl Assembly {
    fn begin(&mut self, index: u64, block: &Value, pieces: &mut Pieces<'_>) {
        self.begun.push(index);
        self.inner.take(&json!({"type": "content_block_start", "index": index, "content_block": block}), pieces);
    }
}

fn block(part: &Value) -> Value {
    if let Some(call) = part.get("toolUse") {
        return json!({
            "type": "tool_use", "id": call.get("toolUseId"), "name": call.get("name"), "input": call.get("input"),
        });
    }
    match part.get("reasoningContent") {
        Some(reasoning) => match reasoning.get("redactedContent") {
            Some(data) => json!({"type": "redacted_thinking", "data": data}),
            None => {
                let text = reasoning.get("reasoningText").unwrap_or(&Value::Null);
                json!({"type": "thinking", "thinking": text.get("text"), "signature": text.get("signature")})
            }
        },
        None => json!({"type": "text", "text": part.get("text")}),
    }
}

/// The kind of the block that a piece belongs to, and the piece.
fn delta(part: &Value) -> (&'static str, Value) {
    if let Some(call) = part.get("toolUse") {
        return ("tool_use", json!({"partial_json": call.get("input")}));
    }
    match part.get("reasoningContent") {
        Some(reasoning) if reasoning.get("redactedContent").is_some() => ("redacted_thinking", Value::Null),
        Some(reasoning) => {
            ("thinking", json!({"thinking": reasoning.get("text"), "signature": reasoning.get("signature")}))
        }
        None => ("text", json!({"text": part.get("text")})),
    }
}

/// `more` is where the model's own figures are, of which only the reasoning is taken.
fn usage(usage: Option<&Value>, more: Option<&Value>) -> Value {
    let mut figures = Map::new();
    for (theirs, ours) in [
        ("inputTokens", "input_tokens"),
        ("outputTokens", "output_tokens"),
        ("cacheReadInputTokens", "cache_read_input_tokens"),
        ("cacheWriteInputTokens", "cache_creation_input_tokens"),
    ] {
        if let Some(count) = usage.and_then(|usage| usage.get(theirs)) {
            figures.insert(ours.to_owned(), count.clone());
        }
    }
    if let Some(details) = more.and_then(|more| more.pointer("/usage/output_tokens_details")) {
        figures.insert("output_tokens_details".to_owned(), details.clone());
    }
    figures.into()
}
