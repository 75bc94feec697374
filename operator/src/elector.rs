//! Leader election after client-go's algorithm: the clock of the holder is never compared with ours. What counts is how long
//! ago *we* saw the Lease change.
//!
//! A leader that could not renew for two thirds of the lease's duration gives up by itself, before anybody else may take over.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::api::ObjectMeta;
use tokio::{sync::watch, time::Instant};

use crate::api::{CallError, Kube};

/// Who is elected for what.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
    /// Who we are.
    pub identity: String,
    /// How long a silent leader keeps its office.
    pub duration: Duration,
}

/// What was seen of the Lease, and when by our own clock.
struct Observed {
    lease: Lease,
    at: Instant,
}

/// The elector.
pub struct Elector {
    kube: Kube,
    candidate: Candidate,
    observed: Option<Observed>,
}

impl Elector {
    /// An elector; `kube` needs time-outs that are short against the lease's duration.
    #[must_use]
    pub const fn new(kube: Kube, candidate: Candidate) -> Self {
        Self { kube, candidate, observed: None }
    }

    /// Waits until the Lease is ours.
    pub async fn acquire(&mut self) {
        let pause = self.candidate.duration / 8;
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) | Err(CallError::Conflict(_) | CallError::AlreadyExists) => {}
                Err(error) => tracing::warn!(%error, "the Lease cannot be had"),
            }
            tokio::time::sleep(pause.max(Duration::from_millis(250))).await;
        }
    }

    /// Renews until that fails for too long or `stop` is set, and tells which.
    pub async fn keep(&mut self, mut stop: watch::Receiver<bool>) -> Kept {
        let pause = self.candidate.duration / 8;
        let deadline = self.candidate.duration * 2 / 3;
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return Kept::Stopped,
                () = tokio::time::sleep(pause) => {}
            }
            let left = deadline.saturating_sub(renewed.elapsed());
            // The renewal counts from before the call: that is what others may have seen at the earliest.
            let begun = Instant::now();
            match tokio::time::timeout(left, self.attempt()).await {
                Ok(Ok(true)) => renewed = begun,
                Ok(Ok(false)) => return Kept::Lost,
                Ok(Err(error)) => tracing::warn!(%error, "the Lease could not be renewed"),
                Err(_) => return Kept::Lost,
            }
            if renewed.elapsed() >= deadline {
                return Kept::Lost;
            }
        }
    }

    /// Gives the Lease back, so that another replica need not wait.
    pub async fn release(&mut self) {
        let Some(observed) = &self.observed else { return };
        if holder(&observed.lease) != Some(&self.candidate.identity) {
            return;
        }
        let mut lease = observed.lease.clone();
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(Timestamp::now()));
        }
        if let Err(error) = self.kube.replace(&self.candidate.namespace, &self.candidate.lease, &lease).await {
            tracing::debug!(%error, "the Lease could not be given back");
        }
    }

    /// One try to take or renew; whether the Lease is ours now.
    async fn attempt(&mut self) -> Result<bool, CallError> {
        let (namespace, name) = (self.candidate.namespace.clone(), self.candidate.lease.clone());
        let current = match self.kube.get::<Lease>(&namespace, &name).await {
            Ok(lease) => lease,
            Err(CallError::NotFound) => {
                let lease: Lease = self.kube.create(&namespace, &self.written(None)).await?;
                self.observe(lease);
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        self.observe(current.clone());
        if !self.may_take(&current) {
            return Ok(false);
        }
        match self.kube.replace(&namespace, &name, &self.written(Some(&current))).await {
            Ok(lease) => {
                self.observe(lease);
                Ok(true)
            }
            // Somebody else was quicker, or an own write whose answer was lost; the next round reads who.
            Err(error) => Err(error),
        }
    }

    fn observe(&mut self, lease: Lease) {
        let changed = self.observed.as_ref().is_none_or(|observed| observed.lease.spec != lease.spec);
        let at = match (&self.observed, changed) {
            (Some(observed), false) => observed.at,
            _ => Instant::now(),
        };
        self.observed = Some(Observed { lease, at });
    }

    fn may_take(&self, lease: &Lease) -> bool {
        let Some(holder) = holder(lease).filter(|holder| !holder.is_empty()) else { return true };
        if *holder == self.candidate.identity {
            return true;
        }
        let told = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
        // The holder's word of how long it reckons with; ours where it says less.
        let duration = Duration::from_secs(u64::try_from(told).unwrap_or_default()).max(self.candidate.duration);
        self.observed.as_ref().is_some_and(|observed| observed.at.elapsed() >= duration)
    }

    fn written(&self, before: Option<&Lease>) -> Lease {
        let now = MicroTime(Timestamp::now());
        let spec = before.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let ours = spec.holder_identity.as_deref() == Some(&self.candidate.identity);
        let transitions = spec.lease_transitions.unwrap_or_default();
        Lease {
            metadata: before.map_or_else(
                || ObjectMeta {
                    name: Some(self.candidate.lease.clone()),
                    namespace: Some(self.candidate.namespace.clone()),
                    ..ObjectMeta::default()
                },
                |lease| lease.metadata.clone(),
            ),
            spec: Some(LeaseSpec {
                holder_identity: Some(self.candidate.identity.clone()),
                lease_duration_seconds: i32::try_from(self.candidate.duration.as_secs()).ok(),
                acquire_time: spec.acquire_time.filter(|_| ours).or_else(|| Some(now.clone())),
                renew_time: Some(now),
                lease_transitions: Some(if ours || before.is_none() {
                    transitions
                } else {
                    transitions.saturating_add(1)
                }),
                ..LeaseSpec::default()
            }),
        }
    }
}

/// How an office ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Somebody else has it, or may have it soon.
    Lost,
    /// We were asked to stop and still have it.
    Stopped,
}

fn holder(lease: &Lease) -> Option<&String> {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref())
}
