//! The name of a stored bash event: what is in it sorts events by time, so an index of names answers most questions. It does
//! not touch the disk.

use std::fmt;

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use openhands_protocol::bash::{BashEventKind, BashId};

const STAMP_FORMAT: &str = "%Y%m%d%H%M%S%6f";
const STAMP_LENGTH: usize = 20;

/// `{UTC yyyymmddHHMMSSffffff}_{kind}[_{command}]_{event}`. Keys order like their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// Microseconds since 1970, UTC.
    pub(super) micros: i64,
    pub(super) kind: BashEventKind,
    /// The command of an output; `None` for a command itself.
    pub(super) command: Option<BashId>,
    pub(super) id: BashId,
}

impl EventKey {
    /// Reads a file name; `None` for a file that is no event.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('_');
        let micros = parse_stamp(parts.next()?)?;
        let kind = match parts.next()? {
            "BashCommand" => BashEventKind::BashCommand,
            "BashOutput" => BashEventKind::BashOutput,
            _ => return None,
        };
        let third = parse_id(parts.next()?)?;
        let (command, id) = match (kind, parts.next()) {
            (BashEventKind::BashCommand, None) => (None, third),
            (BashEventKind::BashOutput, Some(id)) => (Some(third), parse_id(id)?),
            _ => return None,
        };
        parts.next().is_none().then_some(Self { micros, kind, command, id })
    }

    /// The event's time as it is written in the event.
    pub(super) fn timestamp(&self) -> String {
        openhands_protocol::time::utc_stamp(at(self.micros))
    }
}

impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", at(self.micros).strftime(STAMP_FORMAT), self.kind.name())?;
        if let Some(command) = self.command {
            write!(f, "_{command}")?;
        }
        write!(f, "_{}", self.id)
    }
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or_default()
}

fn parse_id(text: &str) -> Option<BashId> {
    if text.len() == 32 { text.parse().ok() } else { None }
}

fn parse_stamp(text: &str) -> Option<i64> {
    if text.len() != STAMP_LENGTH || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (seconds, fraction) = text.split_at(STAMP_LENGTH - 6);
    let civil = DateTime::strptime("%Y%m%d%H%M%S", seconds).ok()?;
    let whole = civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond();
    whole.checked_add(fraction.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: &str = "20261130161915544523_BashCommand_12ce69ab3efa40daa600b6a9ac8cf80e";
    const OUTPUT: &str =
        "20261130161915547820_BashOutput_12ce69ab3efa40daa600b6a9ac8cf80e_0d877f2c4a5e40b1a00023d9e0c0baa3";

    #[test]
    fn names_survive_a_round_trip_and_order_by_time() {
        let command = EventKey::parse(COMMAND).unwrap();
        let output = EventKey::parse(OUTPUT).unwrap();
        assert_eq!((command.to_string(), output.to_string()), (COMMAND.to_owned(), OUTPUT.to_owned()));
        assert_eq!(output.command, Some(command.id));
        assert_eq!(command.timestamp(), "2026-11-30T16:19:15.544523Z");
        assert!(command < output);
    }

    #[test]
    fn other_names_are_no_events() {
        for name in [
            "",
            "x",
            ".tmp-1",
            "20261130161915544523_BashCommand",
            "20269930161915544523_BashCommand_12ce69ab3efa40daa600b6a9ac8cf80e",
            "20261130161915547820_BashOutput_12ce69ab3efa40daa600b6a9ac8cf80e",
            "20261130161915547820_BashError_12ce69ab3efa40daa600b6a9ac8cf80e",
        ] {
            assert_eq!(EventKey::parse(name), None, "{name}");
        }
    }
}
