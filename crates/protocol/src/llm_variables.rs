//! A model's configuration out of environment variables (F1-LLM-36). Never looks at the process's environment by itself.

use serde_json::{Map, Value};

use crate::{LlmConfig, expected::expected};

/// A variable whose value does not suit its member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} has a value that llm.{1} does not take{2}")]
pub struct InvalidVariable(String, String, String);

/// Is not among the members of a configuration that does not set it.
const UNSET: &str = "safety_settings";

impl LlmConfig {
    /// The configuration that variables such as `LLM_MODEL` and `LLM_NUM_RETRIES` describe: prefix, then the member's name in upper
    /// case. Others with the prefix are ignored, members without a variable keep their defaults. Lists and objects are JSON; `true`,
    /// `1`, `yes` and `on` are true.
    ///
    /// # Errors
    /// [`InvalidVariable`] names the first variable whose value does not suit; the value itself may be a secret and is not repeated.
    pub fn from_variables<'a>(
        prefix: &str,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, InvalidVariable> {
        let mut members = Self::members_from_variables(prefix, variables)?.into();
        Self::complete(&mut members);
        // Every member was read by itself already.
        serde_json::from_value(members).map_err(|_| InvalidVariable(prefix.to_owned(), String::new(), String::new()))
    }

    /// Only the members that variables name, as JSON; see [`LlmConfig::from_variables`].
    ///
    /// # Errors
    /// As there.
    pub fn members_from_variables<'a>(
        prefix: &str,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Map<String, Value>, InvalidVariable> {
        let known = serde_json::to_value(Self::default()).unwrap_or_default();
        let mut members = Map::new();
        for (variable, text) in variables {
            let Some(name) = variable.strip_prefix(prefix).map(str::to_ascii_lowercase) else { continue };
            if text.trim().is_empty() || (known.get(&name).is_none() && name != UNSET) {
                continue;
            }
            let mut refusal = String::new();
            let value = readings(text).into_iter().find(|value| match suits(&name, value) {
                Ok(()) => true,
                Err(error) => {
                    refusal = expected(&error.to_string()).map(|what| format!(": it takes {what}")).unwrap_or_default();
                    false
                }
            });
            let value = value.ok_or_else(|| InvalidVariable(variable.to_owned(), name.clone(), refusal))?;
            members.insert(name, value);
        }
        Ok(members)
    }
}

/// What a text may mean; the member's type decides. A text first: a key that looks like a number stays a key.
fn readings(text: &str) -> Vec<Value> {
    let word = text.trim().to_ascii_lowercase();
    let mut readings = vec![Value::from(text)];
    match word.as_str() {
        "true" | "1" | "yes" | "on" => readings.push(true.into()),
        "false" | "0" | "no" | "off" => readings.push(false.into()),
        _ => {}
    }
    readings.extend(serde_json::from_str::<Value>(text.trim()).ok());
    readings
}

fn suits(name: &str, value: &Value) -> serde_json::Result<()> {
    let mut member = Map::new();
    member.insert(name.to_owned(), value.clone());
    serde_json::from_value::<LlmConfig>(member.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::secret::SecretText;

    #[test]
    fn every_kind_of_member_is_read() {
        let variables = [
            ("LLM_MODEL", "anthropic/claude-sonnet-4-5"),
            ("LLM_API_KEY", "12345"),
            ("LLM_NUM_RETRIES", "3"),
            ("LLM_TIMEOUT", "120"),
            ("LLM_TEMPERATURE", "0.5"),
            ("LLM_STREAM", "yes"),
            ("LLM_CACHING_PROMPT", "0"),
            ("LLM_SEED", "1"),
            ("LLM_API_VERSION", "2025-01-01"),
            ("LLM_EXTRA_HEADERS", r#"{"x-team": "blue"}"#),
            ("LLM_BASE_URL", ""),
            ("LLM_UNKNOWN", "x"),
            ("OTHER_MODEL", "x"),
        ];
        let config = LlmConfig::from_variables("LLM_", variables).unwrap();
        let expected = LlmConfig {
            model: "anthropic/claude-sonnet-4-5".to_owned(),
            api_key: Some(SecretText::new("12345")),
            num_retries: 3,
            timeout: Some(120),
            stream_idle_timeout: Some(120.0),
            temperature: Some(0.5),
            stream: true,
            caching_prompt: false,
            seed: Some(1),
            api_version: Some("2025-01-01".to_owned()),
            extra_headers: json!({"x-team": "blue"}).as_object().cloned(),
            ..LlmConfig::default()
        };
        assert_eq!(config, expected);
        assert_eq!(LlmConfig::from_variables("LLM_", []).unwrap(), LlmConfig::default());
    }

    #[test]
    fn every_member_can_be_set() {
        let known = serde_json::to_value(LlmConfig::default()).unwrap();
        for (name, default) in known.as_object().unwrap() {
            // What is not set may be a text, a number, a flag or an object: one of these suits, and is not the default.
            let flag = default.as_bool().map(|flag| (!flag).to_string()).unwrap_or_default();
            let texts = [flag.as_str(), "7", "true", r#"{"a": "b"}"#];
            let variable = format!("LLM_{}", name.to_ascii_uppercase());
            let is_set = texts.iter().filter(|text| !text.is_empty()).any(|text| {
                LlmConfig::from_variables("LLM_", [(variable.as_str(), *text)])
                    .is_ok_and(|config| config != LlmConfig::default())
            });
            assert!(is_set, "{variable}");
        }
        let settings = r#"[{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]"#;
        let config = LlmConfig::from_variables("LLM_", [("LLM_SAFETY_SETTINGS", settings)]).unwrap();
        assert_eq!(config.safety_settings.unwrap()[0]["threshold"], "BLOCK_NONE");
    }

    #[test]
    fn wrong_values_are_named_and_not_repeated() {
        let error = LlmConfig::from_variables("LLM_", [("LLM_NUM_RETRIES", "many")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "LLM_NUM_RETRIES has a value that llm.num_retries does not take: it takes a whole number of 0 or more"
        );
    }
}
