//! Frames of `/sockets/session/{id}`: envelopes around events, and the pieces of an answer on its way.
//!
//! An item is an answer of the model that is being streamed. Its id is the id that its event will have, so a client closes
//! the item when a durable frame with that id comes. Each `item_started` is followed by exactly one of: the durable event,
//! an `item_aborted` of the same attempt.

use serde::Serialize;

use crate::EventId;

/// Largest frame that is sent, bytes; a connection that would need a larger one is closed with 1013.
pub const MAX_FRAME: usize = 4 * 1024 * 1024;

/// What a piece of an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceKind {
    /// Visible text.
    Text,
    /// Reasoning.
    Reasoning,
}

/// A frame that holds no event. Members without a value are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SessionFrame<'a> {
    /// The first frame: which part of the history follows.
    Sync {
        /// The client's `after_seq`.
        #[serde(skip_serializing_if = "Option::is_none")]
        from_seq: Option<i64>,
        /// The last event of the log at this moment.
        #[serde(skip_serializing_if = "Option::is_none")]
        through_seq: Option<u64>,
    },
    /// The model begins to answer; a higher attempt replaces what lower ones showed.
    ItemStarted {
        /// The id that the answer's event will have.
        item_id: &'a EventId,
        /// Counts from 1.
        attempt: u32,
        /// The last event before the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        anchor_seq: Option<u64>,
    },
    /// A piece of the answer, secrets hidden.
    Delta {
        /// The item.
        item_id: &'a EventId,
        /// Its attempt.
        attempt: u32,
        /// Counts from 0 within the attempt; a gap means that pieces were not seen.
        order: u64,
        /// Text or reasoning.
        kind: PieceKind,
        /// The piece.
        content: &'a str,
        /// The provider's choice; always the first.
        choice_index: u32,
    },
    /// An attempt ended without an event.
    ItemAborted {
        /// The item.
        item_id: &'a EventId,
        /// The attempt that was last started.
        attempt: u32,
        /// `cancelled`, `retry`, `no_durable_event`, or the code of an error.
        reason: &'a str,
    },
    /// Something is wrong with this socket.
    Error {
        /// The error's class name.
        code: &'a str,
        /// What is wrong.
        detail: &'a str,
    },
}

impl SessionFrame<'_> {
    /// The frame as JSON text.
    #[must_use]
    pub fn text(&self) -> String {
        // Strings and numbers only, so this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The frame of a stored event: its position in the log and its bytes, word for word.
#[must_use]
pub fn durable(seq: u64, event: &[u8]) -> Vec<u8> {
    envelope(&format!(r#"{{"type":"durable","seq":{seq},"event":"#), event)
}

/// The frame of an event that is not stored.
#[must_use]
pub fn transient(event: &[u8]) -> Vec<u8> {
    envelope(r#"{"type":"transient","event":"#, event)
}

fn envelope(head: &str, event: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(head.len() + event.len() + 1);
    frame.extend_from_slice(head.as_bytes());
    frame.extend_from_slice(event);
    frame.push(b'}');
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_shapes_of_the_protocol() {
        let id = EventId::from("e1");
        let table = [
            (SessionFrame::Sync { from_seq: None, through_seq: None }, r#"{"type":"sync"}"#),
            (
                SessionFrame::Sync { from_seq: Some(-1), through_seq: Some(4) },
                r#"{"type":"sync","from_seq":-1,"through_seq":4}"#,
            ),
            (
                SessionFrame::ItemStarted { item_id: &id, attempt: 1, anchor_seq: Some(4) },
                r#"{"type":"item_started","item_id":"e1","attempt":1,"anchor_seq":4}"#,
            ),
            (
                SessionFrame::Delta {
                    item_id: &id,
                    attempt: 2,
                    order: 7,
                    kind: PieceKind::Reasoning,
                    content: "a\"b",
                    choice_index: 0,
                },
                r#"{"type":"delta","item_id":"e1","attempt":2,"order":7,"kind":"reasoning","content":"a\"b","choice_index":0}"#,
            ),
            (
                SessionFrame::ItemAborted { item_id: &id, attempt: 2, reason: "cancelled" },
                r#"{"type":"item_aborted","item_id":"e1","attempt":2,"reason":"cancelled"}"#,
            ),
            (
                SessionFrame::Error { code: "ValueError", detail: "no" },
                r#"{"type":"error","code":"ValueError","detail":"no"}"#,
            ),
        ];
        for (frame, text) in table {
            assert_eq!(frame.text(), text);
        }
    }

    #[test]
    fn envelopes_hold_the_event_word_for_word() {
        assert_eq!(durable(7, br#"{"id":"e"}"#), br#"{"type":"durable","seq":7,"event":{"id":"e"}}"#);
        assert_eq!(transient(br#"{"id":"e"}"#), br#"{"type":"transient","event":{"id":"e"}}"#);
    }
}
