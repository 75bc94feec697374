//! Which failure a provider's refusal is: by status, and by the words where providers disagree about the status (F2-ERR rows).

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::LlmError;

/// A text that a provider sends instead of a message is shown up to this length, characters.
const SHOWN: usize = 2000;

/// The prompt does not fit. Lower case, matched anywhere in the body.
const TOO_LONG: [&str; 16] = [
    "context_length_exceeded",
    "model_context_window_exceeded",
    "exceeds the maximum number of tokens allowed",
    "input is too long for requested model",
    "too many input tokens",
    "exceeds the model's maximum context",
    "contextwindowexceeded",
    "maximum context length",
    "context length exceeded",
    "exceeds the context window",
    "exceed context limit",
    "exceeds the available context size",
    "context window exceeds limit",
    "prompt is too long",
    "please reduce the length of",
    "input token count exceeds",
];

/// A history whose calls and results do not fit together. Lower case.
const MALFORMED_HISTORY: [&str; 8] = [
    "`tool_use` ids were found without `tool_result` blocks",
    "tool_use ids were found without `tool_result` blocks",
    "must have a corresponding `tool_",
    "each tool_use must have a single result",
    "multiple `tool_result` blocks with id",
    "unexpected `tool_use_id` found in `tool_result`",
    "must be followed by tool messages responding to each 'tool_call_id'",
    "failed to parse tool call arguments as json",
];

const CONTENT_POLICY: [&str; 4] =
    ["content_policy", "content filtering policy", "output blocked by content filtering", "content_filter"];

/// Reasoning of earlier turns that was not made here: all words of a row. Lower case.
const FOREIGN_REASONING: [&[&str]; 6] = [
    &["invalid_encrypted_content"],
    &["encrypted content", "could not be"],
    &["signature", "thinking", "invalid"],
    &["thought signature", "not valid"],
    &["thought_signature", "invalid"],
    &["item with id", "not found", "rs_"],
];

/// The provider caches nothing that small.
const CACHE_TOO_SMALL: &str = "minimum token count to start caching";

const NO_ACCESS: [&str; 10] = [
    "api key not valid",
    "api_key_invalid",
    "invalid x-api-key",
    "invalid api key",
    "invalid_api_key",
    "incorrect api key",
    "missing api key",
    "invalid authentication",
    "unauthorized",
    "access denied",
];

/// What a provider says about another attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hint {
    /// How long to wait before it.
    pub(crate) after: Option<Duration>,
    /// Whether there should be one.
    pub(crate) again: Option<bool>,
}

impl Hint {
    /// Out of headers, or out of the body where a provider writes it there.
    pub(crate) fn of(headers: &HeaderMap, body: &str, now: Timestamp) -> Self {
        let again = headers.get("x-should-retry").and_then(|word| match word.as_bytes() {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        });
        let after = retry_after(headers, now).or_else(|| retry_delay(body)).or_else(|| told_wait(body));
        Self { after, again }
    }
}

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: LlmError,
    pub(crate) hint: Hint,
}

impl From<LlmError> for Failed {
    fn from(error: LlmError) -> Self {
        Self { error, hint: Hint::default() }
    }
}

/// An error inside an answer that came with a good status.
pub(crate) struct Reported {
    pub(crate) status: Option<u16>,
    pub(crate) message: String,
    /// All of it, for looking up words.
    pub(crate) raw: String,
}

/// The error in a document or in an event of a stream.
pub(crate) fn in_document(document: &Value) -> Option<Reported> {
    let error = document.get("error").filter(|error| !error.is_null())?;
    // Some gateways attach empty errors to good answers; in a stream that breaks, the piece that says so has a choice too.
    let choice = document.get("choices").and_then(|choices| choices.get(0));
    let has_failed = |choice: &Value| choice.get("finish_reason").and_then(Value::as_str) == Some("error");
    choice.is_none_or(has_failed).then(|| reported(error))
}

/// What an error's object says.
pub(crate) fn reported(error: &Value) -> Reported {
    let code = |member: &str| {
        let code = error.get(member)?;
        code.as_u64().or_else(|| code.as_str()?.parse().ok()).and_then(|code| u16::try_from(code).ok())
    };
    let status = code("status").or_else(|| code("code")).filter(|code| (400..600).contains(code));
    let raw = error.to_string();
    let status = status.or_else(|| by_name(&raw));
    Reported { status, message: told(error).unwrap_or_else(|| shorten(&raw)), raw }
}

/// The status that a named error stands for.
fn by_name(raw: &str) -> Option<u16> {
    let raw = raw.to_ascii_lowercase();
    let names = [
        ("rate_limit", 429),
        ("throttling", 429),
        ("resource_exhausted", 429),
        ("overloaded", 503),
        ("unavailable", 503),
        ("modelnotready", 503),
        ("server_error", 500),
        ("modelerror", 500),
        ("modelstreamerror", 500),
        ("timeout", 504),
        ("deadline_exceeded", 504),
        ("authentication", 401),
        ("permission", 403),
        ("accessdenied", 403),
        ("context_length", 400),
        ("invalid_request", 400),
        ("invalid_argument", 400),
        ("invalid_prompt", 400),
        ("validation", 400),
    ];
    names.iter().find(|(name, _)| raw.contains(name)).map(|(_, status)| *status)
}

/// The provider's own words in an error's body.
pub(crate) fn message(body: &[u8]) -> String {
    let said = serde_json::from_slice::<Value>(body).ok().and_then(|document| {
        // Some answer with a list of one.
        let document = document.get(0).unwrap_or(&document);
        document.get("error").and_then(told).or_else(|| told(document))
    });
    said.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        if text.trim().is_empty() { "no text".to_owned() } else { shorten(text.trim()) }
    })
}

fn told(error: &Value) -> Option<String> {
    if let Some(text) = error.as_str() {
        return Some(shorten(text));
    }
    let text = ["message", "detail", "error", "msg"].iter().find_map(|member| match error.get(*member)? {
        Value::String(text) if !text.is_empty() => Some(shorten(text)),
        nested @ Value::Object(_) => told(nested),
        Value::Null => None,
        other => Some(shorten(&other.to_string())),
    })?;
    // Some failures are told by their code alone, `insufficient_quota` above all.
    match error.get("code").and_then(Value::as_str).filter(|code| !code.is_empty() && !text.contains(code)) {
        Some(code) => Some(format!("{text} [{}]", shorten(code))),
        None => Some(text),
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The failure. `body` is searched for words; `text` is what the user reads.
pub(crate) fn classify(status: u16, body: &str, text: String, retry_after: Option<Duration>) -> LlmError {
    let body = body.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| body.contains(word));
    if status >= 400 && says(&TOO_LONG) {
        return LlmError::ContextWindowExceeded(text);
    }
    if (400..500).contains(&status) && says(&MALFORMED_HISTORY) {
        return LlmError::MalformedHistory(text);
    }
    match status {
        401 | 403 => LlmError::Authentication(text),
        // The model failed, not the request.
        424 => LlmError::Internal(text),
        400 | 404 | 422 if says(&NO_ACCESS) => LlmError::Authentication(text),
        408 | 504 => LlmError::Timeout(text),
        429 => LlmError::RateLimit { message: text, retry_after },
        409 | 425 | 502 | 503 | 529 => LlmError::ServiceUnavailable(text),
        500.. => LlmError::Internal(text),
        _ if says(&CONTENT_POLICY) => LlmError::ContentPolicy(text),
        _ => LlmError::BadRequest(text),
    }
}

/// Whether only the cache marks were refused.
pub(crate) fn is_cache_too_small(error: &LlmError) -> bool {
    matches!(error, LlmError::BadRequest(text) if text.to_lowercase().contains(CACHE_TOO_SMALL))
}

/// Whether only reasoning of earlier turns was refused.
pub(crate) fn is_foreign_reasoning(error: &LlmError) -> bool {
    let LlmError::BadRequest(text) = error else { return false };
    let text = text.to_lowercase();
    FOREIGN_REASONING.iter().any(|words| words.iter().all(|word| text.contains(word)))
}

/// The wait that Google writes into the body: `"retryDelay": "12s"`.
fn retry_delay(body: &str) -> Option<Duration> {
    let (_, rest) = body.split_once("\"retryDelay\"")?;
    let text = rest.split('"').nth(1)?.strip_suffix('s')?;
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0)?;
    Some(Duration::from_secs_f64(seconds.min(1e6)))
}

/// The wait that OpenAI and Azure write into their sentences: "Please try again in 1m2.5s", "Please retry after 20 seconds".
fn told_wait(body: &str) -> Option<Duration> {
    let body = body.to_ascii_lowercase();
    let (_, rest) = ["try again in ", "retry after "].iter().find_map(|words| body.split_once(words))?;
    let (mut rest, mut seconds, mut is_told) = (rest, 0.0, false);
    loop {
        let end = rest.find(|character: char| !(character.is_ascii_digit() || character == '.')).unwrap_or(rest.len());
        let (number, unit) = rest.split_at(end);
        let Ok(number) = number.parse::<f64>() else { break };
        let unit = unit.trim_start();
        // The longest first: "ms" begins as "m" does.
        let units = [
            ("ms", 0.001),
            ("milliseconds", 0.001),
            ("minute", 60.0),
            ("second", 1.0),
            ("h", 3600.0),
            ("m", 60.0),
            ("s", 1.0),
        ];
        let Some((word, worth)) = units.iter().find(|(word, _)| unit.starts_with(word)) else { break };
        (seconds, is_told) = (seconds + number * worth, true);
        rest = unit.get(word.len()..).unwrap_or_default();
    }
    (is_told && f64::is_finite(seconds)).then(|| Duration::from_secs_f64(seconds.clamp(0.0, 1e6)))
}

/// How long the provider asks to wait: milliseconds, seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str| {
        text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0).map(|number| number.min(1e6))
    };
    if let Some(milliseconds) = ["retry-after-ms", "x-ms-retry-after-ms"].iter().find_map(|name| number(header(name)?))
    {
        return Some(Duration::from_secs_f64(milliseconds / 1000.0));
    }
    let text = header("retry-after")?;
    if let Some(seconds) = number(text) {
        return Some(Duration::from_secs_f64(seconds));
    }
    let at = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failures_by_status_and_by_words() {
        for (status, body, expected) in [
            (
                400,
                r#"{"error": {"message": "This model's maximum context length is 8192 tokens"}}"#,
                "LLMContextWindowExceedError",
            ),
            (413, "prompt is too long: 9 > 8", "LLMContextWindowExceedError"),
            (500, r#"{"error": {"code": "context_length_exceeded"}}"#, "LLMContextWindowExceedError"),
            (401, "", "LLMAuthenticationError"),
            (403, "", "LLMAuthenticationError"),
            (400, "Invalid API key", "LLMAuthenticationError"),
            (429, "", "LLMRateLimitError"),
            (408, "", "LLMTimeoutError"),
            (504, "", "LLMTimeoutError"),
            (503, "", "LLMServiceUnavailableError"),
            (529, "", "LLMServiceUnavailableError"),
            (500, "", "LLMServiceUnavailableError"),
            (404, "no such model", "LLMBadRequestError"),
            (400, r#"{"message": "Input is too long for requested model."}"#, "LLMContextWindowExceedError"),
            (
                400,
                "The input token count (9) exceeds the maximum number of tokens allowed (8)",
                "LLMContextWindowExceedError",
            ),
            (400, "input length and `max_tokens` exceed context limit: 1 + 2 > 2", "LLMContextWindowExceedError"),
            (400, "API key not valid. Please pass a valid API key.", "LLMAuthenticationError"),
            (
                400,
                "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: x",
                "LLMMalformedConversationHistoryError",
            ),
            (400, r#"{"error": {"code": "content_policy_violation"}}"#, "LLMContentPolicyViolationError"),
            (302, "", "LLMBadRequestError"),
        ] {
            assert_eq!(classify(status, body, String::new(), None).code(), expected, "{status} {body}");
        }
    }

    #[test]
    fn the_providers_words_are_found() {
        for (body, expected) in [
            (json!({"error": {"message": "a", "code": null}}), "a"),
            (json!({"error": {"message": "a", "code": "used_up"}}), "a [used_up]"),
            (json!({"error": "b"}), "b"),
            (json!([{"error": {"message": "c"}}]), "c"),
            (json!({"detail": "d"}), "d"),
            (json!({"detail": [{"msg": "x"}]}), r#"[{"msg":"x"}]"#),
            (json!({"message": "e"}), "e"),
        ] {
            assert_eq!(message(body.to_string().as_bytes()), expected);
        }
        assert_eq!(message(b"<html>bad gateway</html>"), "<html>bad gateway</html>");
        assert_eq!(message(b" "), "no text");
        assert_eq!(message("ä".repeat(3000).as_bytes()).chars().count(), SHOWN + 3);
    }

    #[test]
    fn errors_inside_good_answers() {
        let status = |error: Value| in_document(&json!({"error": error})).map(|reported| reported.status);
        assert_eq!(status(json!({"message": "m", "code": 429})), Some(Some(429)));
        assert_eq!(status(json!({"message": "m", "type": "overloaded_error"})), Some(Some(503)));
        assert_eq!(status(json!({"message": "m"})), Some(None));
        assert_eq!(status(Value::Null), None);
        assert!(in_document(&json!({"error": {}, "choices": [{}]})).is_none());
    }

    #[test]
    fn only_the_marks_are_refused() {
        let text = "The cached content is of 9 tokens. The minimum token count to start caching is 4096.";
        assert!(is_cache_too_small(&classify(400, text, text.to_owned(), None)));
        assert!(!is_cache_too_small(&LlmError::BadRequest("other".to_owned())));
    }

    #[test]
    fn only_the_reasoning_is_refused() {
        for text in [
            "The encrypted content for item rs_1 could not be verified. [invalid_encrypted_content]",
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            "Thought signature is not valid.",
            "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
        ] {
            assert!(is_foreign_reasoning(&classify(400, text, text.to_owned(), None)), "{text}");
        }
        assert!(!is_foreign_reasoning(&LlmError::BadRequest("invalid".to_owned())));
        assert!(!is_foreign_reasoning(&LlmError::Internal("invalid_encrypted_content".to_owned())));
    }

    #[test]
    fn waits_in_sentences() {
        for (body, milliseconds) in [
            ("Rate limit reached. Please try again in 20s. Visit", Some(20_000)),
            ("Please try again in 1m2.5s.", Some(62_500)),
            ("Please try again in 350ms.", Some(350)),
            ("Please retry after 20 seconds.", Some(20_000)),
            ("try again in 2 minutes", Some(120_000)),
            ("try again in a moment", None),
            ("try again in 9999999999999999999999s", Some(1_000_000_000)),
            ("try again in .s", None),
            ("slow down", None),
        ] {
            assert_eq!(told_wait(body), milliseconds.map(Duration::from_millis), "{body}");
        }
    }

    #[test]
    fn waits_in_every_spelling() {
        assert_eq!(retry_delay(r#"{"retryDelay": "12.5s"}"#), Some(Duration::from_millis(12_500)));
        assert_eq!(retry_delay(r#"{"retryDelay": "soon"}"#), None);
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let wait = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            retry_after(&headers, now)
        };
        assert_eq!(wait("retry-after", "3"), Some(Duration::from_secs(3)));
        assert_eq!(wait("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(wait("retry-after", "Fri, 02 Jan 2026 03:04:15 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(wait("retry-after", "Fri, 02 Jan 2026 03:04:00 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("retry-after", "-1"), None);
        assert_eq!(wait("retry-after", "soon"), None);
    }
}
