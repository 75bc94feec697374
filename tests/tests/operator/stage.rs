//! An empty cluster with the chart's objects, a fake node, and a namespace, for one check at a time: each has an operator of its
//! own, and only one may lead.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Result;
use openhands_tests::{
    control_plane::ControlPlane,
    fake_node::FakeNode,
    kubectl::Kubectl,
    operator::{self, NAMESPACE, Operator},
    resource::{self, Namespace, is_true, text},
};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

static ONE: Mutex<()> = Mutex::const_new(());
static INSTALLED: OnceCell<()> = OnceCell::const_new();
/// A claim takes milliseconds; the bound is for a machine that compiles beside the checks.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// The garbage collector learns of new kinds every 30 seconds.
pub(crate) const COLLECTED: Duration = Duration::from_secs(90);
/// How long something must *not* happen to be believed.
pub(crate) const QUIET: Duration = Duration::from_secs(2);

fn settings() -> Vec<String> {
    // The shortest office the chart allows, so that a take-over is quick.
    vec!["leaderElection.leaseDurationSeconds=3".into()]
}

/// An empty cluster with the chart's objects, a fake node, and a namespace for one check.
pub(crate) struct Stage {
    plane: &'static ControlPlane,
    pub(crate) kubectl: Kubectl,
    pub(crate) namespace: Namespace,
    pub(crate) node: FakeNode,
    _one: MutexGuard<'static, ()>,
}

impl Stage {
    pub(crate) async fn set(name: &str) -> Result<Self> {
        let one = ONE.lock().await;
        let plane = ControlPlane::shared().await?;
        INSTALLED.get_or_try_init(|| async { operator::install(plane, &settings()).await }).await?;
        let kubectl = Kubectl::new(&plane.kubeconfig())?;
        // What earlier checks left would keep this one's operator busy; the old leader's Lease would make it wait.
        let force = ["--all", "-A", "--wait=false", "--ignore-not-found", "--force", "--grace-period=0"];
        for kinds in ["conversations,warmpools", "pods"] {
            kubectl.run(&[&["delete", kinds], force.as_slice()].concat(), "").await?;
        }
        kubectl.run(&["delete", "leases", "--all", "-n", NAMESPACE], "").await?;
        let client = plane.client().await?;
        let namespace = Namespace::create(client.clone(), name).await?;
        let node = FakeNode::start(client).await?;
        Ok(Self { plane, kubectl, namespace, node, _one: one })
    }

    pub(crate) async fn operator(&self, name: &str) -> Result<Operator> {
        Operator::start(self.plane, name, &settings()).await
    }

    /// A leading operator, the model's Secret, and a pool with so many ready members.
    pub(crate) async fn with_pool(&self, members: i64) -> Result<Operator> {
        let operator = self.operator("operator-a").await?;
        self.namespace.add(&resource::llm_secret(true)).await?;
        self.namespace.add(&resource::pool("pool", members)).await?;
        self.pool_is_full(members).await?;
        Ok(operator)
    }

    pub(crate) async fn pool_is_full(&self, members: i64) -> Result<Value> {
        let full = |pool: &Value| pool["status"]["ready"] == members && pool["status"]["replicas"] == members;
        self.namespace.reaches("WarmPool", "pool", &format!("{members} ready members"), SOON, full).await
    }

    pub(crate) async fn add(&self, object: Value) -> Result<()> {
        self.namespace.add(&object).await.map(|_| ())
    }

    /// Waits until a Conversation is so by one of its conditions.
    pub(crate) async fn is(&self, name: &str, kind: &str) -> Result<Value> {
        self.namespace.reaches("Conversation", name, kind, SOON, |found| is_true(found, kind)).await
    }

    pub(crate) async fn pods(&self, selector: &str) -> Result<Vec<Value>> {
        self.namespace.list("Pod", selector).await
    }

    /// The pods that name each Conversation, by its name.
    pub(crate) async fn pods_of(&self, name: &str) -> Result<Vec<Value>> {
        self.pods(&format!("openhands.dev/conversation={name}")).await
    }

    /// How often each conversation id was started on each pod, over all agents that still run.
    pub(crate) async fn starts(&self) -> BTreeMap<String, Vec<String>> {
        let mut starts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (pod, memory) in self.node.memories().await {
            for id in memory.starts.keys() {
                starts.entry(id.clone()).or_default().push(pod.clone());
            }
        }
        starts
    }

    /// What the operator asked of the API server so far: `verb resource`, and the answer's code.
    pub(crate) fn asked(&self) -> Result<Vec<(String, i64)>> {
        let user = format!("system:serviceaccount:{NAMESPACE}:openhands-operator");
        let mut asked = Vec::new();
        for line in self.plane.audit()?.iter().filter(|line| text(line, "/user/username") == user) {
            let resource = [text(line, "/objectRef/resource"), text(line, "/objectRef/subresource")].join("/");
            let code = line.pointer("/responseStatus/code").and_then(Value::as_i64).unwrap_or_default();
            asked.push((format!("{} {}", text(line, "/verb"), resource.trim_end_matches('/')), code));
        }
        Ok(asked)
    }

    /// Its writes so far, leases left out.
    pub(crate) fn writes(&self) -> Result<Vec<String>> {
        let reads = ["get ", "list ", "watch "];
        let asked = self.asked()?.into_iter().map(|(what, _)| what);
        Ok(asked
            .filter(|what| !what.ends_with(" leases") && !reads.iter().any(|read| what.starts_with(read)))
            .collect())
    }
}

impl Drop for Stage {
    /// The chart's roles must allow whatever the operator does.
    fn drop(&mut self) {
        let asked = self.asked().unwrap_or_default();
        let forbidden: BTreeSet<String> =
            asked.into_iter().filter(|(_, code)| *code == 403).map(|(what, _)| what).collect();
        assert!(
            forbidden.is_empty() || std::thread::panicking(),
            "the chart's roles forbid what the operator does: {forbidden:?}"
        );
    }
}

pub(crate) fn pod_uid(conversation: &Value) -> &str {
    text(conversation, "/status/sandbox/podUID")
}
