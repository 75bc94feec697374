//! What the status says, as a function of what happened. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use openhands_crds::reference::SecretNameRef;
use openhands_crds::status::{BoundSandbox, Condition, ConversationStatus, Usage};
use openhands_protocol::{
    ExecutionStatus,
    report::{MAX_FINAL_MESSAGE, Report},
};

use crate::{names, view::ConversationView};

/// The specification is valid and everything it names is there.
pub(crate) const ACCEPTED: &str = "Accepted";
/// The sandbox answers with the keys of this Conversation.
pub(crate) const READY: &str = "Ready";
/// The agent was started.
pub(crate) const STARTED: &str = "Started";
/// The run is over; the reason says how.
pub(crate) const FINISHED: &str = "Finished";
/// Something ended the Conversation against the user's will; the reason says what.
pub(crate) const FAILED: &str = "Failed";

/// Longest message of a condition, characters.
const MAX_MESSAGE: usize = 1024;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News<'a> {
    /// The specification asks for something that is not there or not allowed.
    NotAccepted { reason: &'a str, message: String },
    /// There is no sandbox to use yet, or not now.
    NotReady { reason: &'a str, message: String },
    /// The sandbox answers again.
    ReadyAgain,
    /// This pod is the sandbox.
    Bound(BoundSandbox),
    /// The agent was started, with a message to work on or without.
    Started { with_message: bool },
    /// The server will not start the agent.
    StartRefused { message: String },
    /// The sandbox is gone for good.
    Lost { message: String },
    /// The server says where the run stands.
    Report(&'a Report),
}

/// The status after the news.
pub(crate) fn after(view: &ConversationView, now: Timestamp, news: &[News<'_>]) -> ConversationStatus {
    let mut next = Draft { status: (*view.status).clone(), generation: view.generation, now: seconds(now) };
    next.status.observed_generation = Some(view.generation);
    next.status.conversation_id = Some(view.conversation_id.to_string());
    for one in news {
        next.take(one, view);
    }
    next.status.phase = Some(phase(&next.status, view.wants_start).to_owned());
    next.status
}

struct Draft {
    status: ConversationStatus,
    generation: i64,
    now: Timestamp,
}

impl Draft {
    fn take(&mut self, news: &News<'_>, view: &ConversationView) {
        match news {
            News::NotAccepted { reason, message } => {
                self.set(ACCEPTED, "False", reason, message);
                if self.status.sandbox.is_none() {
                    self.set(READY, "False", "NotAccepted", "see the condition Accepted");
                }
            }
            News::NotReady { reason, message } => {
                self.accepted();
                self.set(READY, "False", reason, message);
            }
            News::ReadyAgain => self.set(READY, "True", "SandboxReady", "the sandbox answers"),
            News::Bound(sandbox) => self.bound(sandbox, view),
            News::Started { with_message } => {
                self.set(STARTED, "True", "Started", "the agent was started");
                self.set_if_there(FAILED, "False", "Started", "");
                if *with_message && self.status.execution_status.is_none() {
                    self.status.execution_status = Some(ExecutionStatus::Running.as_str().to_owned());
                    self.set(FINISHED, "False", "Running", "the agent is at work");
                }
            }
            News::StartRefused { message } => {
                self.set(STARTED, "False", "StartRefused", message);
                self.set(FAILED, "True", "StartRefused", message);
            }
            News::Lost { message } => {
                self.set(READY, "False", "SandboxLost", message);
                self.set(FINISHED, "True", "SandboxLost", message);
                self.set(FAILED, "True", "SandboxLost", message);
            }
            News::Report(report) => self.report(report),
        }
    }

    fn accepted(&mut self) {
        self.set(ACCEPTED, "True", "Accepted", "the specification is valid and everything it names is there");
    }

    fn bound(&mut self, sandbox: &BoundSandbox, view: &ConversationView) {
        self.accepted();
        let message = match (&self.status.sandbox, sandbox.warm) {
            (Some(_), _) => "the sandbox was started again and has its keys back",
            (None, true) => "a warm sandbox is ready",
            (None, false) => "the sandbox is ready",
        };
        self.set(READY, "True", "SandboxReady", message);
        if view.wants_start && !self.has(STARTED) {
            self.set(STARTED, "False", "Pending", "the agent is about to start");
        }
        self.status.sandbox = Some(sandbox.clone());
        self.status.session_key_secret_ref = Some(SecretNameRef { name: names::session_secret(&view.key.name) });
    }

    fn report(&mut self, report: &Report) {
        let status = report.execution_status;
        self.status.execution_status = Some(status.as_str().to_owned());
        self.status.pending_actions = Some(i32::try_from(report.pending_actions).unwrap_or(i32::MAX));
        self.status.usage = Some(usage(report));
        if let Some(at) = report.last_activity.as_deref().and_then(|text| text.parse::<Timestamp>().ok()) {
            self.status.last_activity = Some(Time(seconds(at)));
        }
        self.status.final_message = report.final_message.as_deref().map(final_message);
        match status {
            ExecutionStatus::Finished => {
                self.set(FINISHED, "True", "Finished", "the agent says it is done");
                self.set_if_there(FAILED, "False", "Finished", "");
            }
            ExecutionStatus::Error => {
                self.set(FINISHED, "True", "Error", "the run ended with an error");
                let message = self.why(report);
                self.set(FAILED, "True", "Error", &message);
            }
            ExecutionStatus::Stuck => {
                self.set(FINISHED, "True", "Stuck", "the agent repeated itself and was stopped");
                self.set(FAILED, "True", "Stuck", "the agent repeated itself and was stopped");
            }
            // A pause or a question is no end, and a message after the end opens the run again.
            ExecutionStatus::Running
            | ExecutionStatus::Paused
            | ExecutionStatus::WaitingForConfirmation
            | ExecutionStatus::Idle
            | ExecutionStatus::Deleting => {
                let (reason, message) = unfinished(status);
                // Idle after an end is the server's word for "nothing to do": the end stays.
                if status != ExecutionStatus::Idle || !self.is(FINISHED) {
                    self.set(FINISHED, "False", reason, message);
                    self.set_if_there(FAILED, "False", reason, message);
                }
            }
        }
    }

    /// The error that ended a run. A poll and a server that was started again do not tell it: then what was told before stays.
    fn why(&self, report: &Report) -> String {
        let before = || self.status.conditions.iter().find(|one| one.type_ == FAILED && one.reason == "Error");
        match &report.error {
            Some(text) => final_message(text),
            None => before().filter(|one| one.status == "True").map_or_else(
                || "the run ended with an error; the events say more".to_owned(),
                |one| one.message.clone(),
            ),
        }
    }

    fn has(&self, kind: &str) -> bool {
        self.status.conditions.iter().any(|one| one.type_ == kind)
    }

    fn is(&self, kind: &str) -> bool {
        self.status.conditions.iter().any(|one| one.type_ == kind && one.status == "True")
    }

    fn set_if_there(&mut self, kind: &str, value: &str, reason: &str, message: &str) {
        if self.has(kind) {
            self.set(kind, value, reason, message);
        }
    }

    fn set(&mut self, kind: &str, value: &str, reason: &str, message: &str) {
        set_condition(&mut self.status.conditions, kind, value, reason, message, self.generation, self.now);
    }
}

/// Sets a condition; its transition time changes only with its value.
pub(crate) fn set_condition(
    conditions: &mut Vec<Condition>,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    generation: i64,
    now: Timestamp,
) {
    let message: String = message.chars().take(MAX_MESSAGE).collect();
    let at = conditions
        .iter()
        .find(|one| one.type_ == kind && one.status == value)
        .map_or_else(|| Time(seconds(now)), |one| one.last_transition_time.clone());
    let next = Condition {
        type_: kind.to_owned(),
        status: value.to_owned(),
        observed_generation: Some(generation),
        last_transition_time: at,
        reason: reason.to_owned(),
        message,
    };
    match conditions.iter_mut().find(|one| one.type_ == kind) {
        Some(old) => *old = next,
        None => conditions.push(next),
    }
}

const fn unfinished(status: ExecutionStatus) -> (&'static str, &'static str) {
    match status {
        ExecutionStatus::Paused => ("Paused", "the user paused the run"),
        ExecutionStatus::WaitingForConfirmation => ("WaitingForConfirmation", "actions wait for the user's yes or no"),
        ExecutionStatus::Idle => ("Idle", "nothing runs"),
        ExecutionStatus::Running
        | ExecutionStatus::Finished
        | ExecutionStatus::Error
        | ExecutionStatus::Stuck
        | ExecutionStatus::Deleting => ("Running", "the agent is at work"),
    }
}

/// One word for people.
fn phase(status: &ConversationStatus, wants_start: bool) -> &'static str {
    let is = |kind: &str, value: &str| status.conditions.iter().any(|one| one.type_ == kind && one.status == value);
    if is(FAILED, "True") {
        return "Failed";
    }
    if status.sandbox.is_none() {
        return if is(ACCEPTED, "False") { "Pending" } else { "Starting" };
    }
    if is(READY, "False") {
        return "NotReady";
    }
    if !wants_start {
        return "Ready";
    }
    match status.execution_status.as_deref() {
        None if is(STARTED, "True") => "Idle",
        None => "Starting",
        Some("idle") if is(FINISHED, "True") => "Finished",
        Some("idle") => "Idle",
        Some("paused") => "Paused",
        Some("waiting_for_confirmation") => "Waiting",
        Some("finished") => "Finished",
        Some("error" | "stuck") => "Failed",
        Some(_) => "Running",
    }
}

fn usage(report: &Report) -> Usage {
    let cost = &report.usage.cost;
    let decimal =
        !cost.is_empty() && cost.len() <= 32 && cost.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    Usage {
        cost: if decimal { cost.clone() } else { "0".to_owned() },
        prompt_tokens: i64::try_from(report.usage.prompt_tokens).unwrap_or(i64::MAX),
        completion_tokens: i64::try_from(report.usage.completion_tokens).unwrap_or(i64::MAX),
    }
}

/// At most 1 KiB, without control characters: it is printed by tools that trust the API server.
fn final_message(text: &str) -> String {
    let mut kept = String::new();
    for c in text.chars().filter(|c| !c.is_control() || *c == '\n') {
        if kept.len() + c.len_utf8() > MAX_FINAL_MESSAGE {
            break;
        }
        kept.push(c);
    }
    kept
}

/// Whole seconds, as the API server's own times.
pub(crate) fn seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;
    use openhands_crds::{Conversation, ConversationSpec};
    use openhands_protocol::report::ReportedUsage;

    use super::*;

    fn view(status: ConversationStatus) -> ConversationView {
        let spec: ConversationSpec = serde_json::from_value(
            serde_json::json!({"sandbox": {"poolRef": {"name": "p"}}, "agent": {"llm": {"model": "m"}}}),
        )
        .unwrap();
        let metadata = ObjectMeta {
            name: Some("c".into()),
            namespace: Some("n".into()),
            uid: Some("00000000-0000-4000-8000-000000000001".into()),
            generation: Some(3),
            ..ObjectMeta::default()
        };
        ConversationView::from(Conversation { metadata, spec, status: Some(status) })
    }

    fn report(status: ExecutionStatus) -> Report {
        Report {
            pod_uid: "u".into(),
            conversation_id: openhands_protocol::ConversationId::random(),
            seq: 1,
            execution_status: status,
            pending_actions: 0,
            usage: ReportedUsage { cost: "0.01".into(), prompt_tokens: 1, completion_tokens: 2 },
            last_activity: Some("2026-01-02T03:04:05.678Z".into()),
            idle_since: None,
            final_message: Some("done\u{1b}[31m".into()),
            error: None,
        }
    }

    fn told(conditions: &[Condition]) -> Vec<String> {
        conditions.iter().map(|one| format!("{}={} {}", one.type_, one.status, one.reason)).collect()
    }

    #[test]
    fn an_error_is_told_and_kept_until_the_run_goes_on() {
        let mut status = ConversationStatus::default();
        let mut step = |report: &Report| {
            status = after(&view(status.clone()), Timestamp::from_second(1).unwrap(), &[News::Report(report)]);
            let failed = status.conditions.iter().find(|one| one.type_ == FAILED);
            failed.map(|one| (one.status.clone(), one.message.clone())).unwrap_or_default()
        };
        let told = |text: &str| ("True".to_owned(), text.to_owned());
        let silent = report(ExecutionStatus::Error);
        assert_eq!(step(&silent), told("the run ended with an error; the events say more"));
        let loud = Report { error: Some("LLMRateLimitError: slow\u{7} down".into()), ..silent.clone() };
        assert_eq!(step(&loud), told("LLMRateLimitError: slow down"));
        assert_eq!(step(&silent), told("LLMRateLimitError: slow down"));
        step(&report(ExecutionStatus::Running));
        assert_eq!(step(&silent), told("the run ended with an error; the events say more"));
    }

    #[test]
    fn a_life_reads_like_its_steps() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut status = ConversationStatus::default();
        let mut step = |second: i64, news: News<'_>| {
            status = after(&view(status.clone()), at(second), &[news]);
            (status.phase.clone().unwrap(), told(&status.conditions), status.clone())
        };
        let (phase, conditions, _) = step(1, News::NotAccepted { reason: "PoolNotFound", message: "x".into() });
        assert_eq!((phase.as_str(), conditions.len()), ("Pending", 2));
        let (phase, conditions, _) = step(2, News::Bound(BoundSandbox { warm: true, ..BoundSandbox::default() }));
        assert_eq!(phase, "Starting");
        assert_eq!(conditions, ["Accepted=True Accepted", "Ready=True SandboxReady", "Started=False Pending"]);
        let again = BoundSandbox { warm: true, restarts: 1, ..BoundSandbox::default() };
        let (_, _, again) = step(2, News::Bound(again));
        assert_eq!(again.conditions[1].message, "the sandbox was started again and has its keys back");
        let (phase, _, _) = step(3, News::Started { with_message: true });
        assert_eq!(phase, "Running");
        let (_, before, same) = step(4, News::Report(&report(ExecutionStatus::Running)));
        assert!(before.contains(&"Finished=False Running".to_owned()));
        assert_eq!(same.final_message.as_deref(), Some("done[31m"));
        let (phase, conditions, finished) = step(5, News::Report(&report(ExecutionStatus::Finished)));
        assert_eq!((phase.as_str(), conditions.last().unwrap().as_str()), ("Finished", "Finished=True Finished"));
        assert_eq!(finished.last_activity, Some(Time(at(1_767_323_045))));
        let (phase, _, _) = step(6, News::Report(&report(ExecutionStatus::Running)));
        assert_eq!(phase, "Running");
        let (phase, conditions, _) = step(7, News::Lost { message: "gone".into() });
        assert_eq!(phase, "Failed");
        assert!(conditions.contains(&"Failed=True SandboxLost".to_owned()));
        assert!(conditions.contains(&"Finished=True SandboxLost".to_owned()));
    }

    #[test]
    fn the_time_of_a_condition_changes_with_its_value_only() {
        let mut conditions = Vec::new();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        set_condition(&mut conditions, READY, "False", "A", "", 1, at(1));
        set_condition(&mut conditions, READY, "False", "B", "", 1, at(2));
        assert_eq!((conditions[0].last_transition_time.0, conditions[0].reason.as_str()), (at(1), "B"));
        set_condition(&mut conditions, READY, "True", "C", "", 1, at(3));
        assert_eq!(conditions[0].last_transition_time.0, at(3));
    }
}
