//! Which events a list shows: by kind, source, time and message text. What the log knows by heart is asked first; the bytes
//! of an event are read only for what is shown, and for the text.

use std::sync::Arc;

use openhands_protocol::{Event, EventId};
use openhands_store::{EventHead, EventLog, StoredEvent};

use crate::{error::ApiError, query::Query};

/// Events looked at before other tasks get their turn.
const STEP: u64 = 256;

/// The conditions; all must hold.
#[derive(Debug, Default)]
pub(super) struct Filter {
    kind: Option<String>,
    source: Option<String>,
    body: Option<String>,
    from: Option<String>,
    before: Option<String>,
}

/// A page.
pub(super) struct Found {
    /// Its events, in order.
    pub events: Vec<Arc<StoredEvent>>,
    /// The first event of the next page.
    pub next: Option<EventId>,
}

impl Filter {
    /// Reads the conditions of a query.
    pub(super) fn read(query: &mut Query) -> Self {
        let text = |query: &Query, name| query.text(name).map(str::to_owned);
        Self {
            // The reference also takes a class's full path.
            kind: text(query, "kind").map(|kind| kind.rsplit('.').next().unwrap_or_default().to_owned()),
            source: text(query, "source"),
            body: text(query, "body").map(|body| body.to_lowercase()),
            from: query.time("timestamp__gte"),
            before: query.time("timestamp__lt"),
        }
    }

    fn is_empty(&self) -> bool {
        let Self { kind, source, body, from, before } = self;
        kind.is_none() && source.is_none() && body.is_none() && from.is_none() && before.is_none()
    }

    fn head_matches(&self, head: &EventHead) -> bool {
        self.kind.as_deref().is_none_or(|kind| *head.kind == *kind)
            && self.source.as_deref().is_none_or(|source| head.source.as_str() == source)
            && self.from.as_deref().is_none_or(|from| head.timestamp.as_str() >= from)
            && self.before.as_deref().is_none_or(|before| head.timestamp.as_str() < before)
            && (self.body.is_none() || *head.kind == *"MessageEvent")
    }

    fn text_matches(&self, event: &StoredEvent) -> bool {
        let Some(wanted) = &self.body else { return true };
        let Ok(Event::Message(message)) = event.parse() else { return false };
        let mut text = message.llm_message.joined_text();
        for part in &message.extended_content {
            text.push(' ');
            text.push_str(&part.text);
        }
        if let Some(reasoning) = &message.llm_message.reasoning_content {
            text.push(' ');
            text.push_str(reasoning);
        }
        text.to_lowercase().contains(wanted)
    }

    /// The event at a position, when it is wanted.
    async fn look_at(&self, log: &EventLog, seq: u64) -> Result<Option<EventId>, ApiError> {
        if self.is_empty() {
            return Ok(log.id(seq));
        }
        let Some(head) = log.head(seq).filter(|head| self.head_matches(head)) else { return Ok(None) };
        if self.body.is_some() {
            let events = log.load(seq, seq.saturating_add(1)).await.map_err(ApiError::internal)?;
            if !events.first().is_some_and(|event| self.text_matches(event)) {
                return Ok(None);
            }
        }
        Ok(Some(head.id))
    }

    /// The first `limit` wanted events from `from` on (from the beginning when it is unknown), oldest or newest first.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(super) async fn page(
        &self,
        log: &EventLog,
        from: Option<&EventId>,
        limit: usize,
        newest_first: bool,
    ) -> Result<Found, ApiError> {
        let len = log.written();
        let start = from.and_then(|id| log.position(id)).filter(|seq| *seq < len);
        let mut cursor = match (start, newest_first) {
            (Some(seq), _) => Some(seq),
            (None, true) => len.checked_sub(1),
            (None, false) => (len > 0).then_some(0),
        };
        let mut wanted = Vec::new();
        let mut next = None;
        let mut looked = 0_u64;
        while let Some(seq) = cursor {
            if let Some(id) = self.look_at(log, seq).await? {
                if wanted.len() == limit {
                    next = Some(id);
                    break;
                }
                wanted.push(seq);
            }
            cursor = if newest_first { seq.checked_sub(1) } else { Some(seq + 1).filter(|seq| *seq < len) };
            looked += 1;
            if looked.is_multiple_of(STEP) {
                tokio::task::yield_now().await;
            }
        }
        Ok(Found { events: load(log, &wanted).await?, next })
    }

    /// How many events are wanted.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(super) async fn count(&self, log: &EventLog) -> Result<u64, ApiError> {
        let len = log.written();
        if self.is_empty() {
            return Ok(len);
        }
        let mut count = 0;
        for seq in 0..len {
            if self.look_at(log, seq).await?.is_some() {
                count += 1;
            }
            if seq % STEP == STEP - 1 {
                tokio::task::yield_now().await;
            }
        }
        Ok(count)
    }
}

/// The events at these positions; neighbours are read together.
async fn load(log: &EventLog, positions: &[u64]) -> Result<Vec<Arc<StoredEvent>>, ApiError> {
    let (Some(low), Some(high)) = (positions.iter().min(), positions.iter().max()) else { return Ok(Vec::new()) };
    let is_dense = high - low < 2 * positions.len() as u64;
    if is_dense {
        let all = log.load(*low, high.saturating_add(1)).await.map_err(ApiError::internal)?;
        return Ok(positions.iter().filter_map(|seq| all.iter().find(|event| event.seq == *seq).cloned()).collect());
    }
    let mut events = Vec::with_capacity(positions.len());
    for seq in positions {
        events.extend(log.load(*seq, seq.saturating_add(1)).await.map_err(ApiError::internal)?);
    }
    Ok(events)
}
