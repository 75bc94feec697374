//! Fetches secrets that a conversation names by address instead of by value. Bounded in time and size; follows no redirects,
//! so that the headers, which hold credentials, reach only the address that was given.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use openhands_conversation::SecretFetcher;
use openhands_protocol::secret::SecretText;
use openhands_secrets::Lookup;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(30);
/// Longest secret, bytes.
const MAX_SECRET: usize = 64 * 1024;
/// Where addresses without a host are looked up.
const BASE_VARIABLE: &str = "OH_INTERNAL_SERVER_URL";
const DEFAULT_BASE: &str = "http://127.0.0.1:8000";

/// Makes the function that conversations fetch with. Failures are logged without the address's query and answered with `None`.
#[must_use]
pub fn fetcher() -> SecretFetcher {
    Arc::new(|lookup| {
        Box::pin(async move {
            match fetch(&lookup).await {
                Ok(secret) => Some(secret),
                Err(reason) => {
                    tracing::warn!(reason, "a secret could not be looked up");
                    None
                }
            }
        })
    })
}

async fn fetch(lookup: &Lookup) -> Result<SecretText, String> {
    let server = std::env::var(BASE_VARIABLE).unwrap_or_else(|_| DEFAULT_BASE.to_owned());
    let client = openhands_llm::http_client().map_err(|error| error.to_string())?;
    let mut request = client.get(lookup.absolute_url(&server)).timeout(LIMIT);
    for (name, value) in &lookup.headers {
        request = request.header(name, value.expose());
    }
    let answer = request.send().await.map_err(|error| error.without_url().to_string())?;
    if !answer.status().is_success() {
        return Err(format!("the address answered {}", answer.status()));
    }
    let mut body = Vec::new();
    let mut chunks = answer.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| error.without_url().to_string())?;
        if body.len() + chunk.len() > MAX_SECRET {
            return Err(format!("the answer is longer than {MAX_SECRET} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    String::from_utf8(body).map(SecretText::new).map_err(|_| "the answer is no text".to_owned())
}
