//! The few facts about a conversation that its operator follows.

use openhands_protocol::{ExecutionStatus, report::ReportedUsage};

/// A conversation in short; the latest value only.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportState {
    /// Where the run stands.
    pub execution_status: ExecutionStatus,
    /// Actions that wait for the user's yes or no.
    pub pending_actions: u32,
    /// Sums over all models.
    pub usage: ReportedUsage,
    /// UTC time of the last event.
    pub last_activity: Option<String>,
    /// UTC time since when nothing runs; `None` while something runs.
    pub idle_since: Option<String>,
    /// The agent's last words, at most 1 KiB, without control characters.
    pub final_message: Option<String>,
    /// Why the run ended with an error: the error's name and text, at most 1 KiB, without control characters.
    pub error: Option<String>,
}
