//! Errors as Chat Completions and Responses write them: an `error` member, in a good answer or an event too.

use serde_json::Value;

use crate::failure::{self, Reported};

/// The error in a document or in an event of a stream.
pub(crate) fn in_document(document: &Value) -> Option<Reported> {
    failure::in_document(document)
}
