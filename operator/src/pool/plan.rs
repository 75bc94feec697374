//! What a pool lacks and what it has too much of. Pure.

use std::{collections::BTreeSet, sync::Arc};

use crate::view::{PodPhase, PodView, PoolView};

/// What is to be done now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Slots that get a member.
    pub(crate) create: Vec<u32>,
    /// Members that are too many or over.
    pub(crate) delete: Vec<Doomed>,
    /// Members that are wanted and have no place below the cap.
    pub(crate) above_cap: usize,
}

/// A member that goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Doomed {
    /// Its name.
    pub(crate) name: Arc<str>,
    /// Its uid.
    pub(crate) uid: Arc<str>,
    /// Its resource version: a member that is claimed meanwhile stays.
    pub(crate) version: Arc<str>,
    /// It is over, and its place is needed.
    pub(crate) over: bool,
}

/// Makes the plan. `pending` are slots whose creation was asked for and not seen yet, `foreign` slots whose name somebody else
/// has, `leaving` uids whose deletion was asked for.
pub(crate) fn plan(
    pool: &PoolView,
    pods: &[Arc<PodView>],
    pending: &BTreeSet<u32>,
    foreign: &BTreeSet<u32>,
    leaving: &BTreeSet<Arc<str>>,
) -> Plan {
    if pool.deleting || pool.spec.paused {
        return Plan::default();
    }
    let stays = |pod: &&Arc<PodView>| !pod.claimed && !pod.deleting && !leaving.contains(&pod.uid);
    let mut plan = Plan::default();
    let mut idle: Vec<&Arc<PodView>> = Vec::new();
    for pod in pods.iter().filter(stays) {
        if pod.phase == PodPhase::Over {
            plan.delete.push(Doomed::of(pod, true));
        } else {
            idle.push(pod);
        }
    }
    let wanted = usize::try_from(pool.spec.replicas).unwrap_or_default();
    let have = idle.len() + pending.len();
    if have < wanted {
        let cap = u32::try_from(pool.spec.max_pods()).unwrap_or_default();
        let taken: BTreeSet<u32> =
            pods.iter().filter_map(|pod| slot(&pool.key.name, &pod.key.name)).chain(pending.iter().copied()).collect();
        // Pods that are not in a slot (cold ones) count below the cap as well.
        let outside = pods.iter().filter(|pod| slot(&pool.key.name, &pod.key.name).is_none()).count();
        let room = usize::try_from(cap).unwrap_or_default().saturating_sub(taken.len() + outside);
        let lacking = wanted - have;
        plan.create =
            (0..cap).filter(|slot| !taken.contains(slot) && !foreign.contains(slot)).take(lacking.min(room)).collect();
        plan.above_cap = lacking - plan.create.len();
    } else if have > wanted {
        // Outdated first, then those that cannot be claimed, then the newest: what is old has proven itself.
        idle.sort_by_key(|pod| {
            let current = pod.template_hash.as_deref() == Some(&*pool.template_hash);
            (current, pod.ready, std::cmp::Reverse(pod.created))
        });
        plan.delete.extend(idle.into_iter().take(have - wanted).map(|pod| Doomed::of(pod, false)));
    }
    plan
}

impl Doomed {
    fn of(pod: &PodView, over: bool) -> Self {
        Self { name: Arc::clone(&pod.key.name), uid: Arc::clone(&pod.uid), version: Arc::clone(&pod.version), over }
    }
}

/// The slot in a member's name.
pub(crate) fn slot(pool: &str, pod: &str) -> Option<u32> {
    let digits = pod.strip_prefix(pool)?.strip_prefix('-')?;
    digits.parse().ok().filter(|slot: &u32| slot.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use openhands_crds::{WarmPool, WarmPoolSpec};
    use serde_json::{Value, json};

    use super::*;
    use crate::view::PodObject;

    fn pool(spec: Value) -> PoolView {
        let spec: WarmPoolSpec = serde_json::from_value(spec).unwrap();
        let mut pool = WarmPool::new("p", spec);
        pool.metadata.namespace = Some("n".into());
        PoolView::from(pool)
    }

    fn member(slot: u32, change: impl FnOnce(&mut PodView)) -> Arc<PodView> {
        let pod: PodObject = serde_json::from_value(json!({
            "metadata": {"name": format!("p-{slot}"), "namespace": "n", "uid": format!("u{slot}"), "labels":
                {"openhands.dev/pool": "p", "openhands.dev/state": "idle"}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        }))
        .unwrap();
        let mut pod = PodView::from(pod);
        pod.created = jiff::Timestamp::from_second(i64::from(slot)).unwrap();
        change(&mut pod);
        Arc::new(pod)
    }

    fn planned(pool: &PoolView, pods: &[Arc<PodView>], pending: &[u32]) -> (Vec<u32>, Vec<String>, usize) {
        let (pending, foreign) = (pending.iter().copied().collect(), BTreeSet::from([9]));
        let plan = plan(pool, pods, &pending, &foreign, &BTreeSet::new());
        (plan.create, plan.delete.iter().map(|doomed| doomed.name.to_string()).collect(), plan.above_cap)
    }

    #[test]
    fn what_lacks_is_made_in_the_lowest_slots_below_the_cap() {
        let three = pool(json!({"replicas": 3, "maxPods": 4, "template": {}}));
        assert_eq!(planned(&three, &[], &[]), (vec![0, 1, 2], vec![], 0));
        assert_eq!(planned(&three, &[member(1, |_| {})], &[0]), (vec![2], vec![], 0));
        let ten = pool(json!({"replicas": 1, "maxPods": 11, "template": {}}));
        let nine: Vec<_> = (0..9).map(|slot| member(slot, |pod| pod.claimed = true)).collect();
        assert_eq!(planned(&ten, &nine, &[]), (vec![10], vec![], 0), "slot 9 is somebody else's");
        let claimed = [member(0, |pod| pod.claimed = true), member(2, |pod| pod.deleting = true)];
        assert_eq!(planned(&three, &claimed, &[]), (vec![1, 3], vec![], 1));
        let cold = [
            member(0, |pod| {
                pod.key = pod.key.sibling("c-1234-0");
                pod.claimed = true;
            }),
            member(1, |pod| pod.claimed = true),
        ];
        assert_eq!(planned(&three, &cold, &[]), (vec![0, 2], vec![], 1));
    }

    #[test]
    fn too_many_go_outdated_and_unready_and_newest_first() {
        let one = pool(json!({"replicas": 1, "template": {}}));
        let current = one.template_hash.clone();
        let mark = |pod: &mut PodView| pod.template_hash = Some(current.clone());
        let pods = [
            member(0, mark),
            member(1, mark),
            member(2, |_| {}),
            member(3, |pod| {
                mark(pod);
                pod.ready = false;
            }),
        ];
        assert_eq!(planned(&one, &pods, &[]), (vec![], vec!["p-2".into(), "p-3".into(), "p-1".into()], 0));
    }

    #[test]
    fn members_that_cannot_start_are_held_and_members_that_are_over_are_replaced() {
        let one = pool(json!({"replicas": 1, "template": {}}));
        let crashing = member(0, |pod| pod.ready = false);
        assert_eq!(planned(&one, &[crashing], &[]), (vec![], vec![], 0));
        let over = member(0, |pod| pod.phase = PodPhase::Over);
        assert_eq!(planned(&one, &[over], &[]), (vec![1], vec!["p-0".into()], 0));
    }

    #[test]
    fn a_paused_pool_rests() {
        assert_eq!(
            planned(&pool(json!({"replicas": 3, "paused": true, "template": {}})), &[], &[]),
            (vec![], vec![], 0)
        );
        assert_eq!(
            [slot("p", "p-7"), slot("p", "p-07"), slot("p", "p-x-1"), slot("p", "q-1")],
            [Some(7), None, None, None]
        );
    }
}
