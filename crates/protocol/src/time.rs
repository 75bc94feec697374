//! The two spellings of time on the wire: naive local for events, UTC with `Z` for conversations and bash.

use jiff::{Timestamp, tz::TimeZone};

/// An event's time stamp: local time without a zone, microseconds, compared as a string (`2026-01-02T03:04:05.678901`).
#[must_use]
pub fn event_stamp(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
}

/// The event time stamp of this moment.
#[must_use]
pub fn event_now() -> String {
    event_stamp(Timestamp::now())
}

/// A conversation's or bash event's time stamp: UTC, microseconds, `Z` (`2026-01-02T03:04:05.678901Z`).
#[must_use]
pub fn utc_stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// The UTC time stamp of this moment.
#[must_use]
pub fn utc_now() -> String {
    utc_stamp(Timestamp::now())
}

/// A query parameter's time as an event time stamp: a naive time is local already, one with a zone is converted
/// (protocol section 2). `None` when it is no time at all.
#[must_use]
pub fn event_stamp_from_query(text: &str) -> Option<String> {
    // A `+` in a query string arrives as a space when the client did not escape it.
    let text = text.trim().replace(' ', "+");
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(event_stamp(at));
    }
    let naive: jiff::civil::DateTime = text.parse().ok()?;
    Some(naive.strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_have_six_digits_and_no_zone() {
        let at: Timestamp = "2026-01-02T03:04:05.5Z".parse().unwrap();
        assert_eq!(utc_stamp(at), "2026-01-02T03:04:05.500000Z");
        assert_eq!(event_stamp(at).len(), "2026-01-02T03:04:05.500000".len());
        assert_eq!(event_stamp_from_query("2026-01-02T03:04:05").as_deref(), Some("2026-01-02T03:04:05.000000"));
        assert_eq!(event_stamp_from_query("2026-01-02T03:04:05.5Z"), Some(event_stamp(at)));
        assert_eq!(event_stamp_from_query("yesterday"), None);
    }
}
