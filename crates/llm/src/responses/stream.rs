//! The events of a streamed answer: items are added, grow by deltas and end whole.

use serde_json::Value;

use super::response::{Assembly, Item};
use crate::{
    adapter::{Pieces, string},
    answer::CALLS_LIMIT,
};

impl Assembly {
    pub(super) fn take_event(&mut self, event: &Value, pieces: &mut Pieces<'_>) {
        let index = event.get("output_index").and_then(Value::as_u64).unwrap_or(0);
        let item = event.get("item").unwrap_or(&Value::Null);
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "response.created" | "response.in_progress" if self.id.is_none() => {
                self.id = string(event.pointer("/response/id"));
            }
            "response.output_item.added" => self.add(index, item, pieces),
            "response.output_item.done" => self.end(index, item, pieces),
            kind @ ("response.output_text.delta"
            | "response.refusal.delta"
            | "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.function_call_arguments.delta") => {
                self.grow(index, kind, event.get("delta").and_then(Value::as_str).unwrap_or_default(), pieces);
            }
            "response.completed" | "response.incomplete" | "response.done" => {
                self.note(event.get("response").unwrap_or(&Value::Null));
                self.over = true;
            }
            // Ends of parts, and what comes in later versions.
            _ => {}
        }
    }

    fn add(&mut self, index: u64, item: &Value, pieces: &mut Pieces<'_>) {
        if self.items.len() >= CALLS_LIMIT || self.items.iter().any(|(known, _)| *known == index) {
            return;
        }
        self.items.push((index, Item { value: item.clone(), ..Item::default() }));
        if item.get("type").and_then(Value::as_str) == Some("function_call") {
            let name = string(item.get("name")).unwrap_or_default();
            pieces.arguments(self.calls_before(index), Some(&name), "");
        }
    }

    fn grow(&mut self, index: u64, kind: &str, more: &str, pieces: &mut Pieces<'_>) {
        let position = self.calls_before(index);
        let Some((_, item)) = self.items.iter_mut().find(|(known, _)| *known == index) else { return };
        item.text.push_str(more);
        match kind {
            "response.function_call_arguments.delta" => pieces.arguments(position, None, more),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => pieces.reasoning(more),
            _ => pieces.text(more),
        }
    }

    fn end(&mut self, index: u64, item: &Value, pieces: &mut Pieces<'_>) {
        self.add(index, item, pieces);
        let position = self.calls_before(index);
        let Some((_, known)) = self.items.iter_mut().find(|(known, _)| *known == index) else { return };
        (known.value, known.whole) = (item.clone(), true);
        // Some servers send items whole, without pieces.
        if known.text.is_empty() {
            match known.kind() {
                "function_call" => {
                    pieces.arguments(position, None, &string(item.get("arguments")).unwrap_or_default());
                }
                "message" => {
                    for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
                        pieces.text(&string(part.get("text")).unwrap_or_default());
                    }
                }
                _ => {}
            }
        }
    }

    /// The position of a call among the calls.
    fn calls_before(&self, index: u64) -> usize {
        self.items.iter().filter(|(known, item)| *known < index && item.kind() == "function_call").count()
    }
}
