//! The events of a streamed answer: blocks begin, grow by deltas and end, each with its number.

use serde_json::Value;

use super::response::{Assembly, Block};
use crate::{
    adapter::{Pieces, string},
    answer::CALLS_LIMIT,
};

impl Assembly {
    pub(super) fn take_event(&mut self, event: &Value, pieces: &mut Pieces<'_>) {
        let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
        match event.get("type").and_then(Value::as_str) {
            Some("message_start") => {
                let message = event.get("message").unwrap_or(&Value::Null);
                self.id = string(message.get("id"));
                self.usage.take(message.get("usage"));
            }
            Some("content_block_start") => {
                self.begin(index, event.get("content_block").unwrap_or(&Value::Null), pieces);
            }
            Some("content_block_delta") => self.grow(index, event.get("delta").unwrap_or(&Value::Null), pieces),
            Some("message_delta") => {
                if let Some(reason) = string(event.pointer("/delta/stop_reason")) {
                    self.stop_reason = Some(reason);
                }
                self.usage.take(event.get("usage"));
            }
            Some("message_stop") => self.over = true,
            // Ends of blocks, pings, and what comes in later versions.
            _ => {}
        }
    }

    fn begin(&mut self, index: u64, block: &Value, pieces: &mut Pieces<'_>) {
        if self.blocks.len() >= CALLS_LIMIT {
            return;
        }
        let block = Block::new(block);
        match &block {
            Block::Text(text) => pieces.text(text),
            Block::Thinking { text, .. } => pieces.reasoning(text),
            Block::Call { name, .. } => pieces.arguments(self.calls_before(index), Some(name), ""),
            Block::Redacted(_) | Block::Other => {}
        }
        self.blocks.push((index, block));
    }

    fn grow(&mut self, index: u64, delta: &Value, pieces: &mut Pieces<'_>) {
        let position = self.calls_before(index);
        let Some((_, block)) = self.blocks.iter_mut().rfind(|(known, _)| *known == index) else { return };
        let piece = |member: &str| delta.get(member).and_then(Value::as_str).unwrap_or_default();
        match block {
            Block::Text(text) => {
                text.push_str(piece("text"));
                pieces.text(piece("text"));
            }
            Block::Thinking { text, signature } => {
                text.push_str(piece("thinking"));
                signature.push_str(piece("signature"));
                pieces.reasoning(piece("thinking"));
            }
            Block::Call { arguments, .. } => {
                arguments.push_str(piece("partial_json"));
                pieces.arguments(position, None, piece("partial_json"));
            }
            Block::Redacted(_) | Block::Other => {}
        }
    }

    /// The position of a call among the calls.
    fn calls_before(&self, index: u64) -> usize {
        let calls = self.blocks.iter().filter(|(_, block)| matches!(block, Block::Call { .. }));
        calls.filter(|(known, _)| *known < index).count()
    }
}
