//! The execution status of a conversation (F1-STA-01).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Where a conversation's run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// Nothing runs, and a run may start.
    #[default]
    Idle,
    /// The agent is at work.
    Running,
    /// Paused or interrupted by the user.
    Paused,
    /// Actions wait for the user's yes or no.
    WaitingForConfirmation,
    /// The agent said it is done.
    Finished,
    /// The run ended with an error.
    Error,
    /// The stuck detector ended the run.
    Stuck,
    /// The conversation is being deleted.
    Deleting,
}

impl ExecutionStatus {
    /// Every status, for tables.
    pub const ALL: [Self; 8] = [
        Self::Idle,
        Self::Running,
        Self::Paused,
        Self::WaitingForConfirmation,
        Self::Finished,
        Self::Error,
        Self::Stuck,
        Self::Deleting,
    ];

    /// The status on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::WaitingForConfirmation => "waiting_for_confirmation",
            Self::Finished => "finished",
            Self::Error => "error",
            Self::Stuck => "stuck",
            Self::Deleting => "deleting",
        }
    }

    /// Finished, error and stuck end a run (F1-STA-02); idle does not.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Error | Self::Stuck)
    }
}

impl fmt::Display for ExecutionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no execution status.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown execution status {0:?}")]
pub struct UnknownStatus(String);

impl FromStr for ExecutionStatus {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| UnknownStatus(text.to_owned()))
    }
}
