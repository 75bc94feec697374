//! One question to an issuer of credentials: bounded in time and size, refused in the issuer's own words.

use std::time::Duration;

use jiff::Timestamp;
use openhands_protocol::secret::SecretText;
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::Value;

use crate::{
    LlmError,
    http::{chain, direct_client, http_client},
};

/// An issuer's answer is small.
const LIMIT: usize = 256 * 1024;
/// For an issuer somewhere on the network.
pub(super) const FAR: Duration = Duration::from_secs(20);
/// For one on the same machine, which answers at once or is not there.
pub(super) const NEAR: Duration = Duration::from_secs(3);
/// Words of a refusal are shown up to this length, characters.
const SHOWN: usize = 500;

/// For issuers on the network.
pub(super) fn far() -> Result<Client, LlmError> {
    http_client().map_err(|error| LlmError::ServiceUnavailable(error.to_string()))
}

/// For issuers that every machine has for itself: no proxy can reach them.
pub(super) fn near() -> Result<Client, LlmError> {
    direct_client().map_err(|error| LlmError::ServiceUnavailable(error.to_string()))
}

/// Asks; `issuer` is named in errors. Answers other than good ones are errors.
pub(super) async fn ask(request: RequestBuilder, issuer: &str, patience: Duration) -> Result<String, LlmError> {
    let late = |_| LlmError::Timeout(format!("{issuer} did not answer within {} s", patience.as_secs()));
    tokio::time::timeout(patience, answer(request, issuer)).await.map_err(late)?
}

async fn answer(request: RequestBuilder, issuer: &str) -> Result<String, LlmError> {
    let away =
        |error: reqwest::Error| LlmError::ServiceUnavailable(format!("{issuer}: {}", chain(&error.without_url())));
    let mut answer = request.send().await.map_err(away)?;
    let status = answer.status();
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(away)? {
        if bytes.len() + chunk.len() > LIMIT {
            return Err(LlmError::ServiceUnavailable(format!("{issuer} answered with more than 256 KiB")));
        }
        bytes.extend_from_slice(&chunk);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if status.is_success() { Ok(text) } else { Err(refused(issuer, status, &text)) }
}

/// Issuers that are overloaded or down may be asked again; a no stays a no.
fn refused(issuer: &str, status: StatusCode, body: &str) -> LlmError {
    let text = format!("{issuer} refused: {} (HTTP {})", words(body), status.as_u16());
    let is_passing = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    if is_passing || body.contains("Throttling") {
        LlmError::ServiceUnavailable(text)
    } else {
        LlmError::Authentication(text)
    }
}

/// What an issuer says: OAuth's two members, JSON's `message`, AWS's XML, or the text.
fn words(body: &str) -> String {
    let document: Value = serde_json::from_str(body).unwrap_or_default();
    let member = |name: &str| document.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let said = match (member("error"), member("error_description")) {
        (Some(error), Some(text)) => Some(format!("{error}: {text}")),
        (error, text) => error.or(text).or_else(|| member("message")).map(ToOwned::to_owned),
    };
    let xml = || Some(format!("{}: {}", element(body, "Code")?, element(body, "Message")?));
    let said = said.or_else(xml).unwrap_or_else(|| body.trim().to_owned());
    if said.is_empty() { "without a word".to_owned() } else { said.chars().take(SHOWN).collect() }
}

/// The text of the first XML element of this name.
pub(super) fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let text = text.trim();
    if !text.contains('&') {
        return Some(text.to_owned());
    }
    let marks = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&amp;", "&")];
    Some(marks.iter().fold(text.to_owned(), |text, (mark, character)| text.replace(mark, character)))
}

/// A token as OAuth issues it: `access_token`, and in how many seconds it ends.
pub(super) fn token(body: &str, issuer: &str) -> Result<(SecretText, Option<Timestamp>), LlmError> {
    let document: Value = serde_json::from_str(body).unwrap_or_default();
    let token = document.get("access_token").and_then(Value::as_str).filter(|token| !token.is_empty());
    let token =
        token.ok_or_else(|| LlmError::ServiceUnavailable(format!("{issuer} answered without an access_token")))?;
    // Some write the number as a text.
    let seconds =
        document.get("expires_in").and_then(|seconds| seconds.as_i64().or_else(|| seconds.as_str()?.parse().ok()));
    let expires = seconds.map(|seconds| {
        let lives = jiff::SignedDuration::from_secs(seconds.clamp(0, 7 * 24 * 3600));
        Timestamp::now().saturating_add(lives).unwrap_or(Timestamp::MAX)
    });
    Ok((SecretText::new(token), expires))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_in_the_issuers_words() {
        let error = |status: u16, body: &str| refused("x", StatusCode::from_u16(status).unwrap(), body);
        let oauth = error(400, r#"{"error": "invalid_grant", "error_description": "expired"}"#);
        assert_eq!(oauth.to_string(), "x refused: invalid_grant: expired (HTTP 400)");
        assert_eq!(oauth.code(), "LLMAuthenticationError");
        let xml = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>a &amp; b</Message></Error></ErrorResponse>";
        assert_eq!(error(403, xml).to_string(), "x refused: AccessDenied: a & b (HTTP 403)");
        assert_eq!(error(404, " ").to_string(), "x refused: without a word (HTTP 404)");
        for (status, body) in [(503, ""), (429, ""), (400, "<Code>Throttling</Code>")] {
            assert!(error(status, body).is_retryable(), "{status}");
        }
    }

    #[test]
    fn tokens_and_their_ends() {
        let (token, expires) = token(r#"{"access_token": "t", "expires_in": "3600"}"#, "x").unwrap();
        assert_eq!(token.expose(), "t");
        let left = expires.unwrap().duration_since(Timestamp::now()).as_secs();
        assert!((3590..=3600).contains(&left), "{left}");
        assert_eq!(super::token(r#"{"access_token": "t"}"#, "x").unwrap().1, None);
        assert_eq!(super::token("{}", "x").unwrap_err().code(), "LLMServiceUnavailableError");
    }
}
