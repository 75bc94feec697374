//! The machine walked through a small world: two operators with stale caches, lost answers, restarts, deaths and crashes.
//! After every effect the promises of the module are checked; at the end, when nothing fails any more, all must settle.

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Dormant,
    Open,
}

#[derive(Clone, Debug)]
struct Pod {
    claimed: bool,
    state: PodState,
    restarts: i32,
    server: Server,
    /// How often each start of the container proved itself.
    proofs: BTreeMap<i32, u32>,
}

#[derive(Clone, Debug)]
struct World {
    pods: BTreeMap<Arc<str>, Pod>,
    bound: Option<Binding>,
    started: bool,
    lost: bool,
    source: Source,
    made: u32,
    /// Pods the agent was started on.
    starts: Vec<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Nothing happens and nobody knows.
    Request,
    /// It happens and nobody knows.
    Answer,
}

struct Operator {
    cache: World,
    attempt: Option<Attempt>,
    tried: Tried,
    settled: bool,
}

impl World {
    fn new(members: u32, source: Source) -> Self {
        let mut world = Self {
            pods: BTreeMap::new(),
            bound: None,
            started: false,
            lost: false,
            source,
            made: 0,
            starts: Vec::new(),
        };
        (0..members).for_each(|_| world.make(false, PodState::Reachable));
        world
    }

    fn make(&mut self, claimed: bool, state: PodState) {
        let uid: Arc<str> = format!("pod-{}", self.made).into();
        self.made += 1;
        self.pods.insert(uid, Pod { claimed, state, restarts: 0, server: Server::Dormant, proofs: BTreeMap::new() });
    }

    fn facts(&self) -> Facts {
        let pods = self.pods.iter().filter(|(_, pod)| pod.claimed);
        Facts {
            deleting: false,
            lost: self.lost,
            bound: self.bound.clone(),
            started: self.started,
            wants_start: true,
            source: self.source,
            pods: pods
                .map(|(uid, pod)| PodFact { uid: Arc::clone(uid), state: pod.state, restarts: pod.restarts })
                .collect(),
        }
    }

    fn restart(&mut self, uid: &str) {
        if let Some(pod) = self.pods.get_mut(uid)
            && pod.state == PodState::Reachable
        {
            pod.restarts += 1;
            pod.server = Server::Dormant;
        }
    }

    /// Carries an intent out for an operator that believes in `cache`.
    fn perform(&mut self, intent: &Intent, cache: &Self) -> Answer {
        match intent {
            Intent::Pick => {
                let free = |pod: &Pod| !pod.claimed && pod.state == PodState::Reachable;
                let Some(uid) = cache.pods.iter().find(|(_, pod)| free(pod)).map(|(uid, _)| Arc::clone(uid)) else {
                    return Answer::Nothing;
                };
                match self.pods.get_mut(&uid) {
                    // The patch is guarded by the version that was read.
                    Some(pod) if free(pod) => {
                        pod.claimed = true;
                        Answer::Claimed(uid)
                    }
                    _ => Answer::Unclear,
                }
            }
            Intent::Create => {
                // The fixed name is the fence: a second creation finds the first pod.
                let own = self.pods.iter().find(|(_, pod)| pod.claimed && pod.state != PodState::Over);
                if let Some((uid, _)) = own {
                    return Answer::Claimed(Arc::clone(uid));
                }
                self.make(true, PodState::Starting);
                Answer::Claimed(format!("pod-{}", self.made - 1).into())
            }
            Intent::Prove(uid) => match self.reach(uid) {
                None => Answer::Unclear,
                Some(pod) => {
                    *pod.proofs.entry(pod.restarts).or_default() += 1;
                    if pod.server == Server::Dormant { Answer::Dormant } else { Answer::AlreadyOpen }
                }
            },
            Intent::Init(uid) => match self.reach(uid) {
                None => Answer::Unclear,
                // Another start of the container is another connection: the one of the proof broke.
                Some(pod) if !pod.proofs.contains_key(&pod.restarts) => Answer::Unclear,
                Some(pod) if pod.server == Server::Open => Answer::AlreadyOpen,
                Some(pod) => {
                    assert!(pod.claimed, "keys for a pod that nobody claimed");
                    pod.server = Server::Open;
                    Answer::Ours
                }
            },
            Intent::Probe(uid) => match self.reach(uid) {
                None => Answer::Unclear,
                Some(pod) if pod.server == Server::Open => Answer::Ours,
                Some(_) => Answer::Unclear,
            },
            Intent::Bind(uid) => {
                let restarts = cache.pods.get(uid).map_or(0, |pod| pod.restarts);
                match &self.bound {
                    Some(bound) if bound.uid != *uid => Answer::OtherBound,
                    _ => {
                        self.bound = Some(Binding { uid: Arc::clone(uid), restarts });
                        Answer::Done
                    }
                }
            }
            Intent::Start(uid) => {
                let open = self.reach(uid).is_some_and(|pod| pod.server == Server::Open);
                assert_eq!(self.bound.as_ref().map(|bound| &bound.uid), Some(uid), "a start without the permission");
                if !open {
                    return Answer::NotOpen;
                }
                if !self.starts.contains(uid) {
                    self.starts.push(Arc::clone(uid));
                }
                self.started = true;
                Answer::Done
            }
            Intent::Discard(uid) => {
                // Read from the source first: a pod that is bound after all is kept.
                if self.bound.as_ref().is_some_and(|bound| bound.uid == *uid) {
                    return Answer::Unclear;
                }
                self.pods.remove(uid);
                Answer::Done
            }
            Intent::Verify(uid) => {
                if self.pods.contains_key(uid) {
                    Answer::Present
                } else {
                    Answer::Absent
                }
            }
            Intent::Lose(_) => {
                self.lost = true;
                Answer::Done
            }
            Intent::Wait(_) | Intent::Rest(_) => Answer::Nothing,
        }
    }

    fn reach(&mut self, uid: &str) -> Option<&mut Pod> {
        self.pods.get_mut(uid).filter(|pod| pod.state == PodState::Reachable)
    }

    fn check(&self, before: &Self) {
        if let Some(bound) = &before.bound {
            assert_eq!(self.bound.as_ref().map(|now| &now.uid), Some(&bound.uid), "a bound pod was exchanged");
        }
        assert!(self.starts.len() <= 1, "the agent was started on two pods: {:?}", self.starts);
    }
}

impl Operator {
    fn new(world: &World) -> Self {
        Self { cache: world.clone(), attempt: None, tried: Tried::default(), settled: false }
    }

    fn refresh(&mut self, world: &World) {
        self.cache = world.clone();
        self.tried = Tried::default();
        self.settled = false;
    }

    fn step(&mut self, world: &mut World, fault: Fault) {
        let intent = decide(&self.cache.facts(), self.attempt.as_ref(), self.tried);
        let (Intent::Prove(uid) | Intent::Init(uid) | Intent::Probe(uid) | Intent::Start(uid)) = &intent else {
            return self.carry_out(world, &intent, fault, 0);
        };
        let restarts = self.cache.pods.get(uid).map_or(0, |pod| pod.restarts);
        self.carry_out(world, &intent, fault, restarts);
    }

    fn carry_out(&mut self, world: &mut World, intent: &Intent, fault: Fault, restarts: i32) {
        let before = world.clone();
        let answer = match fault {
            Fault::Request => Answer::Unclear,
            Fault::None => world.perform(intent, &self.cache),
            Fault::Answer => {
                world.perform(intent, &self.cache);
                Answer::Unclear
            }
        };
        world.check(&before);
        self.attempt = Attempt::learn(self.attempt.take(), intent, &answer, restarts);
        match (intent, &answer) {
            (Intent::Pick, Answer::Nothing) => self.tried.no_member = true,
            (Intent::Verify(_), Answer::Absent) => self.tried.bound_absent = true,
            (Intent::Wait(_) | Intent::Rest(_), _) => self.settled = true,
            // What was done or is not known is read before the next step.
            (
                Intent::Pick
                | Intent::Create
                | Intent::Bind(_)
                | Intent::Start(_)
                | Intent::Discard(_)
                | Intent::Lose(_),
                _,
            )
            | (_, Answer::Unclear | Answer::Present) => {
                let tried = self.tried;
                self.refresh(world);
                self.tried.no_member = tried.no_member && matches!(answer, Answer::Unclear);
            }
            _ => {}
        }
    }
}

fn walk(members: u32, source: Source, script: &[u8]) {
    let mut world = World::new(members, source);
    let mut operators = [Operator::new(&world), Operator::new(&world)];
    for byte in script {
        let which = usize::from(byte & 1);
        let uid: Arc<str> = format!("pod-{}", (byte >> 1) & 3).into();
        match byte >> 3 {
            0..=11 => operators[which].step(&mut world, Fault::None),
            12..=14 => operators[which].step(&mut world, Fault::Answer),
            15..=16 => operators[which].step(&mut world, Fault::Request),
            17..=19 => operators[which].refresh(&world),
            20 => operators[which] = Operator::new(&world),
            21..=22 => world.restart(&uid),
            23 => drop(world.pods.remove(&uid)),
            24 => {
                if let Some(pod) = world.pods.get_mut(&uid) {
                    pod.state = PodState::Deleting;
                }
            }
            25 => {
                if let Some(pod) = world.pods.get_mut(&uid) {
                    pod.state = PodState::Over;
                }
            }
            26..=29 => {
                for pod in world.pods.values_mut().filter(|pod| pod.state == PodState::Starting) {
                    pod.state = PodState::Reachable;
                }
            }
            _ => world.make(false, PodState::Reachable),
        }
    }
    settle(&mut world, &mut operators);
}

/// Nothing fails any more: pods start, departing ones go, both operators read and act until neither has anything to do.
fn settle(world: &mut World, operators: &mut [Operator; 2]) {
    for _ in 0..200 {
        for pod in world.pods.values_mut().filter(|pod| pod.state == PodState::Starting) {
            pod.state = PodState::Reachable;
        }
        world.pods.retain(|_, pod| pod.state != PodState::Deleting);
        if !world.pods.values().any(|pod| !pod.claimed && pod.state == PodState::Reachable) {
            world.make(false, PodState::Reachable);
        }
        for operator in operators.iter_mut() {
            operator.refresh(world);
            for _ in 0..20 {
                operator.step(world, Fault::None);
                if operator.settled {
                    break;
                }
            }
        }
    }
    let facts = world.facts();
    let bound = facts.bound.clone();
    assert!(bound.is_some(), "never bound: {world:?}");
    assert!(world.started || world.lost, "neither started nor lost: {world:?}");
    if !world.lost {
        assert_eq!(facts.pods.len(), 1, "pods were left behind: {world:?}");
        assert_eq!(world.starts, [bound.unwrap().uid], "started where it is bound");
        assert_eq!(
            world.pods.values().filter(|pod| pod.claimed).map(|pod| pod.server).collect::<Vec<_>>(),
            [Server::Open]
        );
    }
}

#[test]
fn the_happy_way_takes_five_steps() {
    let mut world = World::new(2, Source::Warm);
    let mut operator = Operator::new(&world);
    let mut intents = Vec::new();
    for _ in 0..6 {
        intents.push(decide(&operator.cache.facts(), operator.attempt.as_ref(), operator.tried));
        operator.step(&mut world, Fault::None);
    }
    let pod: Arc<str> = "pod-0".into();
    assert_eq!(
        intents,
        [
            Intent::Pick,
            Intent::Prove(Arc::clone(&pod)),
            Intent::Init(Arc::clone(&pod)),
            Intent::Bind(Arc::clone(&pod)),
            Intent::Start(pod),
            Intent::Rest(Rest::Following),
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_promises_hold_on_every_way(
        members in 0_u32..4,
        source in prop_oneof![Just(Source::Warm), Just(Source::WarmThenCold), Just(Source::Cold)],
        script in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        walk(members, source, &script);
    }
}
