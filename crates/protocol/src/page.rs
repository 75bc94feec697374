//! Pages of lists. Items stay JSON: events are handed on as the bytes they are stored as.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A page of `GET /api/conversations/search`: `ConversationInfo` objects.
pub type ConversationPage = Page<Value>;

/// A page of `GET .../events/search`: events without null members.
pub type EventPage = Page<Value>;

/// A page of anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// What to ask for as `page_id` to get the next page; null on the last.
    pub next_page_id: Option<String>,
}
