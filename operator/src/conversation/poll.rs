//! The rest of step 7: what was reported is written, and a server that was silent for long is asked.

use std::time::Duration;

use openhands_client::ConversationState;
use openhands_crds::status::Usage;
use openhands_protocol::report::{Report, ReportedUsage};
use tokio::time::Instant;

use super::{
    follow::{Due, is_transition},
    open::reuse,
    patch::write,
    reconcile::{Again, Run},
    status::{self, News},
};
use crate::context::SLOW;

/// Polls in a row that fail before the sandbox is called unreachable.
const FAILURES: u32 = 3;

impl Run<'_> {
    /// Writes what was reported, asks where nothing was, and says when to look again.
    pub(crate) async fn follow(&mut self) -> Again {
        let mut again = SLOW;
        match self.cx.reports.due(&self.view) {
            Due::Nothing => {}
            Due::Later(wait) => again = again.min(wait),
            Due::Now(report) => match write(self.cx, &self.view, &[News::Report(&report)]).await {
                Ok(view) => {
                    self.view = view;
                    self.cx.reports.written(&self.view.uid, &report);
                }
                Err(_) => return Again::After(Duration::from_secs(1)),
            },
        }
        let next = self.poll_if_due().await;
        Again::After(again.min(next))
    }

    async fn poll_if_due(&mut self) -> Duration {
        let ready = self.view.is(status::READY);
        let busy = matches!(self.view.status.execution_status.as_deref(), Some("running" | "waiting_for_confirmation"));
        let every = Duration::from_secs(u64::from(self.cx.options.poll_seconds)) * if busy { 1 } else { 10 };
        // A sandbox without an agent has nothing to tell; it is asked only while it is not known to answer.
        if ready && !self.view.wants_start {
            return SLOW;
        }
        let heard = self.cx.reports.heard(&self.view.uid);
        let polled = self.remembered.polled.map(|at| at.elapsed());
        let silent = heard.into_iter().chain(polled).min();
        // What was just bound or begun is not asked at once.
        let Some(silent) = silent else {
            self.remembered.polled = Some(Instant::now());
            return if ready { every } else { Duration::from_secs(1) };
        };
        let pause = match (ready, self.remembered.poll_failures) {
            (true, 0) => every,
            _ => Duration::from_secs(5),
        };
        if silent < pause {
            return pause.saturating_sub(silent);
        }
        self.remembered.polled = Some(Instant::now());
        if self.poll().await {
            self.remembered.poll_failures = 0;
            return every;
        }
        self.remembered.poll_failures = self.remembered.poll_failures.saturating_add(1);
        if self.remembered.poll_failures >= FAILURES && ready {
            let news = [News::NotReady {
                reason: "SandboxUnreachable",
                message: "the sandbox does not answer; it is tried again".to_owned(),
            }];
            if let Ok(view) = write(self.cx, &self.view, &news).await {
                self.view = view;
            }
        }
        Duration::from_secs(5)
    }

    /// Asks the server; whether it answered.
    async fn poll(&mut self) -> bool {
        let Some(pod_uid) = self.view.status.sandbox.as_ref().map(|bound| bound.pod_uid.clone()) else { return true };
        let (Some(pod), Some(keys)) = (self.pod(&pod_uid), self.need_session_keys().await) else { return false };
        let Ok(mut connection) = reuse(&pod, None).await else { return false };
        let mut news = Vec::new();
        let report;
        if self.view.wants_start {
            let Ok(id) = self.view.conversation_id.parse() else { return true };
            match connection.get_conversation(&keys.api_key, id).await {
                Ok(Some(state)) => {
                    report = self.as_report(&pod_uid, id, &state);
                    if is_transition(&self.view, &report) || self.view.status.usage.is_none() {
                        news.push(News::Report(&report));
                    }
                }
                Ok(None) => tracing::warn!(conversation = %self.view.key, "the server does not know the conversation"),
                Err(_) => return false,
            }
        } else if !matches!(connection.accepts(&keys.api_key).await, Ok(true)) {
            return false;
        }
        if !self.view.is(status::READY) {
            news.push(News::ReadyAgain);
        }
        if !news.is_empty()
            && let Ok(view) = write(self.cx, &self.view, &news).await
        {
            self.view = view;
        }
        true
    }

    /// What a poll found in the words of a report; what a poll does not tell stays as it is.
    fn as_report(&self, pod_uid: &str, id: openhands_protocol::ConversationId, state: &ConversationState) -> Report {
        let status = &self.view.status;
        let usage = state.stats.as_ref().and_then(|stats| stats.combined()).map_or_else(
            || status.usage.as_ref().map_or_else(ReportedUsage::default, told),
            |sum| ReportedUsage {
                cost: decimal(sum.accumulated_cost),
                prompt_tokens: sum.accumulated_token_usage.as_ref().map_or(0, |tokens| tokens.prompt_tokens),
                completion_tokens: sum.accumulated_token_usage.as_ref().map_or(0, |tokens| tokens.completion_tokens),
            },
        );
        Report {
            pod_uid: pod_uid.to_owned(),
            conversation_id: id,
            seq: 0,
            execution_status: state.execution_status,
            pending_actions: u32::try_from(status.pending_actions.unwrap_or_default()).unwrap_or_default(),
            usage,
            last_activity: state.updated_at.clone(),
            idle_since: None,
            final_message: status.final_message.clone(),
            error: None,
        }
    }
}

fn told(usage: &Usage) -> ReportedUsage {
    ReportedUsage {
        cost: usage.cost.clone(),
        prompt_tokens: u64::try_from(usage.prompt_tokens).unwrap_or_default(),
        completion_tokens: u64::try_from(usage.completion_tokens).unwrap_or_default(),
    }
}

/// US dollars with at most six digits after the point.
fn decimal(cost: f64) -> String {
    let text = format!("{:.6}", if cost.is_finite() { cost.max(0.0) } else { 0.0 });
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn money_is_a_decimal_string() {
        assert_eq!(
            [0.0, 0.0125, 3.0, f64::NAN, 0.000_000_4].map(super::decimal),
            ["0", "0.0125", "3", "0", "0"].map(str::to_owned)
        );
    }
}
