//! What a pool's status says. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use openhands_crds::WarmPoolStatus;

use crate::{
    conversation::set_condition,
    names,
    view::{PodPhase, PodView, PoolView},
};

/// The status of a pool with these pods.
pub(crate) fn status(
    pool: &PoolView,
    pods: &[Arc<PodView>],
    above_cap: usize,
    failure: Option<&str>,
    now: Timestamp,
) -> WarmPoolStatus {
    let idle: Vec<_> = pods.iter().filter(|pod| !pod.claimed && !pod.deleting && pod.phase != PodPhase::Over).collect();
    let count = |which: &dyn Fn(&PodView) -> bool| number(idle.iter().filter(|pod| which(pod)).count());
    let ready = count(&|pod| pod.is_free());
    let (value, reason, message) = judged(pool, &idle, ready, above_cap, failure);
    let mut next = WarmPoolStatus {
        observed_generation: Some(pool.generation),
        replicas: number(idle.len()),
        desired: pool.spec.replicas,
        ready,
        dormant: count(&|pod| pod.running),
        updated: count(&|pod| pod.template_hash.as_deref() == Some(&*pool.template_hash)),
        selector: names::idle_selector(&pool.key.name),
        conditions: pool.status.conditions.clone(),
    };
    set_condition(&mut next.conditions, "Ready", value, reason, &message, pool.generation, now);
    next
}

fn judged(
    pool: &PoolView,
    idle: &[&Arc<PodView>],
    ready: i32,
    above_cap: usize,
    failure: Option<&str>,
) -> (&'static str, &'static str, String) {
    if pool.spec.paused {
        return ("False", "Paused", "spec.paused is set: no members are made or deleted".to_owned());
    }
    if ready >= pool.spec.replicas {
        return ("True", "MembersReady", String::new());
    }
    if let Some(failure) = failure {
        return ("False", "CreationFailed", failure.to_owned());
    }
    let mut troubles: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for trouble in idle.iter().filter_map(|pod| pod.trouble.as_ref()) {
        troubles.entry(&trouble.reason).or_insert((0, &trouble.message)).0 += 1;
    }
    if let Some((reason, (members, message))) = troubles.into_iter().max_by_key(|(_, (members, _))| *members) {
        return ("False", "MembersFailing", format!("{members} members do not start: {reason}: {message}"));
    }
    if above_cap > 0 {
        return ("False", "AtCap", format!("{above_cap} members lack a place below spec.maxPods"));
    }
    ("False", "Filling", "members are starting".to_owned())
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
