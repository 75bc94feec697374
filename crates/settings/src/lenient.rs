//! Reading JSON as forms and older clients write it: numbers as text, whole numbers with a fraction of zero, switches as words. Only
//! where the member does not take the value as it stands.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::error::Invalid;

/// Most values of one document that are put right; no honest client needs more.
const MOST: usize = 64;

/// Reads a value.
///
/// # Errors
/// [`Invalid`] names the first member that is wrong and cannot be meant otherwise.
pub(crate) fn read<T: DeserializeOwned>(json: &Value) -> Result<T, Invalid> {
    let mut corrected: Option<Value> = None;
    for _ in 0..=MOST {
        let error = match serde_path_to_error::deserialize(corrected.as_ref().unwrap_or(json)) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let text = error.inner().to_string();
        let place = at(corrected.get_or_insert_with(|| json.clone()), error.path());
        match place.and_then(|value| meant(value, &text).map(|new| (value, new))) {
            Some((value, new)) => *value = new,
            None => return Err(Invalid::of(&error)),
        }
    }
    Err(Invalid::new("", "too many values of a wrong type"))
}

fn at<'a>(json: &'a mut Value, path: &serde_path_to_error::Path) -> Option<&'a mut Value> {
    path.iter().try_fold(json, |value, segment| match segment {
        Segment::Map { key } => value.get_mut(key.as_str()),
        Segment::Seq { index } => value.get_mut(index),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
}

/// What a refused value may have been meant as, by what serde says it expected.
fn meant(value: &Value, refusal: &str) -> Option<Value> {
    let (_, expected) = refusal.split_once(", expected ")?;
    let wants = |words: &[&str]| words.iter().any(|word| expected.starts_with(word));
    match value {
        Value::String(text) if wants(&["a boolean"]) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Some(true.into()),
            "false" | "0" | "no" | "off" => Some(false.into()),
            _ => None,
        },
        Value::Number(number) if wants(&["a boolean"]) => match number.as_u64() {
            Some(0) => Some(false.into()),
            Some(1) => Some(true.into()),
            _ => None,
        },
        Value::String(text) if wants(&["f64", "f32", "u", "i"]) => {
            serde_json::from_str::<Value>(text.trim()).ok().filter(Value::is_number)
        }
        Value::Number(number) if wants(&["u", "i"]) => {
            let number = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15)?;
            #[expect(clippy::cast_possible_truncation, reason = "a whole number far below 2^63")]
            let whole = number as i64;
            Some(whole.into()).filter(|whole| whole != value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use openhands_protocol::LlmConfig;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_meant_is_read() {
        let config: LlmConfig = read(&json!({
            "temperature": "0.5", "timeout": 300.0, "num_retries": "3", "stream": "true", "seed": "-1", "model": "5",
            "caching_prompt": 0, "log_completions": 1,
        }))
        .unwrap();
        let expected = LlmConfig {
            temperature: Some(0.5),
            timeout: Some(300),
            num_retries: 3,
            stream: true,
            seed: Some(-1),
            model: "5".to_owned(),
            caching_prompt: false,
            log_completions: true,
            ..LlmConfig::default()
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn what_cannot_be_meant_is_named() {
        for (json, expected) in [
            (json!({"temperature": "hot"}), "temperature: expected a number"),
            (json!({"timeout": 1.5}), "timeout: expected a whole number of 0 or more"),
            (json!({"timeout": "-1"}), "timeout: expected a whole number of 0 or more"),
            (json!({"num_retries": -1}), "num_retries: expected a whole number of 0 or more"),
            (json!({"stream": "maybe"}), "stream: expected a boolean"),
            (json!({"stream": 2}), "stream: expected a boolean"),
            (json!({"model": 5}), "model: expected a string"),
            (json!({"temperature": []}), "temperature: expected a number"),
        ] {
            assert_eq!(read::<LlmConfig>(&json).unwrap_err().to_string(), expected);
        }
    }
}
