//! What the machine knows of the world.

use std::sync::Arc;

/// What the machine knows of a Conversation and of the pods that carry its uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The Conversation is being deleted: owner references do the rest.
    pub deleting: bool,
    /// It lost its sandbox for good.
    pub lost: bool,
    /// The pod that the status names.
    pub bound: Option<Binding>,
    /// The status says the agent was started.
    pub started: bool,
    /// There is an agent to start.
    pub wants_start: bool,
    /// Where a pod may come from.
    pub source: Source,
    /// Pods that carry this Conversation's uid, in a fixed order.
    pub pods: Vec<PodFact>,
}

/// The pod that a status names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Its uid.
    pub uid: Arc<str>,
    /// Which start of its container holds the keys.
    pub restarts: i32,
}

/// Where a pod may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A dormant member, else a new pod.
    WarmThenCold,
    /// A dormant member only.
    Warm,
    /// A new pod only.
    Cold,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFact {
    /// Its uid.
    pub uid: Arc<str>,
    /// Where it stands.
    pub state: PodState,
    /// How often its container was started again.
    pub restarts: i32,
}

/// Where a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It has no address yet.
    Starting,
    /// It has an address and may answer.
    Reachable,
    /// It is being deleted.
    Deleting,
    /// It is over and never runs again.
    Over,
}
