//! The grammar of `OH_*` variables: a shape says which variables may hold a value, reading makes JSON of them.
//!
//! Scalars stand in one variable; a list is JSON, or a count, or `_0`, `_1`, ...; an object is JSON and `_<MEMBER>`, the
//! latter winning; `_IS_NONE=1` is null. Knows nothing of the configuration's fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Longest list that may be given by count or by index.
const MAX_ITEMS: usize = 1000;

/// What a variable may hold.
pub(super) enum Shape {
    /// `1` and `true` are yes, all else is no.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// Text as it is.
    Text,
    /// One of a few words.
    Word(&'static [&'static str]),
    /// The shape, or null by `_IS_NONE`.
    Optional(&'static Shape),
    /// A list.
    List(&'static Shape),
    /// An object with these members.
    Object(&'static [(&'static str, Shape)]),
    /// An object with any members, in JSON only.
    Json,
}

/// A variable that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {reason}")]
pub struct BadVariable {
    /// Its name.
    pub variable: String,
    /// What is wrong and what is expected; never the value.
    pub reason: String,
}

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

fn bad<T>(variable: &str, reason: impl Into<String>) -> Result<T, BadVariable> {
    Err(BadVariable { variable: variable.to_owned(), reason: reason.into() })
}

fn is_yes(text: &str) -> bool {
    text == "1" || text.eq_ignore_ascii_case("true")
}

impl Shape {
    /// Reads the value at `key`; `None` when no variable says anything.
    ///
    /// # Errors
    /// [`BadVariable`] naming the first variable that cannot be read.
    pub(super) fn read(&self, variables: &Variables, key: &str) -> Result<Option<Value>, BadVariable> {
        let text = variables.get(key).map(String::as_str);
        match self {
            Self::Bool => Ok(text.map(|text| is_yes(text).into())),
            Self::Text => Ok(text.map(Into::into)),
            Self::Int => text.map_or(Ok(None), |text| match text.trim().parse::<i64>() {
                Ok(number) => Ok(Some(number.into())),
                Err(_) => bad(key, "expected a whole number"),
            }),
            Self::Float => text.map_or(Ok(None), |text| match text.trim().parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Some(number.into())),
                _ => bad(key, "expected a number"),
            }),
            Self::Word(words) => text.map_or(Ok(None), |text| {
                if words.contains(&text) {
                    Ok(Some(text.into()))
                } else {
                    bad(key, format!("expected one of: {}", words.join(", ")))
                }
            }),
            Self::Optional(inner) => {
                let value = inner.read(variables, key)?;
                let is_none = variables.get(&format!("{key}_IS_NONE")).is_some_and(|text| is_yes(text));
                Ok(value.or_else(|| is_none.then_some(Value::Null)))
            }
            Self::Json => object(key, text).map(|members| members.map(Value::Object)),
            Self::Object(members) => read_object(members, variables, key, text),
            Self::List(item) => read_list(item, variables, key, text),
        }
    }
}

/// Variables below `key` that no member of an object reads, such as misspelt ones.
pub(super) fn unread<'a>(shape: &Shape, variables: &'a Variables, key: &str) -> Vec<&'a str> {
    let Shape::Object(members) = shape else { return Vec::new() };
    let is_read = |rest: &str| {
        members.iter().any(|(name, _)| {
            let more = rest.strip_prefix(name.to_ascii_uppercase().as_str());
            more.is_some_and(|more| more.is_empty() || more.starts_with('_'))
        })
    };
    let below = format!("{key}_");
    let names = variables.keys().map(String::as_str);
    names.filter(|name| name.strip_prefix(below.as_str()).is_some_and(|rest| !is_read(rest))).collect()
}

fn object(key: &str, text: Option<&str>) -> Result<Option<Map<String, Value>>, BadVariable> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(Some(members)),
        Ok(_) => bad(key, "expected a JSON object"),
        Err(error) => bad(key, format!("expected a JSON object: {}", without_value(&error))),
    }
}

/// A parser's complaint without the text it complains about.
pub(super) fn without_value(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Syntax => "it is malformed",
        serde_json::error::Category::Data => "it has the wrong type",
        serde_json::error::Category::Io => "it cannot be read",
    };
    format!("{kind} at line {} column {}", error.line(), error.column())
}

fn read_object(
    members: &'static [(&'static str, Shape)],
    variables: &Variables,
    key: &str,
    text: Option<&str>,
) -> Result<Option<Value>, BadVariable> {
    let mut result = object(key, text)?;
    for (name, shape) in members {
        let member_key = format!("{key}_{}", name.to_ascii_uppercase());
        if let Some(value) = shape.read(variables, &member_key)? {
            let members = result.get_or_insert_default();
            let merged = match members.remove(*name) {
                Some(below) => merge(below, value, false),
                None => value,
            };
            members.insert((*name).to_owned(), merged);
        }
    }
    Ok(result.map(Value::Object))
}

fn read_list(
    item: &'static Shape,
    variables: &Variables,
    key: &str,
    text: Option<&str>,
) -> Result<Option<Value>, BadVariable> {
    let Some(text) = text else {
        let mut items = Vec::new();
        while let Some(value) = item.read(variables, &format!("{key}_{}", items.len()))? {
            items.push(value);
            if items.len() > MAX_ITEMS {
                return bad(key, format!("more than {MAX_ITEMS} items"));
            }
        }
        return Ok((!items.is_empty()).then(|| items.into()));
    };
    let mut items: Vec<Option<Value>> = match serde_json::from_str(text) {
        Ok(Value::Array(items)) => items.into_iter().map(Some).collect(),
        Ok(Value::Number(count)) => match count.as_u64().and_then(|count| usize::try_from(count).ok()) {
            Some(count) if count <= MAX_ITEMS => vec![None; count],
            _ => return bad(key, format!("expected a JSON list, or a count of at most {MAX_ITEMS}")),
        },
        Ok(_) => return bad(key, "expected a JSON list, or a count"),
        Err(error) => return bad(key, format!("expected a JSON list: {}", without_value(&error))),
    };
    for (index, slot) in items.iter_mut().enumerate() {
        let item_key = format!("{key}_{index}");
        let value = item.read(variables, &item_key)?;
        *slot = match (slot.take(), value) {
            (Some(below), Some(above)) => Some(merge(below, above, false)),
            (below, above) => above.or(below),
        };
        if slot.is_none() {
            return bad(&item_key, format!("is missing, but {key} announces it"));
        }
    }
    Ok(Some(items.into_iter().flatten().collect()))
}

/// `above` over `below`: objects by member, lists by index, else `above`. A null above keeps what is below unless
/// `null_wins`.
#[must_use]
pub(super) fn merge(below: Value, above: Value, null_wins: bool) -> Value {
    match (below, above) {
        (Value::Object(mut below), Value::Object(above)) => {
            for (name, value) in above {
                let merged = match below.remove(&name) {
                    Some(old) => merge(old, value, null_wins),
                    None => value,
                };
                below.insert(name, merged);
            }
            Value::Object(below)
        }
        (Value::Array(mut below), Value::Array(above)) => {
            for (index, value) in above.into_iter().enumerate() {
                match below.get_mut(index) {
                    Some(slot) => *slot = merge(slot.take(), value, null_wins),
                    None => below.push(value),
                }
            }
            Value::Array(below)
        }
        (below, Value::Null) if !null_wins => below,
        (_, above) => above,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    static HOOK: Shape = Shape::Object(&[("url", Shape::Text), ("tries", Shape::Int), ("headers", Shape::Json)]);
    static ROOT: Shape = Shape::Object(&[
        ("flag", Shape::Bool),
        ("keys", Shape::List(&Shape::Text)),
        ("hooks", Shape::List(&HOOK)),
        ("path", Shape::Optional(&Shape::Text)),
        ("rate", Shape::Optional(&Shape::Float)),
        ("mode", Shape::Word(&["a", "b"])),
    ]);

    fn read(pairs: &[(&str, &str)]) -> Result<Value, String> {
        let variables = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ROOT.read(&variables, "OH").map(Option::unwrap_or_default).map_err(|error| error.to_string())
    }

    #[test]
    fn every_form_of_every_shape() {
        let table: &[(&[(&str, &str)], Value)] = &[
            (&[], json!(null)),
            (&[("OTHER", "1")], json!(null)),
            (&[("OH_FLAG", "TRUE")], json!({"flag": true})),
            (&[("OH_FLAG", "yes")], json!({"flag": false})),
            (&[("OH_FLAG", "")], json!({"flag": false})),
            (&[("OH", r#"{"flag": true, "x": 1}"#), ("OH_MODE", "b")], json!({"flag": true, "x": 1, "mode": "b"})),
            (&[("OH_KEYS", r#"["a"]"#)], json!({"keys": ["a"]})),
            (&[("OH_KEYS_0", "a"), ("OH_KEYS_1", "b"), ("OH_KEYS_3", "lost")], json!({"keys": ["a", "b"]})),
            (&[("OH_KEYS", r#"["a", "b"]"#), ("OH_KEYS_1", "c")], json!({"keys": ["a", "c"]})),
            (&[("OH_KEYS", "2"), ("OH_KEYS_0", "a"), ("OH_KEYS_1", "b")], json!({"keys": ["a", "b"]})),
            (&[("OH_KEYS", "[]")], json!({"keys": []})),
            (&[("OH_PATH_IS_NONE", "1")], json!({"path": null})),
            (&[("OH_PATH", "p"), ("OH_PATH_IS_NONE", "1")], json!({"path": "p"})),
            (&[("OH_RATE", "0.5")], json!({"rate": 0.5})),
            (
                &[
                    ("OH_HOOKS_0_URL", "u"),
                    ("OH_HOOKS_0_TRIES", "3"),
                    ("OH_HOOKS_1", r#"{"url": "v", "tries": 1}"#),
                    ("OH_HOOKS_1_TRIES", "2"),
                ],
                json!({"hooks": [{"url": "u", "tries": 3}, {"url": "v", "tries": 2}]}),
            ),
            (&[("OH_HOOKS_0_HEADERS", r#"{"A": "b"}"#)], json!({"hooks": [{"headers": {"A": "b"}}]})),
        ];
        for (variables, expected) in table {
            assert_eq!(read(variables).as_ref(), Ok(expected), "{variables:?}");
        }
    }

    #[test]
    fn a_bad_variable_is_named_and_its_value_is_not_shown() {
        let table: &[(&[(&str, &str)], &str)] = &[
            (&[("OH_HOOKS_0_TRIES", "s3cret")], "OH_HOOKS_0_TRIES: expected a whole number"),
            (&[("OH_RATE", "nan")], "OH_RATE: expected a number"),
            (&[("OH_MODE", "c")], "OH_MODE: expected one of: a, b"),
            (&[("OH_KEYS", "")], "OH_KEYS: expected a JSON list: it ends too early at line 1 column 0"),
            (&[("OH_KEYS", r#"{"a": 1}"#)], "OH_KEYS: expected a JSON list, or a count"),
            (&[("OH_KEYS", "3"), ("OH_KEYS_0", "a")], "OH_KEYS_1: is missing, but OH_KEYS announces it"),
            (&[("OH", "s3cret")], "OH: expected a JSON object: it is malformed at line 1 column 1"),
        ];
        for (variables, expected) in table {
            assert_eq!(read(variables), Err((*expected).to_owned()));
        }
    }

    #[test]
    fn merging_goes_by_member_and_by_index() {
        assert_eq!(
            merge(json!({"a": [1, 2], "b": {"c": 1}, "d": 1}), json!({"a": [9], "b": {"e": 2}, "d": null}), false),
            json!({"a": [9, 2], "b": {"c": 1, "e": 2}, "d": 1})
        );
        assert_eq!(merge(json!({"d": 1}), json!({"d": null}), true), json!({"d": null}));
        assert_eq!(merge(json!([1]), json!([2, 3]), true), json!([2, 3]));
    }
}
