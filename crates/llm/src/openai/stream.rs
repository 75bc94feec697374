//! Tool calls out of a stream: which call a piece belongs to, in every numbering that servers use.

use serde_json::Value;

use super::response::{Assembly, Call, arguments};
use crate::{
    adapter::{Pieces, string},
    answer::CALLS_LIMIT,
};

impl Assembly {
    pub(super) fn take_call(&mut self, piece: &Value, pieces: &mut Pieces<'_>) {
        let function = piece.get("function");
        let id = string(piece.get("id"));
        let name = function.and_then(|function| string(function.get("name")));
        let position = self.position(piece.get("index").and_then(Value::as_u64), id.as_deref(), name.is_some());
        let Some((index, call)) = position.and_then(|position| Some((position, self.calls.get_mut(position)?))) else {
            return;
        };
        if call.id.is_none() {
            call.id = id;
        }
        // The name comes once, or again with every piece.
        let new_name = name.filter(|_| call.name.is_empty());
        call.name.push_str(new_name.as_deref().unwrap_or_default());
        let more = function.map(|function| arguments(function.get("arguments"))).unwrap_or_default();
        call.arguments.push_str(&more);
        pieces.arguments(index, new_name.as_deref(), &more);
    }

    /// Servers number their calls, or only give ids, or give every call the number 0 with another id, or send calls whole without
    /// either.
    fn position(&mut self, index: Option<u64>, id: Option<&str>, named: bool) -> Option<usize> {
        // A call that begins under another number is another one, even with an id that was there.
        let begins_anew = |call: &Call| named && index.is_some() && call.index != index;
        let by_id =
            id.and_then(|id| self.calls.iter().position(|call| call.id.as_deref() == Some(id) && !begins_anew(call)));
        let known = by_id.or_else(|| match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index && (id.is_none() || call.id.is_none())),
            None if id.is_none() && !named => self.calls.len().checked_sub(1),
            None => None,
        });
        if known.is_some() {
            return known;
        }
        if self.calls.len() >= CALLS_LIMIT {
            return None;
        }
        self.calls.push(Call { index, ..Call::default() });
        Some(self.calls.len() - 1)
    }
}
