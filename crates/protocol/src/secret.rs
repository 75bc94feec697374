//! Secret strings and how JSON that holds them is shown.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// What stands for a secret that is not shown; sent by a client it means "keep what is stored".
pub const MASK: &str = "**********";

/// Names of the members that hold secrets in an agent's JSON, at any depth (F1-LLM-03).
pub const LLM_SECRET_MEMBERS: [&str; 4] =
    ["api_key", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"];

/// A secret string: never shown by `Debug`, and written as [`MASK`] unless asked for by [`SecretText::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

/// Replaces every secret member (a string under one of [`LLM_SECRET_MEMBERS`], at any depth) by what `show` makes of it.
/// `show` returning `None` writes null.
pub fn map_llm_secrets(json: &mut Value, show: &mut dyn FnMut(&str) -> Option<String>) {
    match json {
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match value {
                    Value::String(secret) if LLM_SECRET_MEMBERS.contains(&name.as_str()) => {
                        *value = show(secret).map_or(Value::Null, Value::String);
                    }
                    _ => map_llm_secrets(value, show),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| map_llm_secrets(item, show)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_keys_are_mapped_and_nothing_else() {
        let mut agent =
            json!({"llm": {"api_key": "k", "model": "m"}, "condenser": {"llm": {"api_key": null}}, "x": ["k"]});
        map_llm_secrets(&mut agent, &mut |_| Some(MASK.to_owned()));
        assert_eq!(
            agent,
            json!({"llm": {"api_key": MASK, "model": "m"}, "condenser": {"llm": {"api_key": null}}, "x": ["k"]})
        );
        assert_eq!(format!("{:?}", SecretText::new("k")), MASK);
    }
}
