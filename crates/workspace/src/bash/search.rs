//! What a search for bash events asks for, and one page of its answer.

use bytes::Bytes;
use openhands_protocol::bash::{BashEventKind, BashId};

use super::key::EventKey;

/// Most events of a page.
pub const MAX_PAGE: usize = 100;
/// Bytes after which a page ends early; what is left is on the next page.
pub(super) const MAX_PAGE_BYTES: usize = 32 * 1024 * 1024;

/// Filters and order of a search. The default finds everything, oldest first.
#[derive(Clone, Debug, Default)]
pub struct BashSearch {
    /// Only events of this kind.
    pub kind: Option<BashEventKind>,
    /// Only outputs of this command; never the command itself.
    pub command: Option<BashId>,
    /// Only events of this time or later, microseconds since 1970.
    pub from_micros: Option<i64>,
    /// Only events before this time, microseconds since 1970.
    pub before_micros: Option<i64>,
    /// Only outputs of a higher order; commands pass.
    pub order_above: Option<i64>,
    /// Newest first.
    pub descending: bool,
    /// Where the page starts: `next_page_id` of the page before. What is not known starts at the beginning.
    pub page_id: Option<String>,
    /// Most events of the page, at most [`MAX_PAGE`]; 0 means [`MAX_PAGE`].
    pub limit: usize,
}

impl BashSearch {
    /// Whether an event passes, as far as its name and its order (when known) tell.
    pub(super) fn accepts(&self, key: &EventKey, order: Option<i64>) -> bool {
        self.kind.is_none_or(|kind| kind == key.kind)
            && self.from_micros.is_none_or(|from| key.micros >= from)
            && self.before_micros.is_none_or(|before| key.micros < before)
            && self.accepts_order(order)
    }

    pub(super) fn accepts_order(&self, order: Option<i64>) -> bool {
        match (self.order_above, order) {
            (Some(above), Some(order)) => order > above,
            _ => true,
        }
    }

    pub(super) fn page_size(&self) -> usize {
        if self.limit == 0 { MAX_PAGE } else { self.limit.min(MAX_PAGE) }
    }
}

/// One page of events as they go on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BashPage {
    /// JSON objects.
    pub items: Vec<Bytes>,
    /// Where the next page starts; `None` at the end.
    pub next_page_id: Option<String>,
}

impl BashPage {
    /// The page as JSON, made of the events' own bytes.
    #[must_use]
    pub fn to_json(&self) -> Bytes {
        let size = self.items.iter().map(|item| item.len() + 1).sum::<usize>() + 128;
        let mut json = Vec::with_capacity(size);
        json.extend_from_slice(b"{\"items\":");
        write_list(&mut json, self.items.iter().map(Some));
        json.extend_from_slice(b",\"next_page_id\":");
        match &self.next_page_id {
            // A page id is an event's name: letters, digits and underscores.
            Some(id) => json.extend_from_slice(format!("\"{id}\"").as_bytes()),
            None => json.extend_from_slice(b"null"),
        }
        json.push(b'}');
        json.into()
    }
}

/// A JSON list of events, null for those that are missing.
#[must_use]
pub fn events_to_json(events: &[Option<Bytes>]) -> Bytes {
    let mut json = Vec::with_capacity(events.iter().flatten().map(Bytes::len).sum::<usize>() + events.len() * 5 + 2);
    write_list(&mut json, events.iter().map(Option::as_ref));
    json.into()
}

fn write_list<'a>(json: &mut Vec<u8>, events: impl Iterator<Item = Option<&'a Bytes>>) {
    json.push(b'[');
    for (index, event) in events.enumerate() {
        if index > 0 {
            json.push(b',');
        }
        match event {
            Some(event) => json.extend_from_slice(event),
            None => json.extend_from_slice(b"null"),
        }
    }
    json.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_json() {
        let page = BashPage {
            items: vec![Bytes::from_static(b"{}"), Bytes::from_static(b"1")],
            next_page_id: Some("a_b".to_owned()),
        };
        assert_eq!(page.to_json(), r#"{"items":[{},1],"next_page_id":"a_b"}"#);
        assert_eq!(BashPage::default().to_json(), r#"{"items":[],"next_page_id":null}"#);
        assert_eq!(events_to_json(&[None, Some(Bytes::from_static(b"{}"))]), "[null,{}]");
    }
}
