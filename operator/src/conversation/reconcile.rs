//! The driver: asks the machine what to do, does it, and hands the answer back, until there is nothing to do now.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use openhands_client::Connection;
use openhands_crds::sandbox::StartPolicy;
use tokio::time::Instant;

use super::{
    accept::{Accepted, NotAccepted, accept},
    bind, claim, create, open,
    patch::{NotWritten, write},
    session::{self, NoKeys, SessionKeys},
    start, status,
    status::News,
    sweep,
};
use crate::{
    context::{ClaimGuard, Context, SLOW},
    events::About,
    machine::{Answer, Attempt, Binding, Facts, Intent, PodFact, PodState, Rest, Source, Tried, Wait, decide},
    view::{ConversationView, Key, PodPhase, PodView},
};

/// Steps of one reconcile; the longest way through the machine is about half of it.
const STEPS: usize = 24;
/// A claimed warm member that cannot be reached for so long is given up.
const UNREACHABLE: Duration = Duration::from_secs(10);

/// What is remembered of a Conversation between two reconciles; losing it costs nothing but time.
#[derive(Default)]
pub struct Memory {
    inner: Mutex<HashMap<Arc<str>, Remembered>>,
}

/// See [`Memory`].
#[derive(Clone, Default)]
pub(crate) struct Remembered {
    pub(crate) attempt: Option<Attempt>,
    /// When it was seen first.
    pub(crate) seen: Option<Instant>,
    /// Unclear answers in a row, and since when.
    pub(crate) unclear: u32,
    pub(crate) unclear_since: Option<Instant>,
    /// The last poll, and polls in a row that failed.
    pub(crate) polled: Option<Instant>,
    pub(crate) poll_failures: u32,
}

impl Memory {
    fn inner(&self) -> MutexGuard<'_, HashMap<Arc<str>, Remembered>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A Conversation was seen by the watch.
    pub fn seen(&self, uid: &Arc<str>) {
        self.inner().entry(Arc::clone(uid)).or_default().seen.get_or_insert_with(Instant::now);
    }

    fn get(&self, uid: &Arc<str>) -> Remembered {
        self.inner().get(uid).cloned().unwrap_or_default()
    }

    fn put(&self, uid: &Arc<str>, remembered: Remembered) {
        self.inner().insert(Arc::clone(uid), remembered);
    }

    /// Forgets Conversations that are not known any more.
    pub fn retain(&self, known: impl Fn(&str) -> bool) -> Vec<Arc<str>> {
        let mut gone = Vec::new();
        self.inner().retain(|uid, _| {
            let keep = known(uid);
            if !keep {
                gone.push(Arc::clone(uid));
            }
            keep
        });
        gone
    }
}

/// One look at a Conversation; answers when to look again.
pub async fn reconcile(cx: &Context, key: &Key) -> Option<Duration> {
    let view = cx.world.conversation(key)?;
    if view.deleting {
        return None;
    }
    let remembered = cx.memory.get(&view.uid);
    let mut run = Run {
        cx,
        view,
        remembered,
        tried: Tried::default(),
        accepted: None,
        keys: None,
        connection: None,
        claiming: None,
    };
    let again = run.go().await;
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
    accepted: Option<Accepted>,
    pub(crate) keys: Option<SessionKeys>,
    /// The connection to a pod, kept from its proof on.
    pub(crate) connection: Option<(Arc<str>, Connection)>,
    claiming: Option<ClaimGuard<'a>>,
}

/// A step that ends the reconcile.
enum Stop {
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
        match (intent, answer) {
            (Intent::Pick, Answer::Nothing) => self.tried.no_member = true,
            (Intent::Verify(_), Answer::Absent) => self.tried.bound_absent = true,
            (_, Answer::Unclear | Answer::Present) => return Err(Stop::Unclear),
            // The bound pod is never given up for what answers at its address.
            (_, Answer::WrongProof | Answer::Foreign) if bound => return Err(Stop::Unclear),
            (_, Answer::OtherBound) => {
                self.view = super::patch::read(self.cx, &self.view).await.map_err(stopped)?;
            }
            _ => self.clear(),
        }
        Ok(())
    }

    async fn perform(&mut self, intent: &Intent) -> Result<(Answer, Option<Arc<PodView>>), Stop> {
        let cx = self.cx;
        match intent {
            Intent::Pick => {
                self.claiming.get_or_insert_with(|| cx.claiming.begin());
                self.need_accepted().await?;
                let Some(pool) = self.accepted.as_ref().and_then(|accepted| accepted.pool.clone()) else {
                    return Ok((Answer::Nothing, None));
                };
                // The session Secret does not depend on the member: both writes go out together.
                let view = Arc::clone(&self.view);
                let have = self.keys.clone();
                let keys = async {
                    match have {
                        Some(keys) => Ok(keys),
                        None => timed_keys(cx, &view).await,
                    }
                };
                let (answer, keys) = tokio::join!(claim::pick(cx, &view, &pool), keys);
                self.keys = Some(self.have_keys(keys).await?);
                let pod = if let Answer::Claimed(uid) = &answer { self.pod(uid) } else { None };
                Ok((answer, pod))
            }
            Intent::Create => self.create().await,
            Intent::Prove(uid) => {
                self.claiming.get_or_insert_with(|| cx.claiming.begin());
                let pod = self.known(uid)?;
                let (answer, connection) = open::prove(cx, &pod).await;
                self.connection = connection.map(|connection| (Arc::clone(uid), connection));
                if answer == Answer::Unclear && self.is_given_up(&pod) {
                    return Ok((Answer::WrongProof, Some(pod)));
                }
                Ok((answer, Some(pod)))
            }
            Intent::Init(uid) => {
                let pod = self.known(uid)?;
                self.need_accepted().await?;
                self.need_keys().await?;
                let (Some((_, mut connection)), Some(keys), Some(accepted)) =
                    (self.connection.take().filter(|(of, _)| of == uid), &self.keys, &self.accepted)
                else {
                    // The connection of the proof is gone: it has to prove itself again.
                    self.remembered.attempt = None;
                    return Ok((Answer::Unclear, Some(pod)));
                };
                let answer = open::init(cx, &self.view, &pod, keys, &accepted.env, &mut connection).await;
                self.connection = Some((Arc::clone(uid), connection));
                Ok((answer, Some(pod)))
            }
            Intent::Probe(uid) => {
                let pod = self.known(uid)?;
                self.need_keys().await?;
                let Some(keys) = &self.keys else { return Err(Stop::Unclear) };
                let reused = self.connection.take().filter(|(of, _)| of == uid).map(|(_, connection)| connection);
                let (answer, connection) = open::probe(&pod, keys, reused).await;
                self.connection = connection.map(|connection| (Arc::clone(uid), connection));
                Ok((answer, Some(pod)))
            }
            Intent::Bind(uid) => {
                let pod = self.known(uid)?;
                let restarts = self.remembered.attempt.as_ref().map_or(pod.restarts, |attempt| attempt.restarts);
                let first = self.view.status.sandbox.is_none();
                let (answer, view) = bind::bind(cx, &self.view, &pod, restarts).await.map_err(stopped)?;
                if let Some(view) = view {
                    self.view = view;
                    self.claiming = None;
                    if first {
                        self.told_ready(&pod);
                    }
                }
                Ok((answer, Some(pod)))
            }
            Intent::Start(uid) => self.start(uid).await,
            Intent::Discard(uid) => {
                let Some(pod) = self.pod(uid) else { return Ok((Answer::Done, None)) };
                let answer = sweep::discard(cx, &self.view, &pod).await;
                Ok((answer, Some(pod)))
            }
            Intent::Verify(uid) => Ok((self.verify(uid).await, None)),
            Intent::Lose(uid) => {
                let message = match self.pod(uid).as_ref().and_then(|pod| pod.trouble.as_ref()) {
                    Some(trouble) => format!("the pod is over: {} {}", trouble.reason, trouble.message),
                    None => {
                        "the pod is gone, and with it the conversation's files: create another Conversation".to_owned()
                    }
                };
                self.write(&[News::Lost { message: message.clone() }]).await?;
                self.warn("SandboxLost", &message);
                Ok((Answer::Done, None))
            }
            Intent::Wait(_) | Intent::Rest(_) => Ok((Answer::Nothing, None)),
        }
    }

    async fn create(&mut self) -> Result<(Answer, Option<Arc<PodView>>), Stop> {
        self.need_accepted().await?;
        self.need_keys().await?;
        let Some(accepted) = &self.accepted else { return Err(Stop::Unclear) };
        match create::create(self.cx, &self.view, accepted).await {
            create::Created::Answer(answer) => {
                let pod = if let Answer::Claimed(uid) = &answer { self.pod(uid) } else { None };
                Ok((answer, pod))
            }
            create::Created::AtCap => {
                let message = "the WarmPool has as many pods as spec.maxPods allows".to_owned();
                Err(Stop::Again(self.wait_for_member("PoolAtLimit", message).await))
            }
            create::Created::Refused(message) => {
                self.warn("PodRefused", &message);
                self.write(&[News::NotReady { reason: "PodRefused", message }]).await?;
                Err(Stop::Again(Again::After(Duration::from_secs(15))))
            }
        }
    }

    async fn start(&mut self, uid: &Arc<str>) -> Result<(Answer, Option<Arc<PodView>>), Stop> {
        let pod = self.known(uid)?;
        self.need_accepted().await?;
        self.need_keys().await?;
        let Some(body) = self.accepted.as_mut().and_then(|accepted| accepted.start.take()) else {
            return Err(Stop::Unclear);
        };
        let Some(keys) = &self.keys else { return Err(Stop::Unclear) };
        let reused = self.connection.take().filter(|(of, _)| of == uid).map(|(_, connection)| connection);
        let outcome = start::start(&pod, keys, &body, reused).await;
        let with_message = body.get("initial_message").is_some();
        if let Some(accepted) = &mut self.accepted {
            accepted.start = Some(body);
        }
        match outcome {
            start::Start::Done(connection) => {
                self.connection = Some((Arc::clone(uid), connection));
                let again = self.view.is(status::STARTED);
                if !again {
                    self.write(&[News::Started { with_message }]).await?;
                }
                Ok((Answer::Done, Some(pod)))
            }
            start::Start::Answer(answer) => Ok((answer, Some(pod))),
            start::Start::Refused(message) => {
                self.warn("StartRefused", &message);
                self.write(&[News::StartRefused { message }]).await?;
                Err(Stop::Again(Again::After(SLOW)))
            }
        }
    }

    /// Reads from the source whether the bound pod is there.
    async fn verify(&self, uid: &Arc<str>) -> Answer {
        let Some(bound) = &self.view.status.sandbox else { return Answer::Unclear };
        let key = self.view.key.sibling(&bound.pod);
        match self.cx.kube.get::<crate::view::PodObject>(&key.namespace, &key.name).await {
            Ok(found) => {
                let found = PodView::from(found);
                if found.uid != *uid {
                    return Answer::Absent;
                }
                self.cx.world.put_pod(found);
                Answer::Present
            }
            Err(crate::api::CallError::NotFound) => Answer::Absent,
            Err(_) => Answer::Unclear,
        }
    }

    async fn need_accepted(&mut self) -> Result<(), Stop> {
        if self.accepted.is_some() {
            return Ok(());
        }
        match accept(self.cx, &self.view).await {
            Ok(accepted) => self.accepted = Some(accepted),
            Err(NotAccepted::Gone) => return Err(Stop::Again(Again::Never)),
            Err(NotAccepted::Call(error)) => {
                tracing::warn!(conversation = %self.view.key, %error, "what it names cannot be read");
                return Err(Stop::Unclear);
            }
            Err(NotAccepted::Because { reason, message }) => return Err(self.not_accepted(reason, message).await),
        }
        Ok(())
    }

    async fn not_accepted(&mut self, reason: &'static str, message: String) -> Stop {
        let known =
            self.view.condition(status::ACCEPTED).is_some_and(|one| one.reason == reason && one.message == message);
        if !known {
            self.warn(reason, &message);
        }
        match self.write(&[News::NotAccepted { reason, message }]).await {
            // Watches of pools and labelled Secrets call; a label or a foreign object is found by looking again.
            Ok(()) => Stop::Again(Again::After(Duration::from_secs(30))),
            Err(stop) => stop,
        }
    }

    pub(crate) async fn need_session_keys(&mut self) -> Option<SessionKeys> {
        if self.keys.is_none() {
            self.keys = timed_keys(self.cx, &self.view).await.ok();
        }
        self.keys.clone()
    }

    async fn need_keys(&mut self) -> Result<(), Stop> {
        if self.keys.is_none() {
            let keys = timed_keys(self.cx, &self.view).await;
            self.keys = Some(self.have_keys(keys).await?);
        }
        Ok(())
    }

    async fn have_keys(&mut self, keys: Result<SessionKeys, NoKeys>) -> Result<SessionKeys, Stop> {
        match keys {
            Ok(keys) => Ok(keys),
            Err(NoKeys::Unusable(message)) => Err(self.not_accepted("SessionSecretUnusable", message).await),
            Err(NoKeys::Call(error)) => {
                tracing::warn!(conversation = %self.view.key, %error, "the session Secret cannot be had");
                Err(Stop::Unclear)
            }
        }
    }

    async fn write(&mut self, news: &[News<'_>]) -> Result<(), Stop> {
        self.view = write(self.cx, &self.view, news).await.map_err(stopped)?;
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
    async fn wait_for_member(&mut self, reason: &'static str, message: String) -> Again {
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

    /// Nothing certain came back: again soon, and later each time.
    async fn unclear(&mut self) -> Again {
        self.remembered.unclear = self.remembered.unclear.saturating_add(1);
        let since = *self.remembered.unclear_since.get_or_insert_with(Instant::now);
        let waited = since.elapsed();
        if waited > Duration::from_secs(3) {
            self.cx.metrics.failures.get_or_create(&crate::metrics::Kind { kind: "conversation" }).inc();
            let news = [News::NotReady {
                reason: "SandboxUnreachable",
                message: "the sandbox does not answer; it is tried again".to_owned(),
            }];
            if self.view.status.sandbox.is_some() && self.write(&news).await.is_err() {
                return Again::After(Duration::from_secs(5));
            }
        }
        // A pod that is starting answers within moments: 20 ms, 40 ms, ... up to 5 s.
        let delay = Duration::from_millis(20_u64 << self.remembered.unclear.clamp(1, 9).saturating_sub(1));
        Again::After(delay.min(Duration::from_secs(5)))
    }

    fn clear(&mut self) {
        self.remembered.unclear = 0;
        self.remembered.unclear_since = None;
    }

    fn is_given_up(&self, pod: &PodView) -> bool {
        self.view.status.sandbox.is_none()
            && !is_cold(&self.view, pod)
            && self.remembered.unclear_since.is_some_and(|since| since.elapsed() > UNREACHABLE)
    }

    pub(crate) fn pod(&self, uid: &str) -> Option<Arc<PodView>> {
        pods(self.cx, &self.view).into_iter().find(|pod| *pod.uid == *uid)
    }

    fn known(&self, uid: &str) -> Result<Arc<PodView>, Stop> {
        self.pod(uid).ok_or(Stop::Unclear)
    }

    pub(crate) fn warn(&self, reason: &str, message: &str) {
        tracing::warn!(conversation = %self.view.key, reason, message, "told to the user");
        self.cx.events.warning(&self.about(), reason, message);
    }

    fn told_ready(&self, pod: &PodView) {
        let kind = if is_cold(&self.view, pod) { "cold" } else { "warm" };
        self.cx.events.normal(&self.about(), "SandboxReady", &format!("{kind} sandbox, pod {}", pod.key.name));
    }

    fn about(&self) -> About<'_> {
        About { kind: "Conversation", key: &self.view.key, uid: &self.view.uid }
    }
}

async fn timed_keys(cx: &Context, view: &ConversationView) -> Result<SessionKeys, NoKeys> {
    let begun = Instant::now();
    let keys = session::ensure(cx, view).await;
    cx.metrics.stage("secret", view.pool.is_some(), begun.elapsed().as_secs_f64());
    keys
}

fn is_cold(view: &ConversationView, pod: &PodView) -> bool {
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

fn stopped(error: NotWritten) -> Stop {
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

/// Pods that carry the uid, and the bound one whatever it carries.
fn pods(cx: &Context, view: &ConversationView) -> Vec<Arc<PodView>> {
    let mut pods = cx.world.pods_of_conversation(&view.uid);
    if let Some(bound) = &view.status.sandbox
        && !pods.iter().any(|pod| *pod.uid == *bound.pod_uid)
        && let Some(pod) = cx.world.pod(&view.key.sibling(&bound.pod)).filter(|pod| *pod.uid == *bound.pod_uid)
    {
        pods.push(pod);
    }
    pods
}

fn facts(cx: &Context, view: &ConversationView) -> Facts {
    let state = |pod: &PodView| match (pod.phase, pod.deleting, pod.ip) {
        (PodPhase::Over, _, _) => PodState::Over,
        (_, true, _) => PodState::Deleting,
        (_, false, None) => PodState::Starting,
        (_, false, Some(_)) => PodState::Reachable,
    };
    Facts {
        deleting: view.deleting,
        lost: view.condition(status::FAILED).is_some_and(|one| one.status == "True" && one.reason == "SandboxLost"),
        bound: view
            .status
            .sandbox
            .as_ref()
            .map(|bound| Binding { uid: bound.pod_uid.as_str().into(), restarts: bound.restarts }),
        started: view.is(status::STARTED),
        wants_start: view.wants_start,
        source: match view.policy {
            StartPolicy::PreferWarm => Source::WarmThenCold,
            StartPolicy::WarmOnly => Source::Warm,
            StartPolicy::ColdOnly => Source::Cold,
        },
        pods: pods(cx, view)
            .iter()
            .map(|pod| PodFact { uid: Arc::clone(&pod.uid), state: state(pod), restarts: pod.restarts })
            .collect(),
    }
}
