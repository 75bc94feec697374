//! A condenser's settings, as an agent gives them.

use openhands_protocol::LlmConfig;
use serde::Deserialize;
use serde_json::Value;

/// The settings of an `LLMSummarizingCondenser` but for its model (F2-COND-14r).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct CondenserRules {
    /// Events that a model may see before older ones are summarised.
    pub max_size: usize,
    /// Tokens that a history may have; `None`: as many as the agent's model takes.
    pub max_tokens: Option<u64>,
    /// Events at the beginning that are never forgotten.
    pub keep_first: usize,
    /// The part of a history, between 0 and 1, that must be forgotten for it to be worth a call.
    pub minimum_progress: f64,
    /// How often a summary of everything is tried when nothing less helps.
    pub hard_context_reset_max_retries: u32,
    /// By this factor, between 0 and 1, single events are cut for every further try.
    pub hard_context_reset_context_scaling: f64,
}

impl Default for CondenserRules {
    fn default() -> Self {
        Self {
            max_size: 240,
            max_tokens: None,
            keep_first: 2,
            minimum_progress: 0.1,
            hard_context_reset_max_retries: 5,
            hard_context_reset_context_scaling: 0.8,
        }
    }
}

/// Condensers of a pipeline at most.
const LONGEST_PIPELINE: usize = 16;

/// The condensers that `agent.condenser` stands for, in the order in which they are asked, each with its model. `NoOpCondenser`
/// and null stand for none, a `PipelineCondenser` for its members.
///
/// # Errors
/// The member below `condenser` and what is wrong with it.
pub fn summarizers(condenser: Option<&Value>) -> Result<Vec<(CondenserRules, LlmConfig)>, (String, String)> {
    let mut found = Vec::new();
    if let Some(condenser) = condenser.filter(|condenser| !condenser.is_null()) {
        read(condenser, "", &mut found)?;
    }
    Ok(found)
}

fn read(condenser: &Value, place: &str, found: &mut Vec<(CondenserRules, LlmConfig)>) -> Result<(), (String, String)> {
    let at = |member: &str| format!("{place}{member}");
    match condenser.get("kind").and_then(Value::as_str).unwrap_or("LLMSummarizingCondenser") {
        "NoOpCondenser" => Ok(()),
        "PipelineCondenser" => {
            let members = condenser.get("condensers").and_then(Value::as_array);
            let members = members.ok_or_else(|| (at("condensers"), "must be a list of condensers".to_owned()))?;
            if members.len() > LONGEST_PIPELINE {
                return Err((at("condensers"), format!("has more than {LONGEST_PIPELINE} condensers")));
            }
            for (index, member) in members.iter().enumerate() {
                if member.get("kind").and_then(Value::as_str) == Some("PipelineCondenser") {
                    return Err((at(&format!("condensers.{index}")), "a pipeline cannot be in a pipeline".to_owned()));
                }
                read(member, &at(&format!("condensers.{index}.")), found)?;
            }
            Ok(())
        }
        "LLMSummarizingCondenser" => {
            let rules = CondenserRules::deserialize(condenser).map_err(|error| (at("kind"), error.to_string()))?;
            rules.check().map_err(|(member, problem)| (at(member), problem))?;
            let llm =
                condenser.get("llm").ok_or_else(|| (at("llm"), "is missing: the model that summarises".to_owned()))?;
            let llm = LlmConfig::deserialize(llm).map_err(|error| (at("llm"), error.to_string()))?;
            found.push((rules, llm));
            Ok(())
        }
        other => Err((
            at("kind"),
            format!("{other} is not supported; use LLMSummarizingCondenser, NoOpCondenser or PipelineCondenser"),
        )),
    }
}

impl CondenserRules {
    fn check(&self) -> Result<(), (&'static str, String)> {
        let is_part = |value: f64| value > 0.0 && value < 1.0;
        if self.max_size == 0 {
            return Err(("max_size", "must be above 0".to_owned()));
        }
        if self.max_size / 2 <= self.keep_first.saturating_add(1) {
            return Err((
                "keep_first",
                format!(
                    "must be below {} (half of max_size less 1), or nothing could be forgotten",
                    (self.max_size / 2).saturating_sub(1)
                ),
            ));
        }
        if !is_part(self.minimum_progress) {
            return Err(("minimum_progress", "must lie between 0 and 1".to_owned()));
        }
        if !is_part(self.hard_context_reset_context_scaling) {
            return Err(("hard_context_reset_context_scaling", "must lie between 0 and 1".to_owned()));
        }
        if !(1..=100).contains(&self.hard_context_reset_max_retries) {
            return Err(("hard_context_reset_max_retries", "must lie between 1 and 100".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn condensers_are_read_with_the_references_defaults() {
        let llm = json!({"model": "m", "usage_id": "condenser"});
        let one = json!({"kind": "LLMSummarizingCondenser", "llm": llm});
        assert_eq!(summarizers(None), Ok(Vec::new()));
        assert_eq!(summarizers(Some(&Value::Null)), Ok(Vec::new()));
        assert_eq!(summarizers(Some(&json!({"kind": "NoOpCondenser"}))), Ok(Vec::new()));
        let config = LlmConfig { model: "m".to_owned(), usage_id: "condenser".to_owned(), ..LlmConfig::default() };
        assert_eq!(summarizers(Some(&one)), Ok(vec![(CondenserRules::default(), config.clone())]));
        let pipeline = json!({"kind": "PipelineCondenser", "condensers": [
            {"kind": "NoOpCondenser"}, one, {"kind": "LLMSummarizingCondenser", "llm": llm, "max_size": 10, "keep_first": 3},
        ]});
        let small = CondenserRules { max_size: 10, keep_first: 3, ..CondenserRules::default() };
        assert_eq!(
            summarizers(Some(&pipeline)),
            Ok(vec![(CondenserRules::default(), config.clone()), (small, config)])
        );
    }

    #[test]
    fn wrong_condensers_are_named() {
        let wrong = |condenser: Value| summarizers(Some(&condenser)).unwrap_err().0;
        let llm = json!({"model": "m"});
        assert_eq!(wrong(json!({"kind": "Mine"})), "kind");
        assert_eq!(wrong(json!({"kind": "LLMSummarizingCondenser"})), "llm");
        assert_eq!(wrong(json!({"max_size": 10, "keep_first": 4, "llm": llm})), "keep_first");
        assert_eq!(wrong(json!({"minimum_progress": 1.0, "llm": llm})), "minimum_progress");
        assert_eq!(wrong(json!({"kind": "PipelineCondenser"})), "condensers");
        assert_eq!(wrong(json!({"kind": "PipelineCondenser", "condensers": [{"kind": "Mine"}]})), "condensers.0.kind");
        assert_eq!(
            wrong(json!({"kind": "PipelineCondenser", "condensers": [{"kind": "PipelineCondenser"}]})),
            "condensers.0"
        );
    }
}
