//! One problem of a request as a 422 lists it: where (`loc`), what (`type`, `msg`), and the refused value with secrets taken
//! out. Knows the shapes of serde's messages, not the requests.

use openhands_protocol::expected::expected;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Longest refused value that is repeated, bytes of JSON.
const MAX_INPUT: usize = 1024;
/// Stands for a value that is not repeated.
const REDACTED: &str = "<redacted>";

/// One entry of a 422's `detail`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// The kind of problem, such as `missing`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The way to the member: `body`, `query` or `path`, then names and indices.
    pub loc: Vec<Value>,
    /// The text for people.
    pub msg: String,
    /// The refused value, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The limit that was crossed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ctx: Option<Value>,
}

impl Problem {
    /// A problem at `loc`.
    pub fn new(kind: &str, loc: impl IntoIterator<Item = impl Into<Value>>, msg: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            loc: loc.into_iter().map(Into::into).collect(),
            msg: msg.into(),
            input: None,
            ctx: None,
        }
    }

    /// Adds the refused value.
    #[must_use]
    pub fn input(mut self, input: impl Into<Value>) -> Self {
        self.input = Some(bounded(redact(input.into(), is_secret_place(&self.loc))));
        self
    }

    /// Adds the limit.
    #[must_use]
    pub fn ctx(mut self, ctx: Value) -> Self {
        self.ctx = Some(ctx);
        self
    }
}

/// Whether a member of this name holds something that must not be repeated.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "password", "credential", "authorization", "cookie", "headers", "env"]
        .iter()
        .any(|word| name.contains(word))
}

fn is_secret_place(loc: &[Value]) -> bool {
    loc.iter().filter_map(Value::as_str).any(is_secret_name)
}

fn redact(value: Value, secret: bool) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| {
                let secret = secret || is_secret_name(&name);
                (name, redact(value, secret))
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.into_iter().map(|item| redact(item, secret)).collect(),
        Value::Null | Value::Bool(_) => value,
        Value::Number(_) | Value::String(_) if secret => REDACTED.into(),
        other => other,
    }
}

fn bounded(value: Value) -> Value {
    if value.to_string().len() > MAX_INPUT { "<too long to repeat>".into() } else { value }
}

/// The problem in a body that is no JSON.
#[must_use]
pub fn not_json(error: &serde_json::Error) -> Problem {
    Problem::new("json_invalid", [json!("body"), json!(error.column())], "JSON decode error")
        .ctx(json!({ "error": error.to_string() }))
}

/// The problem in a value that serde refused, with its place below `root`.
#[must_use]
pub fn refused(root: &str, whole: &Value, error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    use serde_path_to_error::Segment;

    let mut loc = vec![json!(root)];
    let mut at = Some(whole);
    for segment in error.path() {
        match segment {
            Segment::Seq { index } => {
                loc.push(json!(index));
                at = at.and_then(|value| value.get(*index));
            }
            Segment::Map { key } => {
                loc.push(json!(key));
                at = at.and_then(|value| value.get(key.as_str()));
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let text = error.inner().to_string();
    let named = |prefix: &str| text.strip_prefix(prefix).and_then(|rest| rest.split('`').next()).map(str::to_owned);
    if let Some(member) = named("missing field `") {
        loc.push(json!(member));
        return Problem::new("missing", loc, "Field required").input(at.cloned().unwrap_or_default());
    }
    if let Some(member) = named("unknown field `") {
        // The deserialiser's path already ends at the unknown member.
        if loc.last() != Some(&json!(member)) {
            at = at.and_then(|value| value.get(&member));
            loc.push(json!(member));
        }
        return Problem::new("extra_forbidden", loc, "Extra inputs are not permitted")
            .input(at.cloned().unwrap_or_default());
    }
    // serde's text may repeat the refused value, which may be a secret.
    let msg = match expected(&text) {
        _ if is_secret_place(&loc) => "Input is invalid".to_owned(),
        Some(expected) => format!("Input should be {expected}"),
        None => text,
    };
    Problem::new("value_error", loc, msg).input(at.cloned().unwrap_or_default())
}

/// Reads `value` as `T`.
///
/// # Errors
/// The problem, placed below `root` (such as `body`).
pub fn read<T: serde::de::DeserializeOwned>(root: &str, value: Value) -> Result<T, Box<Problem>> {
    serde_path_to_error::deserialize(&value).map_err(|error| Box::new(refused(root, &value, &error)))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Request {
        #[expect(dead_code, reason = "only its reading is tested")]
        name: String,
        #[serde(default)]
        #[expect(dead_code, reason = "only its reading is tested")]
        list: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        #[expect(dead_code, reason = "only its reading is tested")]
        api_key: String,
    }

    fn problem(value: Value) -> Value {
        serde_json::to_value(read::<Request>("body", value).unwrap_err()).unwrap()
    }

    #[test]
    fn problems_name_the_member_and_hide_secrets() {
        assert_eq!(
            problem(json!({"list": []})),
            json!({"type": "missing", "loc": ["body", "name"], "msg": "Field required", "input": {"list": []}})
        );
        assert_eq!(
            problem(json!({"name": "n", "nonsense": 1})),
            json!({"type": "extra_forbidden", "loc": ["body", "nonsense"], "msg": "Extra inputs are not permitted", "input": 1})
        );
        assert_eq!(
            problem(json!({"name": "n", "list": [{"api_key": 12345}]})),
            json!({"type": "value_error", "loc": ["body", "list", 0, "api_key"], "msg": "Input is invalid", "input": "<redacted>"})
        );
        let missing = problem(json!({"list": [{"api_key": "sk-1"}], "secret_key": "s"}));
        assert!(!missing.to_string().contains("sk-1"), "{missing}");
    }
}
