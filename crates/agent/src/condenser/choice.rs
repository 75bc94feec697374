//! Chooses which events of a view are forgotten.
//!
//! A cut is allowed only where no provider misses anything: not between a call and its result, not within the calls of one
//! response, and not within a loop of calls that began with signed thinking, which some providers check as a whole.

use std::{collections::HashSet, sync::Arc};

use openhands_protocol::Event;

use super::{CondenserRules, Plan, Reasons, transcript};

/// There is no part of the history that could be forgotten; the text says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NothingToForget(String);

/// The part between what is kept at the beginning and what is kept at the end (F2-COND-19r).
pub(super) fn middle(view: &[Arc<Event>], rules: &CondenserRules, reasons: &Reasons) -> Result<Plan, NothingToForget> {
    let nothing = |why: &str| NothingToForget(why.to_owned());
    if !reasons.any() {
        return Err(nothing("there is no reason to forget anything"));
    }
    let cuts = cuts(view);
    let cut_from = |index: usize| cuts.iter().copied().find(|cut| *cut >= index);
    let kept = rules.keep_first.max(first_after_system(view));
    let begin = cut_from(kept).ok_or_else(|| nothing("everything belongs to the kept beginning"))?;
    let end = cut_from(view.len().saturating_sub(tail(view, rules, reasons)));
    let end = end.ok_or_else(|| nothing("one loop of calls reaches to the end"))?;
    let forgotten = view.get(begin..end).unwrap_or_default();
    if forgotten.is_empty() {
        return Err(nothing("one loop of calls takes up nearly everything; raise max_size or lower keep_first"));
    }
    #[expect(clippy::cast_precision_loss, reason = "lengths of histories are far below 2^52")]
    let progress = forgotten.len() as f64 / view.len() as f64;
    if progress < rules.minimum_progress {
        return Err(NothingToForget(format!(
            "only {} of {} events could be forgotten, less than minimum_progress",
            forgotten.len(),
            view.len()
        )));
    }
    Ok(Plan { forgotten: forgotten.to_vec(), offset: begin })
}

/// Everything behind the system prompt.
pub(super) fn everything(view: &[Arc<Event>]) -> Result<Plan, NothingToForget> {
    let offset = first_after_system(view);
    let forgotten = view.get(offset..).unwrap_or_default();
    if forgotten.is_empty() {
        return Err(NothingToForget("there is nothing but the system prompt".to_owned()));
    }
    Ok(Plan { forgotten: forgotten.to_vec(), offset })
}

fn first_after_system(view: &[Arc<Event>]) -> usize {
    view.iter().position(|event| matches!(**event, Event::SystemPrompt(_))).map_or(0, |index| index + 1)
}

/// How many events at the end stay; the strictest reason decides.
fn tail(view: &[Arc<Event>], rules: &CondenserRules, reasons: &Reasons) -> usize {
    // One place is the summary's.
    let half = |size: usize| (size / 2).saturating_sub(rules.keep_first).saturating_sub(1);
    let mut tails = Vec::new();
    if reasons.request {
        tails.push(half(view.len()));
    }
    if reasons.events {
        tails.push(half(rules.max_size));
    }
    if let Some(tokens) = reasons.tokens {
        tails.push(tail_in_tokens(view, rules, tokens.used, tokens.cap / 2));
    }
    tails.into_iter().min().unwrap_or_default()
}

/// The longest end that leaves `goal` tokens when the view has `used`. Tokens are spread over events by their length.
fn tail_in_tokens(view: &[Arc<Event>], rules: &CondenserRules, used: u64, goal: u64) -> usize {
    let sizes: Vec<u64> = view.iter().map(|event| transcript::size(event)).collect();
    let whole: u64 = sizes.iter().sum::<u64>().max(1);
    let mut surplus = u128::from(used.saturating_sub(goal)) * u128::from(whole) / u128::from(used.max(1));
    let mut gone = 0;
    for size in sizes.iter().skip(rules.keep_first) {
        if surplus == 0 {
            break;
        }
        surplus = surplus.saturating_sub(u128::from(*size));
        gone += 1;
    }
    view.len().saturating_sub(rules.keep_first).saturating_sub(gone)
}

/// Where a view may be cut: before the event with that index, or at its end.
fn cuts(view: &[Arc<Event>]) -> Vec<usize> {
    let mut cuts = Vec::with_capacity(view.len() + 1);
    let mut open: HashSet<&str> = HashSet::new();
    let mut response: Option<&str> = None;
    let mut thinking = false;
    for (index, event) in view.iter().enumerate() {
        let inside = match &**event {
            Event::Action(action) => {
                let same = response == Some(action.llm_response_id.as_str());
                // Calls of an earlier response that never got a result do not hold the rest together.
                if !same {
                    open.clear();
                }
                let begins_loop = !action.thinking_blocks.is_empty() && !same;
                let inside = same || (thinking && !begins_loop);
                thinking |= begins_loop;
                response = Some(&action.llm_response_id);
                open.insert(&action.tool_call_id);
                inside
            }
            Event::Observation(_) | Event::UserReject(_) | Event::AgentError(_) => {
                let inside = thinking || !open.is_empty();
                if let Some(call) = call_of(event) {
                    open.remove(call);
                }
                inside
            }
            _ => {
                let inside = !open.is_empty();
                (thinking, response) = (false, if inside { response } else { None });
                inside
            }
        };
        if !inside {
            cuts.push(index);
        }
    }
    if open.is_empty() {
        cuts.push(view.len());
    }
    cuts
}

fn call_of(event: &Event) -> Option<&str> {
    match event {
        Event::Observation(result) => Some(&result.tool_call_id),
        Event::UserReject(result) => Some(&result.tool_call_id),
        Event::AgentError(result) => Some(&result.tool_call_id),
        _ => None,
    }
}
