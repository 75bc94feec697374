//! The driver: asks the machine what to do, does it, and hands the answer back, until there is nothing to do now.

use std::{sync::Arc, time::Duration};

use openhands_client::Connection;
use tokio::time::Instant;

use super::{
    accept::Accepted,
    facts::{facts, pods},
    memory::Remembered,
    patch::{self, NotWritten},
    session::SessionKeys,
    status::{News, READY},
};
use crate::{
    context::{ClaimGuard, Context},
    events::About,
    machine::{Answer, Attempt, Intent, Rest, Tried, Wait, decide},
    metrics::Kind,
    view::{ConversationView, Key, PodView},
};

/// Steps of one reconcile; the longest way through the machine is about half of it.
const STEPS: usize = 24;
/// A claimed warm member that cannot be reached for so long is given up.
const UNREACHABLE: Duration = Duration::from_secs(10);

/// The user is told of what lasts longer than this.
const TELL_AFTER: Duration = Duration::from_secs(3);

/// The pause after `tries` unclear answers in a row that began `waited` ago. A server that is starting answers at once when its
/// container runs, which the kubelet tells up to a second late: asking often costs a refused connection each time.
fn pause(waited: Duration, tries: u32) -> Duration {
    let most = match waited.as_secs() {
        0..5 => 100,
        5..60 => 250,
        60..300 => 1000,
        _ => 5000,
    };
    Duration::from_millis((20_u64 << tries.clamp(1, 9).saturating_sub(1)).min(most))
}

/// One look at a Conversation; answers when to look again.
pub async fn reconcile(cx: &Context, key: &Key) -> Option<Duration> {
    let view = cx.world.conversation(key)?;
    if view.deleting {
        return None;
    }
    let mut remembered = cx.memory.get(&view.uid);
    let keys = remembered.keys.take();
    let mut run =
        Run { cx, view, remembered, tried: Tried::default(), accepted: None, keys, connection: None, claiming: None };
    let again = run.go().await;
    // Read again later from the Secret rather than kept for the whole life of a Conversation.
    run.remembered.keys = run.keys.take().filter(|_| !run.view.is_carried_out());
    cx.memory.put(&run.view.uid, run.remembered);
    match again {
        Again::Never => None,
        Again::After(delay) => Some(delay),
    }
}

/// When to look again.
pub(crate) enum Again {
    Never,
    After(Duration),
}

/// One reconcile.
pub(crate) struct Run<'a> {
    pub(crate) cx: &'a Context,
    pub(crate) view: Arc<ConversationView>,
    pub(crate) remembered: Remembered,
    tried: Tried,
    pub(super) accepted: Option<Accepted>,
    pub(crate) keys: Option<SessionKeys>,
    /// The connection to a pod, kept from its proof on.
    pub(crate) connection: Option<(Arc<str>, Connection)>,
    pub(super) claiming: Option<ClaimGuard<'a>>,
}

/// A step that ends the reconcile.
pub(super) enum Stop {
    Again(Again),
    /// Nothing certain came back; it is tried again soon.
    Unclear,
}

impl Run<'_> {
    async fn go(&mut self) -> Again {
        for _ in 0..STEPS {
            let facts = facts(self.cx, &self.view);
            match decide(&facts, self.remembered.attempt.as_ref(), self.tried) {
                Intent::Rest(Rest::Following) => {
                    self.clear();
                    self.claiming = None;
                    return self.follow().await;
                }
                Intent::Rest(Rest::Deleting | Rest::Lost) => return Again::Never,
                Intent::Wait(wait) => return self.wait(wait).await,
                Intent::Pick | Intent::Create if self.rest().is_some() => return self.rejected().await,
                intent => match self.step(&intent).await {
                    Ok(()) => {}
                    Err(Stop::Again(again)) => return again,
                    Err(Stop::Unclear) => return self.unclear().await,
                },
            }
        }
        tracing::warn!(conversation = %self.view.key, "a reconcile took too many steps");
        Again::After(Duration::from_secs(1))
    }

    /// Carries one intent out and learns from it.
    async fn step(&mut self, intent: &Intent) -> Result<(), Stop> {
        let begun = Instant::now();
        let bound = self.view.status.sandbox.is_some();
        let (answer, pod) = self.perform(intent).await?;
        let restarts = pod.as_ref().map_or(0, |pod| pod.restarts);
        tracing::debug!(conversation = %self.view.key, ?intent, ?answer, "step");
        self.remembered.attempt = Attempt::learn(self.remembered.attempt.take(), intent, &answer, restarts);
        if let (Some(stage), false) = (stage(intent), answer == Answer::Unclear) {
            let warm = pod.as_ref().is_none_or(|pod| !is_cold(&self.view, pod));
            self.cx.metrics.stage(stage, warm, begun.elapsed().as_secs_f64());
            if stage == "bind"
                && let (Some(seen), false) = (self.remembered.seen, bound)
            {
                self.cx.metrics.stage("total", warm, seen.elapsed().as_secs_f64());
            }
        }
        if matches!(answer, Answer::WrongProof | Answer::Foreign) && !bound {
            self.remembered.reject();
        }
        match (intent, answer) {
            (Intent::Pick, Answer::Nothing) => self.tried.no_member = true,
            (Intent::Verify(_), Answer::Absent) => self.tried.bound_absent = true,
            (_, Answer::Unclear | Answer::Present) => return Err(Stop::Unclear),
            // The bound pod is never given up for what answers at its address.
            (_, Answer::WrongProof | Answer::Foreign) if bound => return Err(Stop::Unclear),
            (_, Answer::OtherBound) => {
                self.view = patch::read(self.cx, &self.view).await.map_err(stopped)?;
            }
            _ => self.clear(),
        }
        Ok(())
    }

    async fn wait(&mut self, wait: Wait) -> Again {
        self.claiming = None;
        let (reason, message) = match wait {
            Wait::Member => {
                let message = "no member of the WarmPool is free: one is waited for".to_owned();
                return self.wait_for_member("NoFreeMember", message).await;
            }
            Wait::Address => ("SandboxStarting", self.starting_message()),
            Wait::Departure => (
                "SandboxTerminating",
                "the pod is being deleted; where its node cannot be reached this lasts until the node is back or removed"
                    .to_owned(),
            ),
        };
        match self.write(&[News::NotReady { reason, message }]).await {
            Ok(()) => Again::After(Duration::from_secs(30)),
            Err(stop) => again(stop),
        }
    }

    /// Enters the line for a member, and looks once more: one may have become free meanwhile.
    pub(super) async fn wait_for_member(&mut self, reason: &'static str, message: String) -> Again {
        let Some(pool) = self.view.pool.as_ref().map(|pool| self.view.key.sibling(pool)) else {
            return Again::After(Duration::from_secs(30));
        };
        self.claiming = None;
        self.cx.world.wait_for_member(&pool, &self.view);
        self.cx.pool_queue.add(pool.clone());
        if reason == "NoFreeMember" && self.cx.world.pods_of_pool(&pool).iter().any(|pod| pod.is_free()) {
            return Again::After(Duration::from_millis(50));
        }
        match self.write(&[News::NotReady { reason, message }]).await {
            Ok(()) => Again::After(Duration::from_secs(30)),
            Err(stop) => again(stop),
        }
    }

    fn starting_message(&self) -> String {
        let pods = self.cx.world.pods_of_conversation(&self.view.uid);
        match pods.iter().find_map(|pod| pod.trouble.as_ref()) {
            Some(trouble) => format!("the pod does not start: {}: {}", trouble.reason, trouble.message),
            None => "the pod is starting".to_owned(),
        }
    }

    /// How long no other pod is taken.
    fn rest(&self) -> Option<Duration> {
        let left = self.remembered.rested_until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Several pods in a row were not what they should be. Taking one after the other would only use the pool up.
    async fn rejected(&mut self) -> Again {
        let message =
            "the servers of several pods did not prove to be ours: see whether the image has a current agent-server";
        if self.view.condition(READY).is_none_or(|ready| ready.reason != "SandboxRejected") {
            self.warn("SandboxRejected", message);
        }
        match self.write(&[News::NotReady { reason: "SandboxRejected", message: message.to_owned() }]).await {
            Ok(()) => Again::After(self.rest().unwrap_or(Duration::from_millis(100))),
            Err(stop) => again(stop),
        }
    }

    /// Nothing certain came back: again soon, and later each time.
    async fn unclear(&mut self) -> Again {
        self.remembered.unclear = self.remembered.unclear.saturating_add(1);
        let waited = self.remembered.unclear_since.get_or_insert_with(Instant::now).elapsed();
        if waited > TELL_AFTER {
            self.cx.metrics.failures.get_or_create(&Kind { kind: "conversation" }).inc();
            let cold = pods(self.cx, &self.view).iter().any(|pod| is_cold(&self.view, pod));
            let (reason, message) = if cold && self.view.status.sandbox.is_none() {
                ("SandboxStarting", self.starting_message())
            } else {
                ("SandboxUnreachable", "the sandbox does not answer; it is tried again".to_owned())
            };
            if self.write(&[News::NotReady { reason, message }]).await.is_err() {
                return Again::After(Duration::from_secs(5));
            }
        }
        Again::After(pause(waited, self.remembered.unclear))
    }

    pub(super) fn clear(&mut self) {
        self.remembered.unclear = 0;
        self.remembered.unclear_since = None;
    }

    pub(super) fn is_given_up(&self, pod: &PodView) -> bool {
        self.view.status.sandbox.is_none()
            && !is_cold(&self.view, pod)
            && self.remembered.unclear_since.is_some_and(|since| since.elapsed() > UNREACHABLE)
    }

    pub(crate) fn pod(&self, uid: &str) -> Option<Arc<PodView>> {
        pods(self.cx, &self.view).into_iter().find(|pod| *pod.uid == *uid)
    }

    pub(super) fn known(&self, uid: &str) -> Result<Arc<PodView>, Stop> {
        self.pod(uid).ok_or(Stop::Unclear)
    }

    pub(crate) fn warn(&self, reason: &str, message: &str) {
        tracing::warn!(conversation = %self.view.key, reason, message, "told to the user");
        self.cx.events.warning(&self.about(), reason, message);
    }

    pub(super) fn told_ready(&self, pod: &PodView) {
        let kind = if is_cold(&self.view, pod) { "cold" } else { "warm" };
        self.cx.events.normal(&self.about(), "SandboxReady", &format!("{kind} sandbox, pod {}", pod.key.name));
    }

    fn about(&self) -> About<'_> {
        About { kind: "Conversation", key: &self.view.key, uid: &self.view.uid }
    }
}

/// Whether it is the pod made for this Conversation.
pub(super) fn is_cold(view: &ConversationView, pod: &PodView) -> bool {
    *pod.key.name == *crate::names::cold_pod(&view.key.name, &view.uid, 0)
}

fn stage(intent: &Intent) -> Option<&'static str> {
    match intent {
        Intent::Pick => Some("claim"),
        Intent::Create => Some("create"),
        Intent::Prove(_) => Some("prove"),
        Intent::Init(_) => Some("init"),
        Intent::Bind(_) => Some("bind"),
        Intent::Start(_) => Some("start"),
        Intent::Probe(_)
        | Intent::Discard(_)
        | Intent::Verify(_)
        | Intent::Lose(_)
        | Intent::Wait(_)
        | Intent::Rest(_) => None,
    }
}

pub(super) fn stopped(error: NotWritten) -> Stop {
    match error {
        NotWritten::Gone => Stop::Again(Again::Never),
        NotWritten::OtherBound => Stop::Unclear,
        NotWritten::Call(error) => {
            tracing::warn!(%error, "the status cannot be written");
            Stop::Unclear
        }
    }
}

fn again(stop: Stop) -> Again {
    match stop {
        Stop::Again(again) => again,
        Stop::Unclear => Again::After(Duration::from_secs(1)),
    }
}
