//! What one call sent and got, as a JSON document in the shape that the reference's completion logs have (F1-LLM-27).
//!
//! Messages, tools and answers have the shapes of Chat Completions or, for calls on the Responses interface, of Responses, whatever
//! the provider speaks; `kwargs` has the other members of the body as they were sent. Knows nothing of files or conversations.
//! Headers, and with them keys, are never part of it; what else is secret is hidden by whoever keeps the document.

mod files;
mod shapes;

use std::time::SystemTime;

use openhands_protocol::{LlmConfig, secret};
use serde_json::{Map, Value, json};

pub(crate) use self::files::Files;
use crate::{
    LlmError,
    observer::{CallTrace, Spoken},
};

/// Longest name of a model in a file's name, bytes.
const NAME_LIMIT: usize = 120;
/// How many messages are kept of a document that is too large.
const KEPT_MESSAGES: usize = 8;
/// Longest text that is kept in such a document, bytes; longer ones are mostly images.
const KEPT_TEXT: usize = 16 * 1024;

/// One call's document.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionLog {
    /// `<model>-<unix seconds>-<4 hex digits>[-error].json`; no path.
    pub filename: String,
    /// The document, an object.
    pub data: Value,
}

impl CompletionLog {
    /// Writes a call down. Keys of the model's configuration are hidden wherever they stand.
    #[must_use]
    pub fn of(trace: &CallTrace<'_>) -> Self {
        let now = unix_seconds(SystemTime::now());
        let mut data = asked(trace);
        match trace.result {
            Ok(response) => {
                let response_shape = match trace.destination.spoken {
                    Spoken::Responses => shapes::responses_answer(response, now),
                    _ => shapes::chat_answer(response, now),
                };
                data.insert("response".to_owned(), response_shape);
                data.insert("cost".to_owned(), json!(response.cost));
                data.insert(
                    "usage_summary".to_owned(),
                    json!({
                        "prompt_tokens": response.usage.prompt_tokens,
                        "completion_tokens": response.usage.completion_tokens,
                        "reasoning_tokens": response.usage.reasoning_tokens,
                        "cache_read_tokens": response.usage.cache_read_tokens,
                    }),
                );
            }
            Err(error) => {
                data.insert("error".to_owned(), told(error));
                data.insert("cost".to_owned(), json!(0.0));
            }
        }
        data.insert("timestamp".to_owned(), json!(now));
        data.insert("latency_sec".to_owned(), json!(trace.latency.as_secs_f64()));
        // Ours: the reference writes a file for each attempt that was answered, and none for those that were not.
        data.insert("attempts".to_owned(), attempts(trace));
        let mut data = Value::Object(data);
        hide(&mut data, &keys(trace.config));
        Self { filename: filename(&trace.config.model, now, trace.result.is_err()), data }
    }

    /// The document as text of at most `limit` bytes. A larger one loses long texts and older messages first; `None` when it is
    /// too large even so.
    #[must_use]
    pub fn text(&self, limit: usize) -> Option<String> {
        let text = self.data.to_string();
        if text.len() <= limit {
            return Some(text);
        }
        let mut shorter = self.data.clone();
        shorten(&mut shorter);
        for member in ["messages", "input"] {
            if let Some(Value::Array(all)) = shorter.get_mut(member) {
                let omitted = all.len().saturating_sub(KEPT_MESSAGES);
                all.drain(..omitted);
                if let (Some(members), true) = (shorter.as_object_mut(), omitted > 0) {
                    members.insert(format!("{member}_omitted"), json!(omitted));
                }
            }
        }
        Some(shorter.to_string()).filter(|text| text.len() <= limit)
    }
}

/// The members that say what was asked.
fn asked(trace: &CallTrace<'_>) -> Map<String, Value> {
    let mut sent = match serde_json::from_slice(trace.sent) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    let mut data = Map::new();
    data.insert("context_window".to_owned(), json!(trace.context_window));
    let mut take = |name: &str| sent.remove(name);
    match trace.destination.spoken {
        Spoken::Responses => {
            data.insert("llm_path".to_owned(), json!("responses"));
            for name in ["instructions", "input", "tools"] {
                data.insert(name.to_owned(), take(name).unwrap_or_default());
            }
        }
        Spoken::Chat => {
            for name in ["messages", "tools"] {
                data.insert(name.to_owned(), take(name).unwrap_or_default());
            }
        }
        Spoken::Messages | Spoken::GenerateContent | Spoken::Converse => {
            for name in
                ["messages", "system", "tools", "contents", "systemInstruction", "system_instruction", "toolConfig"]
            {
                take(name);
            }
            data.insert("messages".to_owned(), shapes::chat_messages(trace.request));
            data.insert("tools".to_owned(), shapes::chat_tools(trace.request));
        }
    }
    data.insert("kwargs".to_owned(), sent.into());
    data
}

fn told(error: &LlmError) -> Value {
    let (code, message) = (error.code(), error.to_string());
    json!({"type": code, "message": message, "repr": format!("{code}({message:?})"), "traceback": ""})
}

fn attempts(trace: &CallTrace<'_>) -> Value {
    let attempt = |attempt: &crate::observer::AttemptTrace| {
        json!({
            "began_sec": attempt.began.as_secs_f64(),
            "latency_sec": attempt.latency.as_secs_f64(),
            "failure": attempt.failure,
        })
    };
    trace.attempts.iter().map(attempt).collect()
}

/// A name that is one file wherever it is written: no separators, no control characters.
fn filename(model: &str, now: f64, is_error: bool) -> String {
    let mut name = String::new();
    for character in model.chars() {
        match character {
            '/' => name.push_str("__"),
            '\\' | ':' => name.push('_'),
            other if other.is_control() => name.push('_'),
            other => name.push(other),
        }
        if name.len() >= NAME_LIMIT {
            break;
        }
    }
    let mark: u16 = rand::random();
    let end = if is_error { "-error" } else { "" };
    format!("{name}-{now:.3}-{mark:04x}{end}.json")
}

fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The secrets of a configuration that a provider may repeat, or that a request's extra members may carry.
fn keys(config: &LlmConfig) -> Vec<&str> {
    let named = [&config.api_key, &config.aws_access_key_id, &config.aws_secret_access_key, &config.aws_session_token];
    let headers = config.extra_headers.iter().flatten().filter_map(|(_, value)| value.as_str());
    let mut keys: Vec<&str> = named.into_iter().flatten().map(|key| key.expose().trim()).chain(headers).collect();
    // A placeholder such as "x" is no secret, and would leave no text.
    keys.retain(|key| key.len() >= 6);
    keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
    keys
}

fn hide(value: &mut Value, keys: &[&str]) {
    match value {
        Value::String(text) => {
            for key in keys {
                if text.contains(key) {
                    *text = text.replace(key, secret::MASK);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, keys)),
        Value::Object(members) => members.values_mut().for_each(|member| hide(member, keys)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces texts that are too long by a note.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > KEPT_TEXT => *text = format!("<{} bytes left out>", text.len()),
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
