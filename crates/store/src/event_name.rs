//! The names of files in a log's directory (protocol section 6, F2-PERS-16, F2-PERS-25r).

use openhands_protocol::EventId;

/// Locked around each batch of writes, also by the reference.
pub(crate) const LOCK_FILE: &str = ".eventlog.lock";
/// Where files go that the log cannot use; the reference skips names with a leading dot.
pub(crate) const DAMAGED_DIR: &str = ".damaged";
/// How names of unfinished files begin.
pub(crate) const TEMPORARY_PREFIX: &str = ".tmp-";

/// What a name in the directory says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EventName {
    /// An event and its position.
    Event(u64, EventId),
    /// The count of durable events.
    Marker(u64),
    /// A file that a crash left unfinished.
    Temporary,
    /// Lock, directory of damaged files, other hidden names.
    Hidden,
    /// Anything else.
    Foreign,
}

impl EventName {
    pub(crate) fn parse(name: &str) -> Self {
        if name.starts_with(TEMPORARY_PREFIX) {
            return Self::Temporary;
        }
        if let Some(count) = name.strip_prefix(".eventlog-len-").and_then(|rest| rest.strip_suffix(".marker")) {
            return count.parse().map_or(Self::Hidden, Self::Marker);
        }
        if name.starts_with('.') {
            return Self::Hidden;
        }
        event(name).map_or(Self::Foreign, |(seq, id)| Self::Event(seq, id))
    }
}

/// Only the spelling that [`event_file`] writes counts: the reference would not find any other again either.
fn event(name: &str) -> Option<(u64, EventId)> {
    let (digits, id) = name.strip_prefix("event-")?.strip_suffix(".json")?.split_once('-')?;
    let seq: u64 = digits.parse().ok()?;
    (format!("{seq:05}") == digits && is_valid_id(id)).then(|| (seq, EventId::from(id)))
}

/// Whether an id may be part of a file name.
pub(crate) fn is_valid_id(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// The file of an event.
pub(crate) fn event_file(seq: u64, id: &EventId) -> String {
    format!("event-{seq:05}-{id}.json")
}

/// The file that says how many events are durable.
pub(crate) fn marker_file(count: u64) -> String {
    format!(".eventlog-len-{count}.marker")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let uuid = "0b0e6f5c-8f5e-4f5e-8b0e-6f5c8f5e4f5e";
        for (name, expected) in [
            (format!("event-00007-{uuid}.json"), EventName::Event(7, uuid.into())),
            (format!("event-100000-{uuid}.json"), EventName::Event(100_000, uuid.into())),
            (format!("event-7-{uuid}.json"), EventName::Foreign),
            (format!("event-000007-{uuid}.json"), EventName::Foreign),
            (format!("event-00007-{uuid}.json.bak"), EventName::Foreign),
            ("event-00007-.json".to_owned(), EventName::Foreign),
            ("event-00007-a b.json".to_owned(), EventName::Foreign),
            ("notes.txt".to_owned(), EventName::Foreign),
            (".eventlog-len-12.marker".to_owned(), EventName::Marker(12)),
            (".eventlog-len-x.marker".to_owned(), EventName::Hidden),
            (LOCK_FILE.to_owned(), EventName::Hidden),
            (".tmp-1-2".to_owned(), EventName::Temporary),
        ] {
            assert_eq!(EventName::parse(&name), expected, "{name}");
        }
        assert_eq!(event_file(7, &uuid.into()), format!("event-00007-{uuid}.json"));
    }
}
