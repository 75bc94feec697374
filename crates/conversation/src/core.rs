//! What every part of the task works on: the log, the state, the machine, and their publication.
//!
//! Every change goes through here, so that the order on disk, on sockets and in the machine is one and the same.

use std::sync::Arc;

use jiff::Timestamp;
use openhands_agent::Machine;
use openhands_protocol::{
    Event, EventBase, EventId, ExecutionStatus, Source,
    event::ConversationStateUpdateEvent,
    report::{MAX_FINAL_MESSAGE, ReportedUsage},
    time,
};
use openhands_store::{EventLog, SideFile, StoreError};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    acting,
    calls::CallRecord,
    failure,
    hub::{Hub, Published},
    info,
    report::ReportState,
    snapshot::Snapshot,
    storage::Storage,
};

const CUT_OFF: &str =
    "This call was cut off because the conversation could not be stored; it may have had part of its effect.";

/// The parent of an event when HEAD is empty but the log is not.
const ROOT: &str = "__root__";

/// Log, state and machine of one conversation.
pub(crate) struct Core {
    pub(crate) log: EventLog,
    pub(crate) hub: Hub,
    pub(crate) state: Snapshot,
    pub(crate) machine: Machine,
    pub(crate) snapshots: watch::Sender<Arc<Snapshot>>,
    pub(crate) reports: watch::Sender<ReportState>,
    /// Where single model calls are written down until they are folded into `base_state.json`.
    pub(crate) calls_file: SideFile,
    pub(crate) storage: Storage,
    /// The id of the event that the answer on its way will give.
    pub(crate) answer: Option<EventId>,
    /// Sums changed since they were last told.
    stats_untold: bool,
    idle_since: Option<String>,
    /// The name and text of the latest error that ended a run in this process.
    failure: Option<String>,
}

impl Core {
    pub(crate) fn new(log: EventLog, state: Snapshot, machine: Machine, calls_file: SideFile) -> Self {
        let idle_since = Some(state.updated_at.clone());
        let report = report_state(&state, &machine, idle_since.as_ref(), None);
        let hub = Hub::new(log.written());
        Self {
            storage: Storage::follow(&log, &hub),
            log,
            hub,
            answer: None,
            snapshots: watch::Sender::new(Arc::new(state.clone())),
            reports: watch::Sender::new(report),
            state,
            machine,
            calls_file,
            stats_untold: false,
            idle_since,
            failure: None,
        }
    }

    /// Gives a draft its id (unless it has one), time stamp and parent, and appends it: to the log, the machine and all
    /// subscribers.
    pub(crate) fn append(&mut self, mut event: Event) -> Result<Arc<Event>, StoreError> {
        let now = Timestamp::now();
        let parent = match &self.state.leaf {
            Some(leaf) => Some(leaf.clone()),
            None if self.log.is_empty() => None,
            None => Some(EventId::from(ROOT)),
        };
        let base = event.base_mut();
        if base.id.as_str().is_empty() {
            base.id = EventId::random();
        }
        base.timestamp = time::event_stamp(now);
        base.parent_id = parent;
        let stored = self.log.append(&event)?;
        if event.moves_head() {
            self.state.leaf = Some(event.id().clone());
        }
        self.state.updated_at = time::utc_stamp(now);
        let frame = Published { bytes: stored.bytes.clone(), seq: Some(stored.seq), kind: Arc::clone(&stored.kind) };
        self.hub.publish_stored(event.id(), stored.seq, frame);
        self.note_failure(&event);
        let event = Arc::new(event);
        self.machine.observe(&event);
        self.state.final_response = Arc::clone(self.machine.final_response());
        Ok(event)
    }

    /// Appends the news that a state field has a new value.
    pub(crate) fn tell(&mut self, key: &str, value: Value) -> Result<(), StoreError> {
        self.append(Event::StateUpdate(ConversationStateUpdateEvent {
            base: draft(Source::Environment),
            key: key.to_owned(),
            value,
        }))
        .map(drop)
    }

    /// Sets the status and tells it; nothing happens when it has that value.
    pub(crate) fn set_status(&mut self, status: ExecutionStatus) -> Result<(), StoreError> {
        if self.state.status == status {
            return Ok(());
        }
        self.put_status(status);
        self.tell("execution_status", json!(status))
    }

    /// Sets the status without telling it, for when the log can no longer be written.
    pub(crate) fn put_status(&mut self, status: ExecutionStatus) {
        self.state.status = status;
        self.idle_since = (status != ExecutionStatus::Running).then(time::utc_now);
    }

    /// Counts a model call.
    pub(crate) fn count_call(&mut self, call: &CallRecord) {
        self.state.count(call);
        self.stats_untold = true;
        match serde_json::to_value(call).map(|record| self.calls_file.append(&record)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the record of a model call was lost"),
            Err(error) => tracing::warn!(%error, "the record of a model call was lost"),
        }
    }

    /// Tells the sums when they changed since they were last told.
    pub(crate) fn tell_stats(&mut self) -> Result<(), StoreError> {
        if !std::mem::take(&mut self.stats_untold) {
            return Ok(());
        }
        let stats = info::stats(&self.state, false);
        self.tell("stats", stats)
    }

    /// Shows the state to readers.
    pub(crate) fn publish(&self) {
        self.snapshots.send_replace(Arc::new(self.state.clone()));
        let report = report_state(&self.state, &self.machine, self.idle_since.as_ref(), self.failure.as_deref());
        self.reports.send_if_modified(|shown| {
            let changed = *shown != report;
            *shown = report;
            changed
        });
    }

    /// Publishes a `full_state` frame. A client's blocking run returns on it.
    pub(crate) fn publish_full_state(&self) {
        if self.hub.is_heard() {
            self.hub.publish(self.full_state());
        }
    }

    fn full_state(&self) -> Published {
        Published { bytes: info::full_state_event(&self.state), seq: None, kind: "ConversationStateUpdateEvent".into() }
    }

    /// Ends a run that cannot be stored. Its end is written when the disk takes it, and told at once, past what waits.
    pub(crate) fn fail_storage(&mut self, error: &StoreError) {
        let mut event = failure::storage_failed(error);
        self.note_failure(&event);
        let base = event.base_mut();
        base.id = EventId::random();
        base.timestamp = time::event_now();
        let frame = serde_json::to_vec(&event).map(|bytes| Published {
            bytes: bytes.into(),
            seq: None,
            kind: event.kind().into(),
        });
        // Another server's log must not be written; everything else waits in memory until the disk takes it.
        if !matches!(error, StoreError::OwnershipLost { .. }) {
            let written = self.settle_pending(CUT_OFF).and_then(|()| {
                self.set_status(ExecutionStatus::Error)?;
                self.append(event).map(drop)
            });
            if let Err(error) = written {
                tracing::error!(conversation = %self.state.id, %error, "the end of the run is told but not stored");
            }
        }
        self.put_status(ExecutionStatus::Error);
        self.hub.give_up_now("StorageError");
        if let Ok(frame) = frame {
            self.hub.publish_now(frame);
        }
        self.hub.publish_now(self.full_state());
    }

    fn note_failure(&mut self, event: &Event) {
        if let Event::ConversationError(failed) = event {
            self.failure = Some(format!("{}: {}", failed.code, failed.detail));
        }
    }

    /// Gives every action without a result an error, so that none is ever executed again.
    fn settle_pending(&mut self, why: &str) -> Result<(), StoreError> {
        for pending in self.machine.pending().events().to_vec() {
            if let Event::Action(action) = &*pending {
                self.append(acting::failed(action, why.to_owned()))?;
            }
        }
        Ok(())
    }
}

/// The base of an event that is about to be appended.
pub(crate) fn draft(source: Source) -> EventBase {
    EventBase { id: EventId::from(""), timestamp: String::new(), source, parent_id: None }
}

fn report_state(
    state: &Snapshot,
    machine: &Machine,
    idle_since: Option<&String>,
    failure: Option<&str>,
) -> ReportState {
    let mut usage = ReportedUsage::default();
    let mut cost = 0.0;
    for sums in state.stats.usage_to_metrics.values() {
        cost += sums.accumulated_cost;
        if let Some(tokens) = &sums.accumulated_token_usage {
            usage.prompt_tokens = usage.prompt_tokens.saturating_add(tokens.prompt_tokens);
            usage.completion_tokens = usage.completion_tokens.saturating_add(tokens.completion_tokens);
        }
    }
    usage.cost = decimal(cost);
    let waiting = state.status == ExecutionStatus::WaitingForConfirmation;
    ReportState {
        execution_status: state.status,
        pending_actions: if waiting { u32::try_from(machine.pending().len()).unwrap_or(u32::MAX) } else { 0 },
        usage,
        last_activity: Some(state.updated_at.clone()),
        idle_since: idle_since.cloned(),
        final_message: (!state.final_response.is_empty()).then(|| plain(&state.final_response, MAX_FINAL_MESSAGE)),
        error: failure.filter(|_| state.status == ExecutionStatus::Error).map(|text| plain(text, MAX_FINAL_MESSAGE)),
    }
}

/// Dollars with six digits at most.
fn decimal(cost: f64) -> String {
    let text = format!("{cost:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// At most `limit` bytes without control characters; line breaks become spaces.
fn plain(text: &str, limit: usize) -> String {
    let mut plain = String::with_capacity(limit.min(text.len()));
    for character in text.chars() {
        let shown = if character.is_whitespace() { ' ' } else { character };
        if shown.is_control() {
            continue;
        }
        if plain.len() + shown.len_utf8() > limit {
            break;
        }
        plain.push(shown);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_and_final_messages_are_shown_in_plain() {
        assert_eq!(decimal(0.0), "0");
        assert_eq!(decimal(1.5), "1.5");
        assert_eq!(decimal(10.0), "10");
        assert_eq!(decimal(0.000_001_4), "0.000001");
        assert_eq!(plain("a\nb\u{7}c\u{1b}[1m", 100), "a bc[1m");
        assert_eq!(plain("ääää", 5), "ää");
    }
}
