//! The span of a caller that a conversation continues: a W3C `traceparent`, or the JSON that Laminar's SDK sends.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use serde_json::Value;

/// Whether a text names a span.
#[must_use]
pub fn is_parent(text: &str) -> bool {
    read(text).is_some()
}

/// The span that a text names.
pub(super) fn read(text: &str) -> Option<SpanContext> {
    let text = text.trim();
    if text.starts_with('{') { laminar(text) } else { w3c(text) }
}

fn w3c(text: &str) -> Option<SpanContext> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    // Later versions may have more parts behind these four.
    let is_sound = is_hex(version, 2)
        && version != "ff"
        && is_hex(trace, 32)
        && is_hex(span, 16)
        && is_hex(flags, 2)
        && (version != "00" || parts.next().is_none());
    let flags = u8::from_str_radix(flags, 16).ok().filter(|_| is_sound)?;
    context(TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?, TraceFlags::new(flags & 1))
}

/// `trace_id` and `span_id` as UUIDs; the span's are the last eight bytes. It has no flag for sampling: sent means sampled.
fn laminar(text: &str) -> Option<SpanContext> {
    let json: Value = serde_json::from_str(text).ok()?;
    let uuid = |names: [&str; 2]| {
        let text = names.iter().find_map(|name| json.get(*name)?.as_str())?;
        uuid::Uuid::parse_str(text).ok()
    };
    let trace = uuid(["trace_id", "traceId"])?;
    let span = uuid(["span_id", "spanId"])?.as_u64_pair().1;
    context(TraceId::from(trace.as_u128()), SpanId::from(span), TraceFlags::SAMPLED)
}

fn context(trace: TraceId, span: SpanId, flags: TraceFlags) -> Option<SpanContext> {
    Some(SpanContext::new(trace, span, flags, true, TraceState::default())).filter(SpanContext::is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_nonsense_is_not() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let named = |text: &str| {
            read(text).map(|span| (span.trace_id().to_string(), span.span_id().to_string(), span.is_sampled()))
        };
        let expected = |sampled| Some((trace.to_owned(), "b7ad6b7169203331".to_owned(), sampled));
        let laminar = |trace_name: &str, span_name: &str| {
            format!(
                r#"{{"{trace_name}": "0af76519-16cd-43dd-8448-eb211c80319c",
                    "{span_name}": "00000000-0000-0000-b7ad-6b7169203331", "isRemote": false}}"#
            )
        };
        assert_eq!(named(&format!("00-{trace}-b7ad6b7169203331-01")), expected(true));
        assert_eq!(named(&format!(" 00-{trace}-b7ad6b7169203331-00 ")), expected(false));
        assert_eq!(named(&format!("01-{trace}-b7ad6b7169203331-01-more")), expected(true));
        assert_eq!(named(&laminar("trace_id", "span_id")), expected(true));
        assert_eq!(named(&laminar("traceId", "spanId")), expected(true));
        for nonsense in [
            "",
            "00",
            "{}",
            "{",
            &format!("00-{trace}-b7ad6b7169203331-01-more"),
            &format!("ff-{trace}-b7ad6b7169203331-01"),
            &format!("00-{}-b7ad6b7169203331-01", trace.to_uppercase()),
            &format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            &format!("00-{trace}-{}-01", "0".repeat(16)),
            "00-ä-b-c",
        ] {
            assert!(!is_parent(nonsense), "{nonsense}");
        }
    }
}
