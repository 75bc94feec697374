//! How far the claim of one pod has come, as far as this process knows.

use std::sync::Arc;

use super::decide::Intent;

/// How far one pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Whoever answers there is not the pod, or does not take our keys.
    Rejected,
    /// It carries our uid.
    Claimed,
    /// It has proven itself and is dormant.
    Proven,
    /// It is initialised, by us or by somebody else.
    Open,
    /// It takes our session key.
    Ours,
    /// The agent was started in this start of its container.
    Running,
}

/// The attempt on one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Uid of the pod.
    pub pod: Arc<str>,
    /// The start of its container that the step was reached in.
    pub restarts: i32,
    /// How far it has come.
    pub step: Step,
}

/// What came of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `Pick` or `Create`: this pod carries our uid now.
    Claimed(Arc<str>),
    /// `Pick`: there is no free member. `Create`: not now.
    Nothing,
    /// `Prove`: the pod has proven itself and waits for its keys.
    Dormant,
    /// `Prove`: the pod has proven itself and is initialised already. `Init`: it is, or our key is no longer its key.
    AlreadyOpen,
    /// `Prove`: whoever answers there is not the pod.
    WrongProof,
    /// `Init`: it took our keys. `Probe`: it takes our session key.
    Ours,
    /// `Probe`: it does not take our session key.
    Foreign,
    /// `Bind`, `Start`, `Discard`, `Lose`: done.
    Done,
    /// `Bind`: the status names another pod.
    OtherBound,
    /// `Start`: the server is not initialised (any more).
    NotOpen,
    /// `Verify`: the pod is there after all.
    Present,
    /// `Verify`: the pod is gone, or is another one of the same name.
    Absent,
    /// Nothing is known; it is tried again later.
    Unclear,
}

impl Attempt {
    /// What is known after an intent was carried out.
    #[must_use]
    pub fn learn(before: Option<Self>, intent: &Intent, answer: &Answer, restarts: i32) -> Option<Self> {
        let at = |pod: &Arc<str>, step: Step| Some(Self { pod: Arc::clone(pod), restarts, step });
        match (intent, answer) {
            (Intent::Pick | Intent::Create, Answer::Claimed(pod)) => at(pod, Step::Claimed),
            (Intent::Prove(pod), Answer::Dormant) => at(pod, Step::Proven),
            (Intent::Prove(pod) | Intent::Init(pod), Answer::AlreadyOpen) => at(pod, Step::Open),
            (Intent::Init(pod) | Intent::Probe(pod), Answer::Ours) => at(pod, Step::Ours),
            (Intent::Prove(pod), Answer::WrongProof) | (Intent::Probe(pod), Answer::Foreign) => at(pod, Step::Rejected),
            // After an uncertain init the pod may be open or dormant: it has to prove itself again, which tells which.
            (Intent::Prove(pod) | Intent::Init(pod), Answer::Unclear) => at(pod, Step::Claimed),
            (Intent::Start(pod), Answer::NotOpen) => at(pod, Step::Claimed),
            (Intent::Start(pod), Answer::Done) => at(pod, Step::Running),
            (Intent::Discard(pod), Answer::Done) if before.as_ref().is_some_and(|attempt| attempt.pod == *pod) => None,
            _ => before,
        }
    }
}
