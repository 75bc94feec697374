//! What the standard `OTEL_*` variables say, from the process's environment and from what initialisation brought.

use std::{collections::BTreeMap, time::Duration};

use opentelemetry_sdk::trace::Sampler;
use url::Url;

/// Spans that wait for the collector.
const QUEUE: usize = 2048;
/// The queue is never longer, whatever the variable says.
const MAX_QUEUE: usize = 16_384;
/// Spans in one request.
const BATCH: usize = 512;
/// How often spans are sent.
const DELAY: Duration = Duration::from_secs(5);
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A variable that cannot be used; its value may be a secret and is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {reason}")]
pub struct BadTelemetry {
    /// The variable.
    pub variable: String,
    /// What is expected.
    pub reason: String,
}

impl BadTelemetry {
    pub(super) fn new(variable: &str, reason: impl Into<String>) -> Self {
        Self { variable: variable.to_owned(), reason: reason.into() }
    }
}

/// How traces are made and where they go.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) endpoint: Url,
    /// Without credentials and query.
    pub(super) shown_endpoint: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) timeout: Duration,
    pub(super) resource: Vec<(String, String)>,
    pub(super) sampler: Sampler,
    pub(super) queue: usize,
    pub(super) batch: usize,
    pub(super) delay: Duration,
    /// Whether what is said is sent too.
    pub(super) capture: bool,
}

impl Settings {
    pub(super) fn of(variables: &BTreeMap<String, String>) -> Result<Option<Self>, BadTelemetry> {
        let read = |name: &'static str| {
            variables.get(name).map(|text| text.trim()).filter(|text| !text.is_empty()).map(|text| (name, text))
        };
        if read("OTEL_SDK_DISABLED").is_some_and(|(_, text)| text.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let Some((place, endpoint)) = endpoint(&read)? else { return Ok(None) };
        match read("OTEL_TRACES_EXPORTER") {
            None | Some((_, "otlp")) => {}
            Some((_, "none")) => return Ok(None),
            Some((name, _)) => return Err(BadTelemetry::new(name, "only \"otlp\" and \"none\" are supported")),
        }
        let protocol = read("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| read("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some((name, _)) = protocol.filter(|(_, text)| *text != "http/protobuf") {
            return Err(BadTelemetry::new(
                name,
                "only \"http/protobuf\" is supported; collectors take it on port 4318",
            ));
        }
        let compression =
            read("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION").or_else(|| read("OTEL_EXPORTER_OTLP_COMPRESSION"));
        if let Some((name, _)) = compression.filter(|(_, text)| *text != "none") {
            return Err(BadTelemetry::new(name, "only \"none\" is supported"));
        }
        let headers = read("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| read("OTEL_EXPORTER_OTLP_HEADERS"));
        let headers = headers.map_or(Ok(Vec::new()), |(name, text)| pairs(name, text))?;
        let timeout = read("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT").or_else(|| read("OTEL_EXPORTER_OTLP_TIMEOUT"));
        let timeout = timeout.map_or(Ok(TIMEOUT), |(name, text)| milliseconds(name, text))?;
        let mut resource = match read("OTEL_RESOURCE_ATTRIBUTES") {
            Some((name, text)) => pairs(name, text)?,
            None => Vec::new(),
        };
        resource.extend(read("OTEL_SERVICE_NAME").map(|(_, text)| ("service.name".to_owned(), text.to_owned())));
        let queue = read("OTEL_BSP_MAX_QUEUE_SIZE").map_or(Ok(QUEUE), |(name, text)| number(name, text))?;
        let queue = queue.clamp(1, MAX_QUEUE);
        let batch = read("OTEL_BSP_MAX_EXPORT_BATCH_SIZE").map_or(Ok(BATCH), |(name, text)| number(name, text))?;
        let delay = read("OTEL_BSP_SCHEDULE_DELAY").map_or(Ok(DELAY), |(name, text)| milliseconds(name, text))?;
        let capture = read("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").is_some_and(|(_, text)| {
            matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "span_only" | "span_and_event")
        });
        let mut shown = endpoint.clone();
        // Neither fails for http addresses.
        let _ = (shown.set_username(""), shown.set_password(None));
        shown.set_query(None);
        Ok(Some(Self {
            shown_endpoint: format!("{shown} ({place})"),
            endpoint,
            headers,
            timeout,
            resource,
            sampler: sampler(&read)?,
            queue,
            batch: batch.clamp(1, queue),
            delay: delay.max(Duration::from_millis(10)),
            capture,
        }))
    }
}

type Found<'a> = Option<(&'static str, &'a str)>;

/// The collector's address for traces, and the variable that names it.
fn endpoint<'a>(read: &impl Fn(&'static str) -> Found<'a>) -> Result<Option<(&'static str, Url)>, BadTelemetry> {
    let whole = read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    // The short form is the Python server's.
    let Some((name, text)) = whole.or_else(|| read("OTEL_EXPORTER_OTLP_ENDPOINT")).or_else(|| read("OTEL_ENDPOINT"))
    else {
        return Ok(None);
    };
    let wrong = |why: &str| BadTelemetry::new(name, format!("{why}, such as http://collector:4318"));
    let mut url = Url::parse(text).map_err(|_| wrong("must be an absolute address"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("must begin with http:// or https:// and name a host"));
    }
    if whole.is_none() {
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(Some((name, url)))
}

fn sampler<'a>(read: &impl Fn(&'static str) -> Found<'a>) -> Result<Sampler, BadTelemetry> {
    let Some((name, text)) = read("OTEL_TRACES_SAMPLER") else {
        return Ok(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)));
    };
    let ratio = || match read("OTEL_TRACES_SAMPLER_ARG") {
        None => Ok(1.0),
        Some((name, text)) => {
            let ratio = text.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
            ratio.ok_or_else(|| BadTelemetry::new(name, "must be a number from 0 to 1"))
        }
    };
    let parent_based = |root| Ok(Sampler::ParentBased(Box::new(root)));
    match text {
        "always_on" => Ok(Sampler::AlwaysOn),
        "always_off" => Ok(Sampler::AlwaysOff),
        "traceidratio" => Ok(Sampler::TraceIdRatioBased(ratio()?)),
        "parentbased_always_on" => parent_based(Sampler::AlwaysOn),
        "parentbased_always_off" => parent_based(Sampler::AlwaysOff),
        "parentbased_traceidratio" => parent_based(Sampler::TraceIdRatioBased(ratio()?)),
        _ => {
            Err(BadTelemetry::new(name, "must be always_on, always_off, traceidratio, or parentbased_ and one of them"))
        }
    }
}

fn number(name: &str, text: &str) -> Result<usize, BadTelemetry> {
    text.parse().map_err(|_| BadTelemetry::new(name, "must be a whole number"))
}

fn milliseconds(name: &str, text: &str) -> Result<Duration, BadTelemetry> {
    let wait = text.parse().map_err(|_| BadTelemetry::new(name, "must be whole milliseconds"))?;
    Ok(Duration::from_millis(wait))
}

/// `name=value` pairs between commas, values percent-encoded.
fn pairs(variable: &str, text: &str) -> Result<Vec<(String, String)>, BadTelemetry> {
    let wrong = || BadTelemetry::new(variable, "must be name=value pairs between commas, values percent-encoded");
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        let name = name.trim();
        if name.is_empty() {
            return Err(wrong());
        }
        Ok((name.to_owned(), decoded(value.trim()).ok_or_else(wrong)?))
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Result<Option<Settings>, BadTelemetry> {
        Settings::of(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn address(pairs: &[(&str, &str)]) -> Option<String> {
        settings(pairs).unwrap().map(|settings| settings.endpoint.to_string())
    }

    #[test]
    fn a_collector_switches_traces_on() {
        const BASE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/otel/");
        assert_eq!(address(&[]), None);
        assert_eq!(address(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), None);
        assert_eq!(address(&[("OTEL_ENDPOINT", "http://c")]).as_deref(), Some("http://c/v1/traces"));
        assert_eq!(address(&[BASE]).as_deref(), Some("http://c:4318/otel/v1/traces"));
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/x?y=z");
        assert_eq!(address(&[BASE, own]).as_deref(), Some("https://t/x?y=z"));
        assert_eq!(address(&[BASE, ("OTEL_SDK_DISABLED", "True")]), None);
        assert_eq!(address(&[BASE, ("OTEL_TRACES_EXPORTER", "none")]), None);
        let shown = settings(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://u:p@t/x?key=s")]).unwrap().unwrap();
        assert_eq!(shown.shown_endpoint, "https://t/x (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT)");
    }

    #[test]
    fn everything_else_has_a_default_and_bounds() {
        let plain = settings(&[("OTEL_ENDPOINT", "http://c")]).unwrap().unwrap();
        assert_eq!((plain.queue, plain.batch, plain.delay, plain.timeout), (QUEUE, BATCH, DELAY, TIMEOUT));
        assert_eq!((plain.capture, plain.headers.len(), plain.resource.len()), (false, 0, 0));
        let set = settings(&[
            ("OTEL_ENDPOINT", "http://c"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20a%2Bb, x-team=blue,"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=t,service.name=a"),
            ("OTEL_SERVICE_NAME", "b"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "99999999"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "99999999"),
            ("OTEL_BSP_SCHEDULE_DELAY", "0"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ])
        .unwrap()
        .unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(set.headers, [pair("authorization", "Bearer a+b"), pair("x-team", "blue")]);
        assert_eq!(set.resource.last(), Some(&pair("service.name", "b")));
        assert_eq!((set.queue, set.batch, set.delay), (MAX_QUEUE, MAX_QUEUE, Duration::from_millis(10)));
        assert!(set.capture);
        assert!(matches!(set.sampler, Sampler::ParentBased(_)));
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name_without_its_value() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=%zz"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_TRACES_SAMPLER", "xray"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "-1"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4317"),
        ] {
            let error = settings(&[("OTEL_ENDPOINT", "http://c"), (name, value)]).unwrap_err();
            assert_eq!(error.variable, name);
            assert!(!error.reason.contains(value), "{error}");
        }
    }
}
