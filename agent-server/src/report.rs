//! Sends the state of one conversation to the operator: the latest only, until it is acknowledged, with back-off. It does not
//! know what the operator does with it.

use std::{
    sync::{Arc, Weak},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use openhands_conversation::ReportState;
use openhands_protocol::report::{MAX_FINAL_MESSAGE, MAX_REPORT, Report, ReportTarget};
use reqwest::StatusCode;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{app::App, service::Live};

/// The shortest time between two reports; what happens meanwhile is in the next one.
const PACE: Duration = Duration::from_millis(250);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// The first wait after a failure.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// The longest wait after failures.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long the last report may take when the server stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// Starts sending, until `end` fires; what is known then is sent once more. The conversation need not exist yet.
pub fn start(tasks: &TaskTracker, app: &Arc<App>, target: ReportTarget, end: CancellationToken) {
    let app = Arc::downgrade(app);
    tasks.spawn(async move {
        let client = match openhands_llm::http_client() {
            Ok(client) => client,
            Err(error) => {
                tracing::error!(%error, "no reports will be sent: the HTTP client cannot be made");
                return;
            }
        };
        let mut sender = Sender { client, seq: first_seq(), target, end };
        while let Some(conversation) = find(&app, &sender).await {
            if sender.follow(&conversation).await == Followed::ShutDown {
                return;
            }
        }
    });
}

/// Rises over restarts of the process: microseconds of the start, one more for each report.
fn first_seq() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX / 2)
}

/// Waits until the conversation exists; `None` when the server stops first.
async fn find(app: &Weak<App>, sender: &Sender) -> Option<Live> {
    let mut changes = app.upgrade()?.conversations.changes();
    loop {
        let found = app.upgrade()?.conversations.get(sender.target.conversation_id).await;
        if let Ok(conversation) = found {
            return Some(conversation);
        }
        tokio::select! {
            () = sender.end.cancelled() => return None,
            changed = changes.changed() => changed.ok()?,
            // One that could not be loaded (another owner's lease) may be had later.
            () = tokio::time::sleep(LONGEST_WAIT) => {}
        }
    }
}

#[derive(PartialEq, Eq)]
enum Followed {
    /// The conversation was closed or deleted.
    Gone,
    /// The server stops.
    ShutDown,
}

struct Sender {
    client: reqwest::Client,
    seq: u64,
    target: ReportTarget,
    end: CancellationToken,
}

impl Sender {
    /// Reports every change until the conversation or the server ends.
    async fn follow(&mut self, conversation: &Live) -> Followed {
        let mut states = conversation.report_watch();
        loop {
            let state = states.borrow_and_update().clone();
            if !self.deliver(state, &mut states).await {
                return self.farewell(&states).await;
            }
            tokio::select! {
                () = self.end.cancelled() => return self.farewell(&states).await,
                () = tokio::time::sleep(PACE) => {}
            }
            tokio::select! {
                () = self.end.cancelled() => return self.farewell(&states).await,
                changed = states.changed() => if changed.is_err() {
                    return Followed::Gone;
                }
            }
        }
    }

    /// Sends until it is acknowledged, always the latest state; `false` when the server stops first.
    async fn deliver(&mut self, mut state: ReportState, states: &mut watch::Receiver<ReportState>) -> bool {
        let mut wait = FIRST_WAIT;
        loop {
            let report = self.next(&state);
            tokio::select! {
                () = self.end.cancelled() => return false,
                sent = self.post(&report) => match sent {
                    Ok(()) => return true,
                    Err(reason) => tracing::warn!(reason, wait = ?wait, "report was not taken"),
                },
            }
            tokio::select! {
                () = self.end.cancelled() => return false,
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait * 2).min(LONGEST_WAIT);
            state = states.borrow_and_update().clone();
        }
    }

    /// One last attempt, after the conversations have been closed.
    async fn farewell(&mut self, states: &watch::Receiver<ReportState>) -> Followed {
        let report = self.next(&states.borrow().clone());
        if let Ok(Err(reason)) = tokio::time::timeout(FAREWELL, self.post(&report)).await {
            tracing::warn!(reason, "the last report was not taken");
        }
        Followed::ShutDown
    }

    fn next(&mut self, state: &ReportState) -> Report {
        self.seq = self.seq.saturating_add(1);
        let ReportState { execution_status, pending_actions, usage, last_activity, idle_since, final_message, error } =
            state.clone();
        Report {
            pod_uid: self.target.pod_uid.clone(),
            conversation_id: self.target.conversation_id,
            seq: self.seq,
            execution_status,
            pending_actions,
            usage,
            last_activity,
            idle_since,
            final_message: final_message.map(|text| plain(&text)),
            error: error.map(|text| plain(&text)),
        }
    }

    async fn post(&self, report: &Report) -> Result<(), String> {
        let body = serde_json::to_vec(report).map_err(|error| error.to_string())?;
        if body.len() > MAX_REPORT {
            return Err(format!("the report has {} bytes, at most {MAX_REPORT} are taken", body.len()));
        }
        let answer = self
            .client
            .post(&self.target.url)
            .bearer_auth(self.target.token.expose())
            .header(http::header::CONTENT_TYPE, "application/json")
            .timeout(ATTEMPT)
            .body(body)
            .send()
            .await
            .map_err(|error| error.without_url().to_string())?;
        match answer.status() {
            StatusCode::NO_CONTENT | StatusCode::OK => Ok(()),
            other => Err(format!("the operator answered {other}")),
        }
    }
}

/// At most [`MAX_FINAL_MESSAGE`] bytes, without control characters.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars().map(|character| if character.is_control() { ' ' } else { character }) {
        if out.len() + character.len_utf8() > MAX_FINAL_MESSAGE {
            break;
        }
        out.push(character);
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_messages_are_short_and_plain() {
        assert_eq!(plain("a\nb\u{1b}[31m "), "a b [31m");
        assert_eq!(plain(&"ä".repeat(MAX_FINAL_MESSAGE)).len(), MAX_FINAL_MESSAGE);
    }

    #[test]
    fn sequence_numbers_rise_over_restarts() {
        let first = first_seq();
        assert!(first > 1_700_000_000_000_000 && first_seq() >= first);
    }
}
