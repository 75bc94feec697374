//! Whether a batch of actions needs the user's yes.

use openhands_protocol::{
    Source,
    event::{ActionEvent, SecurityAnalysisEvent},
    policy::{ConfirmationPolicy, SecurityAnalyzer, SecurityRisk},
};
use serde_json::{Map, Value};

use crate::answer::draft;

/// What was found about a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// A draft of the event that records the risks; absent without an analyzer and for exempt actions.
    pub analysis: Option<SecurityAnalysisEvent>,
    /// Whether the user is asked. A batch is asked for as a whole.
    pub ask: bool,
}

/// Judges the actions of a batch. A single `finish` or `think` is never asked for (F1-AGT-15).
#[must_use]
pub fn judge(batch: &[&ActionEvent], policy: &ConfirmationPolicy, analyzer: Option<&SecurityAnalyzer>) -> Judgement {
    let exempt = match batch {
        [] => true,
        [only] => only
            .action
            .as_ref()
            .and_then(|action| action.get("kind"))
            .and_then(Value::as_str)
            .is_some_and(|kind| matches!(kind, "FinishAction" | "ThinkAction")),
        _ => false,
    };
    if exempt {
        return Judgement { analysis: None, ask: false };
    }
    let risks: Vec<SecurityRisk> = batch.iter().map(|action| risk(action, analyzer)).collect();
    let analysis = analyzer.map(|analyzer| SecurityAnalysisEvent {
        base: draft(Source::Environment),
        analyzer: analyzer.kind.clone(),
        policy: policy.kind().to_owned(),
        risks: batch
            .iter()
            .zip(&risks)
            .map(|(action, risk)| (action.base.id.to_string(), serde_json::to_value(risk).unwrap_or_default()))
            .collect(),
        details: Map::new(),
    });
    Judgement { analysis, ask: risks.into_iter().any(|risk| policy.needs_confirmation(risk)) }
}

fn risk(action: &ActionEvent, analyzer: Option<&SecurityAnalyzer>) -> SecurityRisk {
    match analyzer.map(|analyzer| analyzer.kind.as_str()) {
        Some("LLMSecurityAnalyzer") => action.security_risk,
        None | Some("NoOpSecurityAnalyzer") => SecurityRisk::Unknown,
        // An analyzer that cannot judge counts as the worst finding. New conversations with such an analyzer are refused;
        // this one came from another server's disk.
        Some(_) => SecurityRisk::High,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::action;

    fn check(
        batch: &[ActionEvent],
        policy: ConfirmationPolicy,
        analyzer: Option<&str>,
        ask: bool,
        risks: Option<Value>,
    ) {
        let analyzer = analyzer.map(|kind| SecurityAnalyzer { kind: kind.to_owned(), settings: Map::new() });
        let batch: Vec<&ActionEvent> = batch.iter().collect();
        let judgement = judge(&batch, &policy, analyzer.as_ref());
        assert_eq!(judgement.ask, ask);
        assert_eq!(judgement.analysis.map(|analysis| Value::Object(analysis.risks)), risks);
    }

    #[test]
    fn batches() {
        let risky = || ConfirmationPolicy::ConfirmRisky { threshold: SecurityRisk::High, confirm_unknown: true };
        let always = || ConfirmationPolicy::AlwaysConfirm {};
        let run = |risk| ActionEvent { security_risk: risk, ..action("a", "terminal") };
        let finish = || ActionEvent { action: Some(json!({"kind": "FinishAction"})), ..action("f", "finish") };
        check(&[], always(), None, false, None);
        check(&[finish()], always(), Some("LLMSecurityAnalyzer"), false, None);
        check(&[run(SecurityRisk::Low)], always(), None, true, None);
        check(&[run(SecurityRisk::High)], ConfirmationPolicy::NeverConfirm {}, None, false, None);
        check(&[run(SecurityRisk::Low)], risky(), Some("LLMSecurityAnalyzer"), false, Some(json!({"a": "LOW"})));
        check(&[run(SecurityRisk::High)], risky(), Some("LLMSecurityAnalyzer"), true, Some(json!({"a": "HIGH"})));
        check(
            &[finish(), run(SecurityRisk::High)],
            risky(),
            Some("LLMSecurityAnalyzer"),
            true,
            Some(json!({"f": "UNKNOWN", "a": "HIGH"})),
        );
        check(&[run(SecurityRisk::Low)], risky(), None, true, None);
        check(&[run(SecurityRisk::Low)], risky(), Some("NoOpSecurityAnalyzer"), true, Some(json!({"a": "UNKNOWN"})));
        check(&[run(SecurityRisk::Low)], risky(), Some("Foreign"), true, Some(json!({"a": "HIGH"})));
    }
}
