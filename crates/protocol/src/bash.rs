//! Bodies and events of the bash routes and socket: commands that run beside conversations. It does not know how they run.
//!
//! A command and its outputs are events of their own family: ids are written as 32 hex digits, times in UTC with `Z`, and
//! null members are kept.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// The time limit of a command that names none, in seconds.
pub const DEFAULT_TIMEOUT_SECONDS: i64 = 300;

/// The id of a bash event; the id of a command is the id of its `BashCommand` event. Written as 32 hex digits, read with or
/// without dashes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BashId(pub Uuid);

impl BashId {
    /// A random (version 4) id.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for BashId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl fmt::Debug for BashId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for BashId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

impl Serialize for BashId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.simple())
    }
}

impl<'de> Deserialize<'de> for BashId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What to run (body of `start_bash_command` and `execute_bash_command`, inbound frame of the bash socket).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecuteBashRequest {
    /// The text given to `/bin/sh -c`.
    pub command: String,
    /// Where it runs; the server's default directory when absent or empty.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Seconds it may take before its whole process group is killed; zero or less means at once.
    #[serde(default = "default_timeout")]
    pub timeout: i64,
}

fn default_timeout() -> i64 {
    DEFAULT_TIMEOUT_SECONDS
}

/// The kinds of a bash event. The order is that of the names, which orders files of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BashEventKind {
    /// A command was accepted.
    BashCommand,
    /// A refused frame of the bash socket; never stored.
    BashError,
    /// A piece of a command's output.
    BashOutput,
}

impl BashEventKind {
    /// The name on the wire and in file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BashCommand => "BashCommand",
            Self::BashError => "BashError",
            Self::BashOutput => "BashOutput",
        }
    }
}

/// A command that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BashCommand {
    /// The text given to `/bin/sh -c`.
    pub command: String,
    /// Where it runs.
    pub cwd: Option<String>,
    /// Its time limit in seconds.
    pub timeout: i64,
    /// The command's id.
    pub id: BashId,
    /// When it was accepted, UTC.
    pub timestamp: String,
    /// Always [`BashEventKind::BashCommand`].
    pub kind: BashEventKind,
}

/// A piece of a command's output. Long outputs are cut in pieces with rising `order`; only the last has an exit code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BashOutput {
    /// The event's id.
    pub id: BashId,
    /// When the piece was complete, UTC.
    pub timestamp: String,
    /// The command it belongs to.
    pub command_id: BashId,
    /// Position among the command's outputs, from zero.
    pub order: i64,
    /// Set on the last piece: the exit code, minus the signal that ended the shell, or -1 (time limit, not started).
    pub exit_code: Option<i32>,
    /// Standard output; null when there is none.
    pub stdout: Option<String>,
    /// Standard error; null when there is none.
    pub stderr: Option<String>,
    /// Always [`BashEventKind::BashOutput`].
    pub kind: BashEventKind,
}

/// Why a frame sent to the bash socket was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BashError {
    /// The event's id.
    pub id: BashId,
    /// When, UTC.
    pub timestamp: String,
    /// The class of the error.
    pub code: String,
    /// What was wrong, for a person.
    pub detail: String,
    /// Always [`BashEventKind::BashError`].
    pub kind: BashEventKind,
}

impl BashError {
    /// A refusal of this moment.
    #[must_use]
    pub fn now(code: &str, detail: String) -> Self {
        Self {
            id: BashId::random(),
            timestamp: crate::time::utc_now(),
            code: code.to_owned(),
            detail,
            kind: BashEventKind::BashError,
        }
    }
}

/// Answer to a deletion of all events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClearedEvents {
    /// How many were deleted.
    pub cleared_count: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_members_of_the_wire() {
        let text = r#"{"command":"echo a","cwd":null,"timeout":20,"id":"53fd5028fb0347d191145700c5a98b0a","timestamp":"2026-11-30T14:21:10.668663Z","kind":"BashCommand"}"#;
        let command: BashCommand = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&command).unwrap(), text);
    }

    #[test]
    fn an_output_keeps_null_members() {
        let text = r#"{"id":"0d76562946084af0856ed60d21fe208d","timestamp":"2026-11-30T14:21:10.671262Z","command_id":"53fd5028fb0347d191145700c5a98b0a","order":0,"exit_code":null,"stdout":"a\n","stderr":null,"kind":"BashOutput"}"#;
        let output: BashOutput = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&output).unwrap(), text);
    }

    #[test]
    fn a_request_has_defaults_and_ignores_what_it_does_not_know() {
        let request: ExecuteBashRequest = serde_json::from_str(r#"{"command":"true","more":1}"#).unwrap();
        assert_eq!(request, ExecuteBashRequest { command: "true".to_owned(), cwd: None, timeout: 300 });
    }
}
