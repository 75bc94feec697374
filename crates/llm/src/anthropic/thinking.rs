//! How Claude is asked to think, on whichever interface; and which stored thinking can be sent back.

use serde_json::{Value, json};

use crate::{
    adapter::Setup,
    history::{History, Turn},
    models::Thinking,
};

/// The smallest budget that is taken.
const SMALLEST_BUDGET: u64 = 1024;

/// The `thinking` member; `None` where the model is not asked, or where the history forbids it.
pub(crate) fn ask_to_think(setup: &Setup, history: &History<'_>, max_tokens: u64) -> Option<Value> {
    let Setup { config, abilities, .. } = setup;
    match abilities.thinking {
        Thinking::Not => None,
        Thinking::Adaptive => abilities.effort(config).map(|_| json!({"type": "adaptive", "display": "summarized"})),
        // A loop of calls that began without thinking cannot go on with it.
        Thinking::Budget | Thinking::Effort if ends_in_unsigned_calls(history) => None,
        Thinking::Budget => abilities.thinking_budget(config),
        Thinking::Effort => {
            let budget = match config.reasoning_effort.as_deref()? {
                "none" => return None,
                "medium" => 2048,
                "high" => 4096,
                "xhigh" => 8192,
                "max" => 16_384,
                _ => SMALLEST_BUDGET,
            };
            let budget = max_tokens.checked_sub(1)?.min(budget);
            (budget >= SMALLEST_BUDGET).then(|| json!({"type": "enabled", "budget_tokens": budget}))
        }
    }
}

/// Whether the last thing the model said are calls before which it did not think. What the user said since stands in one message
/// with their results and does not end the loop.
pub(crate) fn ends_in_unsigned_calls(history: &History<'_>) -> bool {
    let last = history.turns.iter().rev().find_map(|turn| match turn {
        Turn::Assistant { message, calls } => Some((message, calls)),
        Turn::User(_) => None,
    });
    last.is_some_and(|(message, calls)| !calls.is_empty() && !message.thinking_blocks.iter().any(is_signed))
}

/// Whether a stored block is Claude's own and carries what proves it, so that it can be sent back.
pub(crate) fn is_signed(block: &Value) -> bool {
    let is_foreign = ["openrouter", "gemini"].iter().any(|mark| block.get(mark).is_some());
    let holds = |member: &str| block.get(member).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    !is_foreign
        && match block.get("type").and_then(Value::as_str) {
            Some("thinking") => holds("signature"),
            Some("redacted_thinking") => holds("data"),
            _ => false,
        }
}
