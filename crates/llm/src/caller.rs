//! One call over HTTP for every adapter: attempts and their waits, bounds in time and size, the caller's cancellation.
//!
//! One attempt is one POST. Dropping or cancelling the call drops the connection with it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{
    Client, Response,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::{
    CallObserver, ClientOptions, Credentials, DeltaSink, LlmClient, LlmError, LlmRequest, LlmResponse, Session,
    TokenSource,
    adapter::{Adapter, Attempt, Pieces, Reading, Setup},
    answer::Answer,
    endpoint::Mode,
    failure::{self, Failed, Hint},
    frames::{self, Limits},
    http::chain,
    images::Images,
    observer::{CallStart, Destination, Notes, Spoken},
    providers::Interface,
    retry::Retry,
};

/// The largest answer that is read, whole or streamed, bytes on the wire.
const ANSWER_LIMIT: usize = 32 * 1024 * 1024;
/// Of an error's body this much is read.
const ERROR_LIMIT: usize = 64 * 1024;
/// No attempt lasts longer, whatever the configuration says.
const CEILING: Duration = Duration::from_secs(3600);

/// A model behind a provider's interface.
pub(crate) struct Caller<A> {
    adapter: A,
    headers: HeaderMap,
    retry: Retry,
    http: Client,
    images: Images,
    observer: Option<Arc<dyn CallObserver>>,
    credentials: Option<Arc<dyn TokenSource>>,
    session: Session,
}

impl<A: Adapter> Caller<A> {
    pub(crate) fn new(adapter: A, http: Client, options: &ClientOptions) -> Result<Self, LlmError> {
        let mut headers = adapter.headers()?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        add_extra_headers(&mut headers, adapter.setup())?;
        let retry = Retry::of(&adapter.setup().config);
        options.session.head(&mut headers, adapter.setup())?;
        let (observer, credentials) = (options.observer.clone(), options.credentials.clone());
        Ok(Self {
            adapter,
            headers,
            retry,
            http,
            images: Images::default(),
            observer,
            credentials,
            session: options.session.clone(),
        })
    }

    pub(crate) fn setup(&self) -> &Setup {
        self.adapter.setup()
    }

    async fn with_retries(
        &self,
        request: &LlmRequest,
        mut pieces: Pieces<'_>,
        notes: &mut Option<Notes<'_>>,
    ) -> Result<LlmResponse, LlmError> {
        let (config, abilities) = (&self.setup().config, &self.setup().abilities);
        let mut plan = self.plan(pieces.sink.is_some());
        let inlined = if abilities.images && (A::INLINE_IMAGES || abilities.inline_images) {
            self.images.inlined(request, &self.http).await
        } else {
            None
        };
        let request = inlined.as_ref().unwrap_or(request);
        let resized =
            if abilities.images && abilities.small_images { self.images.resized(request).await } else { None };
        let request = resized.as_ref().unwrap_or(request);
        let (mut number, mut renewed, mut written) = (1, None, None);
        let mut may_renew = true;
        loop {
            let since = std::time::Instant::now();
            // Written once; an attempt that changes nothing sends the same bytes.
            let body = match written.take() {
                Some((of, body)) if of == plan => body,
                _ => self.written(request, plan)?,
            };
            written = Some((plan, body.clone()));
            let mut used = None;
            let result = match self.authorized(renewed.take()).await {
                Ok(credentials) => {
                    used = credentials;
                    self.attempt(body, plan, used.as_ref(), &mut pieces, notes).await
                }
                Err(error) => Err(error.into()),
            };
            if let Some(notes) = notes {
                notes.attempted(since, result.as_ref().err().map(|failed| &failed.error));
            }
            let Failed { error, hint } = match result {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            let error = used.iter().fold(error, |error, used| error.without(used.secrets()));
            // Credentials may end, or be taken back, before their time: others cost no attempt.
            if let Some(used) = used.filter(|_| matches!(error, LlmError::Authentication(_)) && may_renew) {
                may_renew = false;
                renewed = self.renewed(&used).await;
                if renewed.is_some() {
                    continue;
                }
            }
            // A refusal of the marks alone costs no attempt.
            if plan.caching && failure::is_cache_too_small(&error) {
                plan.caching = false;
                continue;
            }
            // Another provider's or account's reasoning cannot be proven here; the conversation goes on without it.
            if plan.reasoning && failure::is_foreign_reasoning(&error) {
                tracing::warn!(model = config.model, "earlier reasoning was refused and is left out");
                plan.reasoning = false;
                continue;
            }
            let Some(wait) = self.retry.wait_after(number, &error, hint) else { return Err(error) };
            // Not the text: providers repeat prompts in it.
            tracing::warn!(
                model = config.model,
                host = self.host(),
                attempt = number,
                code = error.code(),
                ?wait,
                "model call failed, trying again"
            );
            if let Some(notes) = notes {
                notes.retrying(number, self.retry.attempts(), &error, wait);
            }
            pieces.restart();
            // The same request with the same sampling would give the same nothing (F1-LLM-09).
            if matches!(error, LlmError::NoResponse(_)) && plan.temperature == Some(0.0) {
                plan.temperature = Some(1.0);
            }
            tokio::time::sleep(wait).await;
            number += 1;
        }
    }

    /// What the next attempt is made with.
    async fn authorized(&self, renewed: Option<Credentials>) -> Result<Option<Credentials>, LlmError> {
        match (&self.credentials, renewed) {
            (Some(source), None) => source.current().await.map(Some),
            (_, renewed) => Ok(renewed),
        }
    }

    /// Others than those that were refused.
    async fn renewed(&self, refused: &Credentials) -> Option<Credentials> {
        match self.credentials.as_ref()?.renewed(refused).await {
            Ok(others) => Some(others).filter(|others| others != refused),
            Err(error) => {
                tracing::warn!(model = self.setup().config.model, %error, "refused credentials could not be renewed");
                None
            }
        }
    }

    /// What the first attempt is like.
    pub(crate) fn plan(&self, streamed: bool) -> Attempt {
        let Setup { config, abilities, .. } = self.setup();
        Attempt {
            temperature: config.temperature,
            caching: config.caching_prompt && abilities.cache_marks,
            reasoning: true,
            streamed: streamed || self.adapter.streams_only(),
        }
    }

    /// The body of a request.
    pub(crate) fn written(&self, request: &LlmRequest, plan: Attempt) -> Result<Bytes, LlmError> {
        let mut body = self.adapter.body(request, plan)?;
        self.session.mark(&mut body, self.setup());
        let body = serde_json::to_vec(&body)
            .map_err(|error| LlmError::BadRequest(format!("the request cannot be written as JSON: {error}")))?;
        Ok(Bytes::from(body))
    }

    async fn attempt(
        &self,
        body: Bytes,
        plan: Attempt,
        credentials: Option<&Credentials>,
        pieces: &mut Pieces<'_>,
        notes: &mut Option<Notes<'_>>,
    ) -> Result<LlmResponse, Failed> {
        if let Some(notes) = notes {
            notes.sends(&body);
        }
        let url = self.adapter.url(plan.streamed);
        let mut headers = self.headers.clone();
        if let Some(credentials) = credentials {
            credentials.add_to(&mut headers)?;
            self.adapter.sign(credentials, &url, &mut headers, &body)?;
        }
        let limit = self.setup().config.timeout.map_or(CEILING, Duration::from_secs).min(CEILING);
        let deadline = Instant::now() + limit;
        let sent = self.http.post(url).headers(headers).body(body).send();
        let late = || self.late(limit);
        let answer = timeout_at(deadline, sent).await.map_err(|_| late())?.map_err(|error| self.transport(&error))?;
        if !answer.status().is_success() {
            return Err(timeout_at(deadline, self.refused(answer)).await.unwrap_or_else(|_| late().into()));
        }
        let reported =
            answer.headers().get("x-litellm-response-cost").and_then(|cost| cost.to_str().ok()?.parse().ok());
        // Some servers ignore the wish for a stream and answer whole.
        let answer = if plan.streamed && !is_json(&answer) {
            let limits =
                Limits { first: deadline, idle: self.idle(), end: Instant::now() + CEILING, bytes: ANSWER_LIMIT };
            frames::read(self, answer, limits, pieces).await?.finish()
        } else {
            let bytes = timeout_at(deadline, self.whole(answer)).await.map_err(|_| late())??;
            let answer = self.parse(&bytes)?;
            answer.hand_out(pieces);
            answer
        };
        Ok(answer.into_response(self.setup(), reported))
    }

    /// What a whole answer says.
    pub(crate) fn parse(&self, bytes: &[u8]) -> Result<Answer, LlmError> {
        let document: Value = serde_json::from_slice(bytes)
            .map_err(|error| self.no_response(&format!("its answer is no JSON: {error}")))?;
        self.check(&document)?;
        let reading =
            A::Reading::of_document(&document).ok_or_else(|| self.no_response("its answer has nothing in it"))?;
        Ok(reading.finish())
    }

    /// Fails for an error in a document or an event.
    pub(crate) fn check(&self, document: &Value) -> Result<(), LlmError> {
        let Some(reported) = self.adapter.reported(document) else { return Ok(()) };
        let text = self.told(&reported.message, reported.status);
        Err(failure::classify(reported.status.unwrap_or(500), &reported.raw, text, None))
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

    async fn refused(&self, mut answer: Response) -> Failed {
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let mut body = Vec::new();
        while body.len() < ERROR_LIMIT
            && let Ok(Some(chunk)) = answer.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
        body.truncate(ERROR_LIMIT);
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let text = match header("location") {
            Some(to) if (300..400).contains(&status) => format!("redirects are not followed, set llm.base_url to {to}"),
            _ if status == 404 && self.is_nowhere(&body) => format!(
                "{}: nothing is at {} there, check llm.base_url (of OpenAI-compatible servers it mostly ends with /v1)",
                failure::message(&body),
                self.setup().endpoint.url.path()
            ),
            _ => failure::message(&body),
        };
        // AWS names its errors beside the body.
        let raw = format!("{} {}", header("x-amzn-errortype").unwrap_or_default(), String::from_utf8_lossy(&body));
        let hint = Hint::of(&headers, &raw, jiff::Timestamp::now());
        let error = failure::classify(status, &raw, self.told(&text, Some(status)), hint.after);
        Failed { error, hint }
    }

    /// Whether an address of the user's own, rather than a model, was not found: such answers do not speak of models.
    fn is_nowhere(&self, body: &[u8]) -> bool {
        let body = String::from_utf8_lossy(body).to_ascii_lowercase();
        self.setup().config.base_url.is_some() && !["model", "deployment"].iter().any(|word| body.contains(word))
    }

    /// The provider's text with its source; keys are taken out, which some providers repeat.
    fn told(&self, text: &str, status: Option<u16>) -> String {
        let setup = self.setup();
        let keys = [&setup.endpoint.key, &setup.config.aws_secret_access_key, &setup.config.aws_session_token];
        // A placeholder such as "x" is no secret, and would leave no text.
        let keys = keys.into_iter().flatten().map(|key| key.expose().trim()).filter(|key| key.len() >= 6);
        let text = keys.fold(text.to_owned(), |text, key| text.replace(key, openhands_protocol::secret::MASK));
        let status = status.map(|status| format!(", HTTP {status}")).unwrap_or_default();
        format!("{text} (from {}{status})", setup.config.model)
    }

    fn transport(&self, error: &reqwest::Error) -> LlmError {
        let mut cause = chain(error);
        // Some people keep their key in the address.
        if let Some(query) = error.url().and_then(|url| url.query()) {
            cause = cause.replace(&format!("?{query}"), "");
        }
        let text = format!("{cause} ({} at {})", self.setup().config.model, self.host());
        if error.is_timeout() { LlmError::Timeout(text) } else { LlmError::ServiceUnavailable(text) }
    }

    fn late(&self, limit: Duration) -> LlmError {
        LlmError::Timeout(self.still(&format!("did not answer within {} s (llm.timeout)", limit.as_secs())))
    }

    /// A sentence about the model and where it is.
    pub(crate) fn still(&self, what: &str) -> String {
        format!("{} at {} {what}", self.setup().config.model, self.host())
    }

    pub(crate) fn no_response(&self, why: &str) -> LlmError {
        LlmError::NoResponse(format!("no usable answer from {}: {why}", self.setup().config.model))
    }

    pub(crate) fn too_large(&self) -> LlmError {
        LlmError::BadRequest(format!(
            "the answer of {} is larger than {} MiB",
            self.setup().config.model,
            ANSWER_LIMIT >> 20
        ))
    }

    fn idle(&self) -> Option<Duration> {
        let seconds =
            self.setup().config.stream_idle_timeout.filter(|seconds| seconds.is_finite() && *seconds > 0.0)?;
        Some(Duration::from_secs_f64(seconds.min(CEILING.as_secs_f64())))
    }

    fn host(&self) -> &str {
        self.setup().endpoint.url.host_str().unwrap_or_default()
    }

    fn notes<'a>(&'a self, observer: &'a dyn CallObserver, request: &'a LlmRequest, streamed: bool) -> Notes<'a> {
        let setup = self.setup();
        let destination = Destination {
            provider: setup.endpoint.provider.prefix,
            spoken: match (setup.endpoint.provider.interface, setup.endpoint.mode) {
                (Interface::OpenAi | Interface::Azure | Interface::Other, Mode::Chat) => Spoken::Chat,
                (Interface::OpenAi | Interface::Azure | Interface::Other, Mode::Responses) => Spoken::Responses,
                (Interface::Anthropic, _) => Spoken::Messages,
                (Interface::Gemini, _) => Spoken::GenerateContent,
                (Interface::Bedrock, _) => Spoken::Converse,
            },
            host: self.host(),
            port: setup.endpoint.url.port_or_known_default(),
            model: &setup.endpoint.model,
        };
        let start = CallStart { config: &setup.config, destination };
        Notes::begin(observer, start, request, streamed, setup.abilities.context_window)
    }
}

#[async_trait]
impl<A: Adapter> LlmClient for Caller<A> {
    async fn complete(
        &self,
        request: &LlmRequest,
        deltas: Option<DeltaSink<'_>>,
        cancel: &CancellationToken,
    ) -> Result<LlmResponse, LlmError> {
        let mut notes = self.observer.as_deref().map(|observer| self.notes(observer, request, deltas.is_some()));
        let mut watching;
        let sink: Option<DeltaSink<'_>> = match (&notes, deltas) {
            (Some(notes), Some(sink)) => {
                watching = notes.watching(sink);
                Some(&mut watching)
            }
            (None, Some(sink)) => Some(sink),
            (_, None) => None,
        };
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(LlmError::Cancelled),
            result = self.with_retries(request, Pieces { sink, given: false }, &mut notes) => result,
        };
        if let Some(notes) = notes {
            notes.finish(result.as_ref());
        }
        result
    }
}

fn is_json(answer: &Response) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("application/json"))
}

/// A header with a key in it; `setting` is named when no header can carry it.
pub(crate) fn secret_header(value: &str, setting: &str) -> Result<HeaderValue, LlmError> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| LlmError::Authentication(format!("{setting} has characters that no header can carry")))?;
    value.set_sensitive(true);
    Ok(value)
}

fn add_extra_headers(headers: &mut HeaderMap, setup: &Setup) -> Result<(), LlmError> {
    for (name, value) in setup.config.extra_headers.iter().flatten() {
        let wrong = || {
            LlmError::BadRequest(format!("llm.extra_headers: {name:?} is no header, or its value is no header text"))
        };
        let text = value.as_str().ok_or_else(wrong)?;
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(text).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(())
}
