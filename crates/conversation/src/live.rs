//! Shows an answer while the model gives it: pieces to both kinds of sockets, secrets hidden, never stored.
//!
//! Called by the model's stream itself, so nothing here waits. It does not know how an answer ends; the task does, and
//! tells the hub.

use std::sync::Arc;

use openhands_llm::Delta;
use openhands_protocol::{
    Event, EventId, Source,
    event::StreamingDeltaEvent,
    session::{PieceKind, SessionFrame},
    time,
};
use openhands_secrets::{SecretRegistry, StreamMask};
use openhands_store::StoreError;

use crate::{
    core::{Core, draft},
    hub::{Audience, Hub, Published},
};

/// The pieces of one answer.
pub(crate) struct Stream {
    hub: Hub,
    /// The id that the answer's event will have.
    item: EventId,
    bare_kind: Arc<str>,
    delta_kind: Arc<str>,
    text: StreamMask,
    reasoning: StreamMask,
    attempt: u32,
    started: bool,
    order: u64,
}

impl Stream {
    fn new(hub: Hub, secrets: &SecretRegistry, item: EventId) -> Self {
        Self {
            hub,
            item,
            bare_kind: "StreamingDeltaEvent".into(),
            delta_kind: "delta".into(),
            text: secrets.stream_mask(),
            reasoning: secrets.stream_mask(),
            attempt: 1,
            started: false,
            order: 0,
        }
    }

    /// Takes a piece of the answer.
    pub(crate) fn take(&mut self, delta: Delta) {
        match delta {
            Delta::Text(piece) => self.piece(PieceKind::Text, &piece),
            Delta::Reasoning(piece) => self.piece(PieceKind::Reasoning, &piece),
            // The protocol's pieces are text and reasoning; a call shows itself with its event.
            Delta::ToolArguments { .. } => {}
            Delta::Restart => self.restart(),
        }
    }

    /// Shows what was held back because it could have been the beginning of a secret.
    pub(crate) fn finish(&mut self) {
        let (reasoning, text) = (self.reasoning.finish(), self.text.finish());
        self.show(PieceKind::Reasoning, &reasoning);
        self.show(PieceKind::Text, &text);
    }

    fn piece(&mut self, kind: PieceKind, piece: &str) {
        if piece.is_empty() {
            return;
        }
        if !self.started {
            self.started = true;
            self.hub.start_attempt(&self.item, self.attempt);
        }
        let mask = match kind {
            PieceKind::Text => &mut self.text,
            PieceKind::Reasoning => &mut self.reasoning,
        };
        if self.hub.is_heard() {
            let shown = mask.feed(piece);
            self.show(kind, &shown);
        } else {
            // Whoever comes later sees by the order that something was missed, and never the tail of a secret.
            mask.skip(piece);
            self.order += 1;
        }
    }

    fn show(&mut self, kind: PieceKind, content: &str) {
        if content.is_empty() {
            return;
        }
        let order = self.order;
        self.order += 1;
        self.hub.piece(&self.item, |audience| match audience {
            Audience::Events => self.bare(kind, content),
            Audience::Session => Some(self.delta(kind, content, order)),
        });
    }

    fn bare(&self, kind: PieceKind, content: &str) -> Option<Published> {
        let mut base = draft(Source::Agent);
        base.id = EventId::random();
        base.timestamp = time::event_now();
        let (content, reasoning_content) = match kind {
            PieceKind::Text => (Some(content.to_owned()), None),
            PieceKind::Reasoning => (None, Some(content.to_owned())),
        };
        let event = Event::StreamingDelta(StreamingDeltaEvent { base, content, reasoning_content });
        let bytes = serde_json::to_vec(&event).ok()?;
        Some(Published { bytes: bytes.into(), seq: None, kind: Arc::clone(&self.bare_kind) })
    }

    fn delta(&self, kind: PieceKind, content: &str, order: u64) -> Published {
        let frame =
            SessionFrame::Delta { item_id: &self.item, attempt: self.attempt, order, kind, content, choice_index: 0 };
        Published { bytes: frame.text().into(), seq: None, kind: Arc::clone(&self.delta_kind) }
    }

    /// What was shown is void, and what was held back is never shown.
    fn restart(&mut self) {
        self.hub.abort_attempt(&self.item, "retry");
        self.text.clear();
        self.reasoning.clear();
        if std::mem::take(&mut self.started) {
            self.attempt += 1;
        }
        self.order = 0;
    }
}

impl Core {
    /// Makes the stream of the next answer and settles the id of its event.
    pub(crate) fn stream(&mut self) -> Stream {
        let item = EventId::random();
        self.answer = Some(item.clone());
        self.hub.expect(item.clone(), self.log.len().checked_sub(1));
        Stream::new(self.hub.clone(), &self.state.secrets, item)
    }

    /// Appends the events of an answer; the first has the id under which the answer was streamed.
    pub(crate) fn append_answer(&mut self, events: Vec<Event>) -> Result<(), StoreError> {
        let mut item = self.answer.take();
        for mut event in events {
            if let Some(id) = item.take() {
                event.base_mut().id = id;
            }
            self.append(event)?;
        }
        self.hub.give_up("no_durable_event");
        Ok(())
    }
}
