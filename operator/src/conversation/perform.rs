//! Carrying one intent out.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    accept::{NotAccepted, accept},
    bind, claim, create, open,
    patch::write,
    reconcile::{Again, Run, Stop, stopped},
    session::{self, NoKeys, SessionKeys},
    start, status,
    status::News,
    sweep,
};
use crate::{
    context::{Context, SLOW},
    machine::{Answer, Intent},
    view::{ConversationView, PodView},
};

impl Run<'_> {
    /// Carries an intent out; answers with the pod it was about.
    pub(super) async fn perform(&mut self, intent: &Intent) -> Result<(Answer, Option<Arc<PodView>>), Stop> {
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
                    self.remembered.rejected = 0;
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

    /// The session keys, if they can be had.
    pub(super) async fn need_session_keys(&mut self) -> Option<SessionKeys> {
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

    /// Writes news to the status.
    pub(super) async fn write(&mut self, news: &[News<'_>]) -> Result<(), Stop> {
        self.view = write(self.cx, &self.view, news).await.map_err(stopped)?;
        Ok(())
    }
}

async fn timed_keys(cx: &Context, view: &ConversationView) -> Result<SessionKeys, NoKeys> {
    let begun = Instant::now();
    let keys = session::ensure(cx, view).await;
    cx.metrics.stage("secret", view.pool.is_some(), begun.elapsed().as_secs_f64());
    keys
}
