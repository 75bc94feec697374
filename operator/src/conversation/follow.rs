//! Step 7: reports become status. Transitions are written at once, usage and activity at most each minute and within a budget.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use openhands_protocol::report::Report;
use tokio::{sync::watch, time::Instant};

use crate::view::ConversationView;

/// Usage and activity alone are written this often at most.
const USAGE_EVERY: Duration = Duration::from_secs(60);
/// Writes of usage and activity alone, a second, over all Conversations.
const USAGE_RATE: f64 = 5.0;

/// The latest report of each Conversation, by its uid.
#[derive(Default)]
pub struct Reports {
    inner: Mutex<Inner>,
}

struct Inner {
    slots: HashMap<Arc<str>, Slot>,
    tokens: f64,
    since: Instant,
}

impl Default for Inner {
    fn default() -> Self {
        Self { slots: HashMap::new(), tokens: USAGE_RATE, since: Instant::now() }
    }
}

struct Slot {
    latest: Arc<Report>,
    applied: watch::Sender<u64>,
    heard: Instant,
    written: Option<Instant>,
}

/// What became of a report that was handed in.
pub enum Offer {
    /// A newer one is known.
    Late,
    /// It is the latest; the receiver shows which one was written last.
    Taken(watch::Receiver<u64>),
}

/// What is to be written now.
#[derive(Debug, PartialEq)]
pub(crate) enum Due {
    /// Nothing was heard that is not written.
    Nothing,
    /// This report.
    Now(Arc<Report>),
    /// Something, but not yet.
    Later(Duration),
}

impl Reports {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a report in. Reports of one pod rise; another pod begins anew.
    pub fn offer(&self, conversation_uid: &Arc<str>, report: Report) -> Offer {
        let mut inner = self.inner();
        let now = Instant::now();
        let slot = inner.slots.entry(Arc::clone(conversation_uid)).or_insert_with(|| Slot {
            latest: Arc::new(Report { seq: 0, ..report.clone() }),
            applied: watch::Sender::new(0),
            heard: now,
            written: None,
        });
        if slot.latest.pod_uid == report.pod_uid && report.seq < slot.latest.seq {
            return Offer::Late;
        }
        if slot.latest.pod_uid != report.pod_uid {
            slot.applied = watch::Sender::new(0);
        }
        slot.latest = Arc::new(report);
        slot.heard = now;
        Offer::Taken(slot.applied.subscribe())
    }

    /// What of a Conversation's latest report is to be written now.
    pub(crate) fn due(&self, view: &ConversationView) -> Due {
        let mut inner = self.inner();
        inner.refill();
        let budget = inner.tokens >= 1.0;
        let Some(slot) = inner.slots.get(&view.uid) else { return Due::Nothing };
        let bound = view.status.sandbox.as_ref().is_some_and(|bound| bound.pod_uid == slot.latest.pod_uid);
        if !bound || *slot.applied.borrow() >= slot.latest.seq {
            return Due::Nothing;
        }
        if is_transition(view, &slot.latest) {
            return Due::Now(Arc::clone(&slot.latest));
        }
        let wait = slot.written.map_or(Duration::ZERO, |at| USAGE_EVERY.saturating_sub(at.elapsed()));
        if !wait.is_zero() {
            return Due::Later(wait);
        }
        if !budget {
            return Due::Later(Duration::from_secs(2));
        }
        inner.tokens -= 1.0;
        inner.slots.get(&view.uid).map_or(Due::Nothing, |slot| Due::Now(Arc::clone(&slot.latest)))
    }

    /// A report was written.
    pub(crate) fn written(&self, conversation_uid: &str, report: &Report) {
        if let Some(slot) = self.inner().slots.get_mut(conversation_uid) {
            slot.written = Some(Instant::now());
            if slot.latest.pod_uid == report.pod_uid {
                slot.applied
                    .send_if_modified(|applied| std::mem::replace(applied, report.seq.max(*applied)) < report.seq);
            }
        }
    }

    /// How long ago a Conversation's server was heard.
    pub(crate) fn heard(&self, conversation_uid: &str) -> Option<Duration> {
        self.inner().slots.get(conversation_uid).map(|slot| slot.heard.elapsed())
    }

    /// Forgets a Conversation.
    pub(crate) fn forget(&self, conversation_uid: &str) {
        self.inner().slots.remove(conversation_uid);
    }
}

impl Inner {
    fn refill(&mut self) {
        self.tokens = (self.since.elapsed().as_secs_f64() * USAGE_RATE + self.tokens).min(USAGE_RATE);
        self.since = Instant::now();
    }
}

/// Whether a report says something that users and programs wait for.
pub fn is_transition(view: &ConversationView, report: &Report) -> bool {
    let status = &view.status;
    let pending = i32::try_from(report.pending_actions).unwrap_or(i32::MAX);
    status.execution_status.as_deref() != Some(report.execution_status.as_str())
        || status.pending_actions.unwrap_or_default() != pending
        || (report.execution_status.is_terminal() && status.final_message.is_none() && report.final_message.is_some())
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;
    use openhands_crds::{Conversation, ConversationStatus};
    use openhands_protocol::{ConversationId, ExecutionStatus, report::ReportedUsage};

    use super::*;

    fn view(execution: &str) -> ConversationView {
        let spec = serde_json::from_value(serde_json::json!({"sandbox": {"poolRef": {"name": "p"}}})).unwrap();
        let status: ConversationStatus = serde_json::from_value(serde_json::json!({
            "executionStatus": execution, "sandbox": {"podUID": "pod", "pod": "p", "address": "a", "warm": true}
        }))
        .unwrap();
        let metadata = ObjectMeta { uid: Some("c".into()), ..ObjectMeta::default() };
        ConversationView::from(Conversation { metadata, spec, status: Some(status) })
    }

    fn report(seq: u64, execution_status: ExecutionStatus) -> Report {
        Report {
            pod_uid: "pod".into(),
            conversation_id: ConversationId::random(),
            seq,
            execution_status,
            pending_actions: 0,
            usage: ReportedUsage::default(),
            last_activity: None,
            idle_since: None,
            final_message: None,
            error: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn transitions_go_first_and_usage_waits_its_minute() {
        let reports = Reports::default();
        let uid: Arc<str> = "c".into();
        let running = view("running");
        let first = report(5, ExecutionStatus::Running);
        let Offer::Taken(applied) = reports.offer(&uid, first.clone()) else { panic!("taken") };
        assert_eq!(reports.due(&running), Due::Now(Arc::new(first.clone())));
        reports.written(&uid, &first);
        assert_eq!(*applied.borrow(), 5);
        assert_eq!(reports.due(&running), Due::Nothing);
        assert!(matches!(reports.offer(&uid, report(4, ExecutionStatus::Finished)), Offer::Late));
        reports.offer(&uid, report(6, ExecutionStatus::Running));
        assert_eq!(reports.due(&running), Due::Later(USAGE_EVERY));
        let end = report(7, ExecutionStatus::Finished);
        reports.offer(&uid, end.clone());
        assert_eq!(reports.due(&running), Due::Now(Arc::new(end)));
        tokio::time::advance(USAGE_EVERY).await;
        assert_eq!(
            reports.due(&view("finished")),
            Due::Now(Arc::new(reports.inner().slots["c"].latest.as_ref().clone()))
        );
    }

    #[tokio::test]
    async fn only_the_bound_pod_is_believed() {
        let reports = Reports::default();
        let uid: Arc<str> = "c".into();
        reports.offer(&uid, Report { pod_uid: "other".into(), ..report(5, ExecutionStatus::Finished) });
        assert_eq!(reports.due(&view("running")), Due::Nothing);
    }
}
