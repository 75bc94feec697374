//! Writing the status: the difference only, guarded by the version that was read.

use jiff::Timestamp;
use openhands_crds::Conversation;
use serde_json::{Map, Value, json};

use super::status::{News, after};
use crate::{
    api::CallError,
    context::Context,
    view::{ConversationView, Key},
};
use std::sync::Arc;

/// Rounds of read and write before a conflict is given back to the caller.
const ROUNDS: usize = 4;

/// What stands against a write.
#[derive(Debug)]
pub(crate) enum NotWritten {
    /// The Conversation is gone, or is another one of the same name.
    Gone,
    /// The status names another pod than the news do.
    OtherBound,
    /// See [`CallError`].
    Call(CallError),
}

/// Writes the news, unless the status says so already. A conflict is answered by reading again and comparing: somebody else's
/// edit of a label is no reason to give a healthy pod up.
pub(crate) async fn write(
    cx: &Context,
    view: &Arc<ConversationView>,
    news: &[News<'_>],
) -> Result<Arc<ConversationView>, NotWritten> {
    let mut view = Arc::clone(view);
    for _ in 0..ROUNDS {
        let bound = news.iter().find_map(|one| if let News::Bound(sandbox) = one { Some(sandbox) } else { None });
        if let (Some(bound), Some(named)) = (bound, &view.status.sandbox)
            && bound.pod_uid != named.pod_uid
        {
            return Err(NotWritten::OtherBound);
        }
        let next = after(&view, Timestamp::now(), news);
        if next == *view.status {
            return Ok(view);
        }
        let (Ok(old), Ok(new)) = (serde_json::to_value(&*view.status), serde_json::to_value(&next)) else {
            return Err(NotWritten::Call(CallError::Refused("the status cannot be written as JSON".to_owned())));
        };
        let patch = json!({
            "metadata": {"uid": *view.uid, "resourceVersion": *view.version},
            "status": difference(&old, &new),
        });
        match cx.kube.merge_status::<Conversation>(&view.key.namespace, &view.key.name, &patch).await {
            Ok(written) => return Ok(keep(cx, written)),
            Err(CallError::NotFound) => return Err(NotWritten::Gone),
            Err(CallError::Conflict(_)) => view = read(cx, &view).await?,
            Err(error) => return Err(NotWritten::Call(error)),
        }
    }
    Err(NotWritten::Call(CallError::Conflict("the object keeps changing".to_owned())))
}

/// Reads a Conversation from the source into the world.
pub(crate) async fn read(cx: &Context, view: &ConversationView) -> Result<Arc<ConversationView>, NotWritten> {
    match cx.kube.get::<Conversation>(&view.key.namespace, &view.key.name).await {
        Ok(found) if found.metadata.uid.as_deref() == Some(&*view.uid) => Ok(keep(cx, found)),
        Ok(_) | Err(CallError::NotFound) => Err(NotWritten::Gone),
        Err(error) => Err(NotWritten::Call(error)),
    }
}

fn keep(cx: &Context, object: Conversation) -> Arc<ConversationView> {
    let view = ConversationView::from(object);
    let key: Key = view.key.clone();
    let fallback = Arc::new(view.clone());
    cx.world.put_conversation(view);
    // A newer state than the one just read may be there already.
    cx.world.conversation(&key).filter(|known| known.uid == fallback.uid).unwrap_or(fallback)
}

/// A JSON merge patch that turns one value into the other; members that went are null in it.
pub(crate) fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for (name, value) in new {
        match old.get(name) {
            Some(before) if before == value => {}
            Some(before @ Value::Object(_)) if value.is_object() => {
                patch.insert(name.clone(), difference(before, value));
            }
            _ => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_holds_what_changed_and_nulls_what_went() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": 0});
        let new = json!({"a": 1, "b": {"c": 1, "d": 3}, "e": [1, 2], "g": {}});
        assert_eq!(difference(&old, &new), json!({"b": {"d": 3}, "e": [1, 2], "g": {}, "f": null}));
    }
}
