//! Builds observation bodies.

use openhands_protocol::Content;
use serde_json::{Map, Value, json};

use crate::Observation;

/// A body that starts with the members every observation has. `members` must be an object; members that are null are left
/// out; the class name comes last.
pub(crate) fn with(kind: &str, content: &[Content], is_error: bool, members: Value) -> Observation {
    let mut body = Map::new();
    body.insert("content".to_owned(), json!(content));
    body.insert("is_error".to_owned(), is_error.into());
    if let Value::Object(members) = members {
        body.extend(members.into_iter().filter(|(_, value)| !value.is_null()));
    }
    body.insert("kind".to_owned(), kind.into());
    Observation { body: Value::Object(body), finishes: false }
}

/// [`with`] for one text.
pub(crate) fn text(kind: &str, text: impl Into<String>, is_error: bool, members: Value) -> Observation {
    with(kind, &[Content::text(text)], is_error, members)
}
