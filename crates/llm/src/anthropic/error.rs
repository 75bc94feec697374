//! Errors of Messages: a document or an event of type `error`.

use serde_json::Value;

use crate::failure::{self, Reported};

/// The error in a document or in an event of a stream.
pub(super) fn in_document(document: &Value) -> Option<Reported> {
    let is_error = document.get("type").and_then(Value::as_str) == Some("error");
    let error =
        document.get("error").filter(|error| !error.is_null() && (is_error || document.get("type").is_none()))?;
    Some(failure::reported(error))
}
