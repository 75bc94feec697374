//! The adapter for Chat Completions and everything that speaks it.
//!
//! One attempt is one POST; the attempts, their waits and the caller's cancellation are here. Dropping or cancelling the call
//! drops the connection with it.

mod error;
mod request;
mod response;
mod stream;

use std::time::Duration;

use async_trait::async_trait;
use openhands_protocol::LlmConfig;
use reqwest::{
    Client, Response,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use self::response::Assembly;
use crate::{
    Delta, DeltaSink, LlmClient, LlmError, LlmRequest, LlmResponse, models::Abilities, pricing, providers::Endpoint,
    retry::Retry,
};

/// The largest answer that is read, whole or streamed, bytes on the wire.
const ANSWER_LIMIT: usize = 32 * 1024 * 1024;
/// Of an error's body this much is read.
const ERROR_LIMIT: usize = 64 * 1024;
/// No attempt lasts longer, whatever the configuration says.
const CEILING: Duration = Duration::from_secs(3600);

/// A model behind Chat Completions.
#[derive(Debug)]
pub(crate) struct OpenAiClient {
    config: LlmConfig,
    endpoint: Endpoint,
    abilities: Abilities,
    headers: HeaderMap,
    retry: Retry,
    http: Client,
}

impl OpenAiClient {
    pub(crate) fn new(config: LlmConfig, endpoint: Endpoint, http: Client) -> Result<Self, LlmError> {
        if !config.native_tool_calling {
            return Err(LlmError::NotSupported("llm.native_tool_calling false; set it to true".to_owned()));
        }
        let abilities = Abilities::of(&config);
        let headers = headers(&config, &endpoint)?;
        let retry = Retry::of(&config);
        Ok(Self { config, endpoint, abilities, headers, retry, http })
    }

    async fn with_retries(&self, request: &LlmRequest, mut pieces: Pieces<'_>) -> Result<LlmResponse, LlmError> {
        let mut temperature = self.config.temperature;
        let mut attempt = 1;
        loop {
            let error = match self.attempt(request, temperature, &mut pieces).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let Some(wait) = self.retry.wait_after(attempt, &error) else { return Err(error) };
            tracing::warn!(model = self.config.model, attempt, code = error.code(), %error, ?wait, "model call failed, trying again");
            pieces.restart();
            // The same request with the same sampling would give the same nothing (F1-LLM-09).
            if matches!(error, LlmError::NoResponse(_)) && temperature == Some(0.0) {
                temperature = Some(1.0);
            }
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        request: &LlmRequest,
        temperature: Option<f64>,
        pieces: &mut Pieces<'_>,
    ) -> Result<LlmResponse, LlmError> {
        let streamed = pieces.sink.is_some();
        let body = request::Rendering {
            config: &self.config,
            endpoint: &self.endpoint,
            abilities: self.abilities,
            temperature,
        }
        .body(request, streamed)?;
        let limit = self.config.timeout.map_or(CEILING, Duration::from_secs).min(CEILING);
        let deadline = Instant::now() + limit;
        let sent = self.http.post(self.endpoint.url.clone()).headers(self.headers.clone()).body(body).send();
        let late = || self.late(limit);
        let answer = timeout_at(deadline, sent).await.map_err(|_| late())?.map_err(|error| self.transport(&error))?;
        if !answer.status().is_success() {
            return Err(timeout_at(deadline, self.refused(answer)).await.unwrap_or_else(|_| late()));
        }
        let reported =
            answer.headers().get("x-litellm-response-cost").and_then(|cost| cost.to_str().ok()?.parse().ok());
        // Some servers ignore the wish for a stream and answer whole.
        let assembly = if streamed && !is_json(&answer) {
            let limits = stream::Limits {
                first: deadline,
                idle: self.idle(),
                end: Instant::now() + CEILING,
                bytes: ANSWER_LIMIT,
            };
            stream::read(self, answer, limits, pieces).await?
        } else {
            let bytes = timeout_at(deadline, self.whole(answer)).await.map_err(|_| late())??;
            let assembly = self.parse(&bytes)?;
            assembly.hand_out(pieces);
            assembly
        };
        Ok(self.finish(assembly, reported))
    }

    fn parse(&self, bytes: &[u8]) -> Result<Assembly, LlmError> {
        let document: Value = serde_json::from_slice(bytes)
            .map_err(|error| self.no_response(&format!("its answer is no JSON: {error}")))?;
        if let Some(error) = error::in_document(&document) {
            return Err(self.reported(error));
        }
        Assembly::of_document(&document).ok_or_else(|| self.no_response("its answer has no choices"))
    }

    fn finish(&self, assembly: Assembly, reported: Option<f64>) -> LlmResponse {
        let mut response = assembly.finish(&self.config);
        let reported = reported.or(Some(response.cost).filter(|cost| *cost > 0.0));
        response.cost = pricing::cost(&self.config, &response.usage, reported);
        response
    }

    async fn whole(&self, mut answer: Response) -> Result<Vec<u8>, LlmError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| self.transport(&error))? {
            if bytes.len() + chunk.len() > ANSWER_LIMIT {
                return Err(self.too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    async fn refused(&self, mut answer: Response) -> LlmError {
        let (status, retry_after) =
            (answer.status().as_u16(), error::retry_after(answer.headers(), jiff::Timestamp::now()));
        let location = answer.headers().get("location").and_then(|to| to.to_str().ok()).map(ToOwned::to_owned);
        let mut body = Vec::new();
        while body.len() < ERROR_LIMIT
            && let Ok(Some(chunk)) = answer.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
        body.truncate(ERROR_LIMIT);
        let text = match location {
            Some(to) if (300..400).contains(&status) => format!("redirects are not followed, set llm.base_url to {to}"),
            _ => error::message(&body),
        };
        error::classify(status, &String::from_utf8_lossy(&body), self.told(&text, Some(status)), retry_after)
    }

    fn reported(&self, reported: error::Reported) -> LlmError {
        let text = self.told(&reported.message, reported.status);
        error::classify(reported.status.unwrap_or(500), &reported.raw, text, None)
    }

    /// The provider's text with its source; the key is taken out, which some providers repeat.
    fn told(&self, text: &str, status: Option<u16>) -> String {
        let text = match &self.endpoint.key {
            // A placeholder such as "x" is no secret, and would leave no text.
            Some(key) if key.expose().trim().len() >= 6 => {
                text.replace(key.expose().trim(), openhands_protocol::secret::MASK)
            }
            _ => text.to_owned(),
        };
        let status = status.map(|status| format!(", HTTP {status}")).unwrap_or_default();
        format!("{text} (from {}{status})", self.config.model)
    }

    fn transport(&self, error: &reqwest::Error) -> LlmError {
        let text = format!("{} ({} at {})", crate::http::chain(&error), self.config.model, self.host());
        if error.is_timeout() { LlmError::Timeout(text) } else { LlmError::ServiceUnavailable(text) }
    }

    fn late(&self, limit: Duration) -> LlmError {
        LlmError::Timeout(format!(
            "{} at {} did not answer within {} s (llm.timeout)",
            self.config.model,
            self.host(),
            limit.as_secs()
        ))
    }

    fn no_response(&self, why: &str) -> LlmError {
        LlmError::NoResponse(format!("no usable answer from {}: {why}", self.config.model))
    }

    fn too_large(&self) -> LlmError {
        LlmError::BadRequest(format!("the answer of {} is larger than {} MiB", self.config.model, ANSWER_LIMIT >> 20))
    }

    fn idle(&self) -> Option<Duration> {
        let seconds = self.config.stream_idle_timeout.filter(|seconds| seconds.is_finite() && *seconds > 0.0)?;
        Some(Duration::from_secs_f64(seconds.min(CEILING.as_secs_f64())))
    }

    fn host(&self) -> &str {
        self.endpoint.url.host_str().unwrap_or_default()
    }
}

#[async_trait]
impl LlmClient for OpenAiClient {
    async fn complete(
        &self,
        request: &LlmRequest,
        deltas: Option<DeltaSink<'_>>,
        cancel: &CancellationToken,
    ) -> Result<LlmResponse, LlmError> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(LlmError::Cancelled),
            result = self.with_retries(request, Pieces { sink: deltas, given: false }) => result,
        }
    }
}

/// Where pieces go, and whether some have gone there.
struct Pieces<'a> {
    sink: Option<DeltaSink<'a>>,
    given: bool,
}

impl Pieces<'_> {
    fn give(&mut self, delta: Delta) {
        if let Some(sink) = &mut self.sink {
            self.given = true;
            sink(delta);
        }
    }

    fn restart(&mut self) {
        if std::mem::take(&mut self.given)
            && let Some(sink) = &mut self.sink
        {
            sink(Delta::Restart);
        }
    }
}

fn is_json(answer: &Response) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("application/json"))
}

fn headers(config: &LlmConfig, endpoint: &Endpoint) -> Result<HeaderMap, LlmError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = &endpoint.key {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose().trim()))
            .map_err(|_| LlmError::Authentication("llm.api_key has characters that no header can carry".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    if endpoint.provider.prefix == "openrouter" {
        for (name, value) in [("http-referer", &config.openrouter_site_url), ("x-title", &config.openrouter_app_name)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
    for (name, value) in config.extra_headers.iter().flatten() {
        let wrong = || {
            LlmError::BadRequest(format!("llm.extra_headers: {name:?} is no header, or its value is no header text"))
        };
        let text = value.as_str().ok_or_else(wrong)?;
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(text).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
