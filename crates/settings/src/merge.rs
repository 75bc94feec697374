//! How a change is laid over what is there.

use serde_json::{Map, Value};

/// RFC 7386: objects merge, null removes, everything else replaces.
pub(crate) fn merge_patch(base: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match (value, base.get_mut(name)) {
            (Value::Null, _) => {
                base.shift_remove(name);
            }
            (Value::Object(patch), Some(Value::Object(below))) => merge_patch(below, patch),
            (Value::Object(patch), _) => {
                // A new object has nothing to remove from; a null in it means "not given".
                let mut new = Map::new();
                merge_patch(&mut new, patch);
                base.insert(name.clone(), Value::Object(new));
            }
            (value, _) => {
                base.insert(name.clone(), value.clone());
            }
        }
    }
}

/// As [`merge_patch`], but a null for one of the outermost members is a value: a whole setting is not unset by accident.
pub(crate) fn merge_members(base: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match (value, base.get_mut(name)) {
            (Value::Object(patch), Some(Value::Object(below))) => merge_patch(below, patch),
            (value, _) => {
                base.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(merge: fn(&mut Map<String, Value>, &Map<String, Value>), base: Value, patch: Value) -> Value {
        let mut base = base.as_object().unwrap().clone();
        merge(&mut base, patch.as_object().unwrap());
        Value::Object(base)
    }

    #[test]
    fn nulls_remove_lists_replace_and_objects_merge() {
        let base = || json!({"a": {"x": 1, "y": 2}, "l": [1, 2], "s": "t"});
        let patch = json!({"a": {"x": null, "z": 3}, "l": [9], "s": null, "gone": null, "n": {"k": null, "m": 1}});
        let expected = json!({"a": {"y": 2, "z": 3}, "l": [9], "n": {"m": 1}});
        assert_eq!(merged(merge_patch, base(), patch), expected);
        let patch = json!({"a": {"x": null}, "s": null});
        assert_eq!(merged(merge_members, base(), patch), json!({"a": {"y": 2}, "l": [1, 2], "s": null}));
    }
}
