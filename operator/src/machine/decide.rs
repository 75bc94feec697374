//! What to do next.

use std::sync::Arc;

use super::{
    attempt::{Attempt, Step},
    facts::{Binding, Facts, PodFact, PodState, Source},
};

/// What to do next. A pod is named by its uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Choose a free member and claim it.
    Pick,
    /// Make a pod of our own under its fixed name.
    Create,
    /// Ask the pod for its proof.
    Prove(Arc<str>),
    /// Send the keys, on the connection of the proof.
    Init(Arc<str>),
    /// Ask whether it takes our session key.
    Probe(Arc<str>),
    /// Write the status that names the pod, and this start of its container.
    Bind(Arc<str>),
    /// Start the agent.
    Start(Arc<str>),
    /// Delete a pod that is not ours to keep, after reading it once more.
    Discard(Arc<str>),
    /// Read from the source whether the bound pod is really gone.
    Verify(Arc<str>),
    /// Write that the sandbox is lost.
    Lose(Arc<str>),
    /// Nothing now.
    Wait(Wait),
    /// Nothing at all until something changes.
    Rest(Rest),
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A free member.
    Member,
    /// The claimed or bound pod gets an address.
    Address,
    /// A pod that is being deleted goes away.
    Departure,
}

/// Why there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It is being deleted.
    Deleting,
    /// Its sandbox is lost.
    Lost,
    /// Everything is done; reports are followed.
    Following,
}

/// What the last intents of this reconcile were answered with, as far as it bears on the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// No free member was found.
    pub no_member: bool,
    /// The bound pod was read from the source and is not there.
    pub bound_absent: bool,
}

/// What to do next.
#[must_use]
pub fn decide(facts: &Facts, attempt: Option<&Attempt>, tried: Tried) -> Intent {
    if facts.deleting {
        return Intent::Rest(Rest::Deleting);
    }
    match &facts.bound {
        Some(bound) => with_bound(facts, bound, attempt, tried),
        None if facts.lost => Intent::Rest(Rest::Lost),
        None => without_bound(facts, attempt, tried),
    }
}

/// The status names a pod: only this one counts.
fn with_bound(facts: &Facts, bound: &Binding, attempt: Option<&Attempt>, tried: Tried) -> Intent {
    let stray = facts.pods.iter().find(|pod| pod.uid != bound.uid && pod.state != PodState::Deleting);
    if let Some(stray) = stray {
        return Intent::Discard(Arc::clone(&stray.uid));
    }
    if facts.lost {
        return Intent::Rest(Rest::Lost);
    }
    let Some(pod) = facts.pods.iter().find(|pod| pod.uid == bound.uid) else {
        return if tried.bound_absent {
            Intent::Lose(Arc::clone(&bound.uid))
        } else {
            Intent::Verify(Arc::clone(&bound.uid))
        };
    };
    match pod.state {
        // Its name and address may still be in use by a node that cannot be reached: replacing it now could run the
        // conversation twice.
        PodState::Deleting => return Intent::Wait(Wait::Departure),
        PodState::Over => return Intent::Lose(Arc::clone(&bound.uid)),
        PodState::Starting => return Intent::Wait(Wait::Address),
        PodState::Reachable => {}
    }
    let attempt = attempt.filter(|attempt| attempt.pod == pod.uid && attempt.restarts == pod.restarts);
    // A container that was started again is claimed but dormant; an attempt below `Ours` says the same of this start.
    let keys_gone = pod.restarts != bound.restarts || attempt.is_some_and(|attempt| attempt.step < Step::Ours);
    if keys_gone {
        return match attempt.map(|attempt| attempt.step) {
            // What was started is started again (the server knows it by its id) before the status calls this start of the
            // container good, so that a crash in between forgets nothing.
            Some(Step::Ours) if facts.started => Intent::Start(Arc::clone(&pod.uid)),
            Some(Step::Ours | Step::Running) => Intent::Bind(Arc::clone(&pod.uid)),
            step => open(pod, step),
        };
    }
    if facts.wants_start && !facts.started {
        return Intent::Start(Arc::clone(&pod.uid));
    }
    Intent::Rest(Rest::Following)
}

/// The status names no pod: one that carries our uid is brought to the point where it can be named.
fn without_bound(facts: &Facts, attempt: Option<&Attempt>, tried: Tried) -> Intent {
    if let Some(over) = facts.pods.iter().find(|pod| pod.state == PodState::Over) {
        return Intent::Discard(Arc::clone(&over.uid));
    }
    let usable = |pod: &&PodFact| matches!(pod.state, PodState::Starting | PodState::Reachable);
    // The pod of the attempt first; otherwise the first in the fixed order, so that two writers agree.
    let of_attempt = attempt.and_then(|attempt| facts.pods.iter().find(|pod| pod.uid == attempt.pod)).filter(usable);
    let Some(pod) = of_attempt.or_else(|| facts.pods.iter().find(usable)) else {
        return match facts.source {
            Source::Cold => Intent::Create,
            Source::Warm if tried.no_member => Intent::Wait(Wait::Member),
            Source::WarmThenCold if tried.no_member => Intent::Create,
            Source::Warm | Source::WarmThenCold => Intent::Pick,
        };
    };
    if pod.state == PodState::Starting {
        return Intent::Wait(Wait::Address);
    }
    let attempt = attempt.filter(|attempt| attempt.pod == pod.uid && attempt.restarts == pod.restarts);
    match attempt.map(|attempt| attempt.step) {
        Some(Step::Ours | Step::Running) => Intent::Bind(Arc::clone(&pod.uid)),
        Some(Step::Rejected) => Intent::Discard(Arc::clone(&pod.uid)),
        step => open(pod, step),
    }
}

/// The next step towards a pod that takes our session key.
fn open(pod: &PodFact, step: Option<Step>) -> Intent {
    let uid = Arc::clone(&pod.uid);
    match step {
        None | Some(Step::Claimed | Step::Rejected) => Intent::Prove(uid),
        Some(Step::Proven) => Intent::Init(uid),
        Some(Step::Open | Step::Ours | Step::Running) => Intent::Probe(uid),
    }
}
