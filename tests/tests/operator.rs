//! The operator's real binary on a real API server, with the rights and flags of the chart. Pods have no kubelet: a fake node
//! gives them addresses with fake agent-servers on them, which check keys and remember what they were told.
//!
//! One check at a time: each has an operator of its own, and only one may lead.

#![expect(clippy::indexing_slicing, reason = "a JSON value answers null for what it lacks, and a check may panic")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use openhands_tests::{
    control_plane::ControlPlane,
    fake_node::FakeNode,
    kubectl::Kubectl,
    needs,
    operator::{self, NAMESPACE, Operator},
    resource::{self, Namespace, condition, is_true, text},
    wait,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

static ONE: Mutex<()> = Mutex::const_new(());
static INSTALLED: OnceCell<()> = OnceCell::const_new();
/// A claim takes milliseconds; the bound is for a machine that compiles beside the checks.
const SOON: Duration = Duration::from_secs(30);
/// The garbage collector learns of new kinds every 30 seconds.
const COLLECTED: Duration = Duration::from_secs(90);
/// How long something must *not* happen to be believed.
const QUIET: Duration = Duration::from_secs(2);

fn settings() -> Vec<String> {
    // The shortest office the chart allows, so that a take-over is quick.
    vec!["leaderElection.leaseDurationSeconds=3".into()]
}

/// An empty cluster with the chart's objects, a fake node, and a namespace for one check.
struct Stage {
    plane: &'static ControlPlane,
    kubectl: Kubectl,
    namespace: Namespace,
    node: FakeNode,
    _one: MutexGuard<'static, ()>,
}

impl Stage {
    async fn set(name: &str) -> Result<Self> {
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

    async fn operator(&self, name: &str) -> Result<Operator> {
        Operator::start(self.plane, name, &settings()).await
    }

    /// A leading operator, the model's Secret, and a pool with so many ready members.
    async fn with_pool(&self, members: i64) -> Result<Operator> {
        let operator = self.operator("operator-a").await?;
        self.namespace.add(&resource::llm_secret(true)).await?;
        self.namespace.add(&resource::pool("pool", members)).await?;
        self.pool_is_full(members).await?;
        Ok(operator)
    }

    async fn pool_is_full(&self, members: i64) -> Result<Value> {
        let full = |pool: &Value| pool["status"]["ready"] == members && pool["status"]["replicas"] == members;
        self.namespace.reaches("WarmPool", "pool", &format!("{members} ready members"), SOON, full).await
    }

    async fn add(&self, object: Value) -> Result<()> {
        self.namespace.add(&object).await.map(|_| ())
    }

    /// Waits until a Conversation is so by one of its conditions.
    async fn is(&self, name: &str, kind: &str) -> Result<Value> {
        self.namespace.reaches("Conversation", name, kind, SOON, |found| is_true(found, kind)).await
    }

    async fn pods(&self, selector: &str) -> Result<Vec<Value>> {
        self.namespace.list("Pod", selector).await
    }

    /// The pods that name each Conversation, by its name.
    async fn pods_of(&self, name: &str) -> Result<Vec<Value>> {
        self.pods(&format!("openhands.dev/conversation={name}")).await
    }

    /// How often each conversation id was started on each pod, over all agents that still run.
    async fn starts(&self) -> BTreeMap<String, Vec<String>> {
        let mut starts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (pod, memory) in self.node.memories().await {
            for id in memory.starts.keys() {
                starts.entry(id.clone()).or_default().push(pod.clone());
            }
        }
        starts
    }

    /// What the operator asked of the API server so far: `verb resource`, and the answer's code.
    fn asked(&self) -> Result<Vec<(String, i64)>> {
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
    fn writes(&self) -> Result<Vec<String>> {
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

fn pod_uid(conversation: &Value) -> &str {
    text(conversation, "/status/sandbox/podUID")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_claim_runs_from_creation_to_the_last_word() -> Result<()> {
    needs!(ControlPlane);
    let stage = Stage::set("warm").await?;
    let operator = stage.with_pool(2).await?;
    let members: BTreeSet<String> =
        stage.pods("openhands.dev/pool=pool").await?.iter().map(|p| text(p, "/metadata/uid").into()).collect();
    let before = stage.writes()?.len();
    let counted_before = operator.counted_writes().await?;

    stage.add(resource::conversation("conv", "pool")).await?;
    let conversation = stage.is("conv", "Started").await?;
    let uid = text(&conversation, "/metadata/uid");
    assert!(is_true(&conversation, "Accepted") && is_true(&conversation, "Ready"), "{}", conversation["status"]);
    assert!(!is_true(&conversation, "Finished"), "{}", conversation["status"]);
    assert_eq!(conversation["status"]["conversationId"], uid);
    assert_eq!(conversation["status"]["sandbox"]["warm"], true);
    assert_eq!(conversation["status"]["sandbox"]["pool"], "pool");
    assert_eq!(conversation["status"]["observedGeneration"], conversation["metadata"]["generation"]);
    assert!(members.contains(pod_uid(&conversation)), "a member of the pool was there");

    // The pod belongs to the Conversation now, and to nothing else.
    let pod = stage.namespace.find("Pod", text(&conversation, "/status/sandbox/pod")).await?.context("the pod")?;
    let owners = pod["metadata"]["ownerReferences"].as_array().context("owners")?;
    assert_eq!(owners.len(), 1, "{owners:?}");
    assert_eq!((text(&owners[0], "/uid"), &owners[0]["controller"]), (uid, &json!(true)));
    assert_ne!(owners[0]["blockOwnerDeletion"], true);
    assert_eq!(text(&pod, "/metadata/annotations/cluster-autoscaler.kubernetes.io~1safe-to-evict"), "false");
    assert_ne!(pod["spec"]["automountServiceAccountToken"], true, "no token in a sandbox");
    let spec = pod["spec"].to_string();
    assert!(!spec.contains("key-of-the-model"), "a key in the pod's specification");

    // The agent was proven before it was told anything, was told once, and with the keys of the Secret.
    let memory = stage.node.memory(pod_uid(&conversation)).await?;
    assert!(memory.proofs >= 1, "{memory:?}");
    assert_eq!((memory.inits.len(), memory.refused), (1, 0), "{memory:?}");
    let secret = text(&conversation, "/status/sessionKeySecretRef/name");
    let secret = stage.namespace.find("Secret", secret).await?.context("session Secret")?;
    let key = openhands_tests::resource::decoded(&secret, "session-api-key")?;
    assert_eq!(memory.inits[0]["session_api_keys"], json!([key]));
    assert!(key.len() >= 32, "a session key of {} characters", key.len());
    let starts = memory.starts.get(uid).context("the conversation was started under the Conversation's uid")?;
    assert_eq!(starts.len(), 1);
    assert_eq!(text(&starts[0], "/initial_message/content/0/text"), "Say hello");
    assert_eq!(text(&starts[0], "/agent/llm/api_key"), "key-of-the-model");
    assert_eq!(text(&starts[0], "/agent/llm/model"), "openai/scripted");

    // Reports become status.
    assert_eq!(stage.node.report(pod_uid(&conversation), "running", None).await?, 204);
    stage
        .namespace
        .reaches("Conversation", "conv", "running", SOON, |c| c["status"]["executionStatus"] == "running")
        .await?;
    assert_eq!(stage.node.report(pod_uid(&conversation), "finished", Some("Hello.")).await?, 204);
    let conversation = stage.is("conv", "Finished").await?;
    assert_eq!(text(&conversation, "/status/executionStatus"), "finished");
    assert_eq!(text(&conversation, "/status/finalMessage"), "Hello.");
    assert_eq!(conversation["status"]["usage"], json!({"cost": "0.0125", "promptTokens": 110, "completionTokens": 20}));
    assert!(is_true(&conversation, "Ready"), "a finished conversation can still be talked to");

    // The pool is full again with another member, and nothing more is written once all is quiet.
    stage.pool_is_full(2).await?;
    let mut writes = stage.writes()?;
    let mut quiet = Instant::now();
    while quiet.elapsed() < QUIET {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = stage.writes()?;
        if now.len() != writes.len() {
            (writes, quiet) = (now, Instant::now());
        }
    }
    let own = writes.get(before..).unwrap_or_default();
    let ready = own.iter().position(|what| what == "patch conversations/status").context("no status was written")?;
    let until_ready = own[..=ready].iter().filter(|what| *what != "create pods").count();
    assert!(until_ready <= 3, "{until_ready} writes until Ready: {own:?}");
    // The report of the running agent above is this check's own; Events are for people and may be dropped.
    let in_all = own.iter().filter(|what| *what != "create events").count() - 1;
    assert!(in_all <= 7, "{in_all} writes for one conversation in all: {own:?}");
    assert_eq!(
        operator.counted_writes().await? - counted_before,
        own.len() as f64,
        "the operator's own count, against {own:?}"
    );

    // Deleting takes pod and Secret along.
    stage.kubectl.run(&["delete", "conv", "conv", "-n", "warm", "--timeout=30s"], "").await?;
    stage.namespace.vanishes("Pod", text(&pod, "/metadata/name"), COLLECTED).await?;
    stage.namespace.vanishes("Secret", text(&secret, "/metadata/name"), COLLECTED).await?;
    stage.pool_is_full(2).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named_and_heals() -> Result<()> {
    needs!(ControlPlane);
    let stage = Stage::set("heals").await?;
    let _operator = stage.operator("operator-a").await?;
    stage.add(resource::conversation("conv", "pool")).await?;
    let refused = |word: &'static str| {
        move |c: &Value| {
            let accepted = c["status"]["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Accepted");
            accepted.is_some_and(|a| {
                a["status"] == "False" && text(a, "/message").contains(word) && !text(a, "/reason").is_empty()
            })
        }
    };
    stage
        .namespace
        .reaches("Conversation", "conv", "Accepted=False, names the Secret", SOON, refused("\"llm\""))
        .await?;
    stage.add(resource::llm_secret(false)).await?;
    // Secrets without the label are none of the operator's business, so nothing tells it of one. Who is new looks.
    stage.add(resource::conversation("late", "pool")).await?;
    let unlabelled = refused("openhands.dev/conversation-secret");
    stage.namespace.reaches("Conversation", "late", "Accepted=False, names the label", SOON, unlabelled).await?;
    let labels = json!({"metadata": {"labels": {resource::SECRET_LABEL: "true"}}, "data": {"api-key": null}, "stringData": {"other": "x"}});
    stage.namespace.merge("Secret", "llm", &labels).await?;
    stage.namespace.reaches("Conversation", "conv", "Accepted=False, names the key", SOON, refused("api-key")).await?;
    stage.namespace.merge("Secret", "llm", &json!({"stringData": {"api-key": "k"}})).await?;
    let no_pool = |c: &Value| {
        let conditions = c["status"]["conditions"].to_string();
        !is_true(c, "Ready") && conditions.contains("pool")
    };
    stage.namespace.reaches("Conversation", "conv", "not ready, names the pool", SOON, no_pool).await?;
    assert_eq!(stage.pods_of("conv").await?.len(), 0, "no pod for a Conversation without a pool");
    stage.add(resource::pool("pool", 1)).await?;
    for name in ["conv", "late"] {
        let conversation = stage.is(name, "Started").await?;
        assert!(is_true(&conversation, "Accepted"), "{}", conversation["status"]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_go_only_to_who_proves_to_be_the_pod() -> Result<()> {
    needs!(ControlPlane);
    let stage = Stage::set("proof").await?;
    let _operator = stage.with_pool(1).await?;
    let liar = stage.pods("openhands.dev/pool=pool").await?.pop().context("the only member")?;
    let (name, uid) = (text(&liar, "/metadata/name"), text(&liar, "/metadata/uid").to_owned());
    stage
        .node
        .with(&uid, async |agent| {
            agent.lie();
            Ok(())
        })
        .await?;
    stage.add(resource::conversation("conv", "pool")).await?;
    let told = wait::until("the liar is gone or the Conversation is bound elsewhere", SOON, || async {
        let told = stage.node.memory(&uid).await.ok().filter(|memory| !memory.inits.is_empty() || memory.refused > 0);
        if let Some(memory) = told {
            return Ok(Some(Err(anyhow::anyhow!("the liar was told secrets: {memory:?}"))));
        }
        let pod = stage.namespace.find("Pod", name).await?;
        Ok(pod.is_none_or(|pod| text(&pod, "/metadata/uid") != uid).then_some(Ok(())))
    });
    told.await??;
    let conversation = stage.is("conv", "Started").await?;
    assert_ne!(pod_uid(&conversation), uid);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_lost_before_the_start_is_replaced_and_after_it_is_not() -> Result<()> {
    needs!(ControlPlane);
    let stage = Stage::set("lost").await?;
    let _operator = stage.with_pool(2).await?;
    // No agent lets itself be initialised, so the claim stays on its way.
    for pod in stage.pods("openhands.dev/pool=pool").await? {
        stage
            .node
            .with(text(&pod, "/metadata/uid"), async |agent| {
                agent.close(true);
                Ok(())
            })
            .await?;
    }
    stage.add(resource::conversation("conv", "pool")).await?;
    let claimed = wait::until("a pod is claimed", SOON, || async { Ok(stage.pods_of("conv").await?.pop()) }).await?;
    stage.node.lose("lost", text(&claimed, "/metadata/name")).await?;
    // The other first member is closed as well; the refill is open.
    let conversation = wait::until("the Conversation starts on another pod", SOON * 2, || async {
        for (uid, memory) in stage.node.memories().await {
            if memory.inits.is_empty() {
                stage
                    .node
                    .with(&uid, async |agent| {
                        agent.close(false);
                        Ok(())
                    })
                    .await
                    .ok();
            }
        }
        let found = stage.namespace.find("Conversation", "conv").await?.context("conv")?;
        Ok(is_true(&found, "Started").then_some(found))
    })
    .await?;
    assert_ne!(pod_uid(&conversation), text(&claimed, "/metadata/uid"));

    // Now the message was delivered: a new pod would run it a second time.
    stage.node.lose("lost", text(&conversation, "/status/sandbox/pod")).await?;
    let conversation = stage.is("conv", "Failed").await?;
    assert_eq!(condition(&conversation, "Failed"), "True/SandboxLost");
    assert!(is_true(&conversation, "Finished") && !is_true(&conversation, "Ready"), "{}", conversation["status"]);
    let uid = text(&conversation, "/metadata/uid").to_owned();
    wait::stays("the message is not delivered again", QUIET, &0, || async {
        Ok(stage.starts().await.get(&uid).map_or(0, Vec::len))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_container_is_initialised_again_on_the_same_pod() -> Result<()> {
    needs!(ControlPlane);
    let stage = Stage::set("restart").await?;
    let _operator = stage.with_pool(1).await?;
    stage.add(resource::conversation("conv", "pool")).await?;
    let conversation = stage.is("conv", "Started").await?;
    let (pod, uid) = (text(&conversation, "/status/sandbox/pod"), pod_uid(&conversation).to_owned());
    stage.node.restart_container("restart", pod, true).await?;
    let memory = wait::until("a second init", SOON, || async {
        let memory = stage.node.memory(&uid).await?;
        Ok((memory.inits.len() == 2 && memory.starts.values().all(|starts| starts.len() >= 2)).then_some(memory))
    })
    .await?;
    for member in ["session_api_keys", "secret_key"] {
        assert_eq!(memory.inits[0][member], memory.inits[1][member], "{member} changes over a restart");
    }
    assert_eq!(
        memory.starts.len(),
        1,
        "one id: the server takes the second start for the first: {:?}",
        memory.starts.keys()
    );
    let again = stage.is("conv", "Ready").await?;
    assert_eq!(pod_uid(&again), uid);
    assert_eq!(stage.node.report(&uid, "finished", None).await?, 204, "the new report target works");
    stage.is("conv", "Finished").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn strays_are_swept() -> Result<()> {
    needs!(ControlPlane);
    let stage = Stage::set("strays").await?;
    let _operator = stage.with_pool(1).await?;
    stage.add(resource::conversation("conv", "pool")).await?;
    let conversation = stage.is("conv", "Started").await?;
    let stray = |name: &str, uid: &str| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {
                "app.kubernetes.io/managed-by": "openhands-operator", "openhands.dev/state": "claimed",
                "openhands.dev/conversation": "conv", "openhands.dev/conversation-uid": uid}},
            "spec": {"containers": [{"name": "agent-server", "image": "x", "env": [{"name": "OH_INIT_KEY_SHA256", "value": "00"}]}]}})
    };
    stage.add(stray("second-of-conv", text(&conversation, "/metadata/uid"))).await?;
    stage.namespace.vanishes("Pod", "second-of-conv", SOON).await?;
    let foreign = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign"},
        "spec": {"containers": [{"name": "c", "image": "x"}]}});
    stage.add(foreign).await?;
    wait::stays("the bound pod and foreign pods stay", QUIET, &true, || async {
        let bound = stage.namespace.find("Pod", text(&conversation, "/status/sandbox/pod")).await?;
        let foreign = stage.namespace.find("Pod", "foreign").await?;
        Ok(bound.is_some_and(|pod| text(&pod, "/metadata/uid") == pod_uid(&conversation)) && foreign.is_some())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_follows_its_size_and_never_exceeds_its_cap() -> Result<()> {
    needs!(ControlPlane);
    let stage = Stage::set("pools").await?;
    let _operator = stage.with_pool(1).await?;
    stage.kubectl.run(&["scale", "wp", "pool", "-n", "pools", "--replicas=4"], "").await?;
    let pool = stage.pool_is_full(4).await?;
    assert!(is_true(&pool, "Ready"), "{}", pool["status"]);
    let selected = stage.pods(text(&pool, "/status/selector")).await?;
    assert_eq!(selected.len(), 4, "the scale selector selects the unclaimed members");
    stage.kubectl.run(&["scale", "wp", "pool", "-n", "pools", "--replicas=2"], "").await?;
    stage.pool_is_full(2).await?;

    // Two unclaimed wanted, three pods at most: with two claimed only one more fits.
    stage.namespace.merge("WarmPool", "pool", &json!({"spec": {"maxPods": 3}})).await?;
    for name in ["one", "two"] {
        stage.add(resource::sandbox(name, "pool")).await?;
        stage.is(name, "Ready").await?;
    }
    stage
        .namespace
        .reaches("WarmPool", "pool", "one member beside two claimed ones", SOON, |pool| pool["status"]["ready"] == 1)
        .await?;
    let mut warm_only = resource::sandbox("three", "pool");
    warm_only["spec"]["sandbox"]["policy"] = "WarmOnly".into();
    stage.add(warm_only).await?;
    stage.is("three", "Ready").await?;
    let mut waiting = resource::sandbox("four", "pool");
    waiting["spec"]["sandbox"]["policy"] = "WarmOnly".into();
    stage.add(waiting).await?;
    wait::stays("three pods, and the fourth Conversation waits", QUIET, &(3, false), || async {
        let pods = stage.pods("openhands.dev/pool=pool").await?;
        let four = stage.namespace.find("Conversation", "four").await?.context("four")?;
        Ok((pods.len(), is_true(&four, "Ready")))
    })
    .await?;
    // A pod that is given back is never claimed again, but makes room for a new member.
    stage.kubectl.run(&["delete", "conv", "one", "-n", "pools", "--timeout=30s"], "").await?;
    stage.namespace.reaches("Conversation", "four", "Ready", COLLECTED, |found| is_true(found, "Ready")).await?;

    // Deleting the pool leaves claimed pods alone.
    stage.kubectl.run(&["delete", "wp", "pool", "-n", "pools", "--timeout=30s"], "").await?;
    wait::until("no unclaimed member is left", COLLECTED, || async {
        Ok(stage.pods("openhands.dev/state=idle").await?.is_empty().then_some(()))
    })
    .await?;
    for name in ["two", "three", "four"] {
        let conversation = stage.namespace.find("Conversation", name).await?.context(name)?;
        assert!(is_true(&conversation, "Ready"), "{name}: {}", conversation["status"]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cold_starts_when_asked_and_when_the_pool_is_empty() -> Result<()> {
    needs!(ControlPlane);
    let stage = Stage::set("cold").await?;
    let _operator = stage.with_pool(1).await?;
    let mut cold = resource::conversation("cold", "pool");
    cold["spec"]["sandbox"]["policy"] = "ColdOnly".into();
    stage.add(cold).await?;
    let conversation = stage.is("cold", "Started").await?;
    assert_eq!(conversation["status"]["sandbox"]["warm"], false);
    stage.pool_is_full(1).await?;

    stage.kubectl.run(&["scale", "wp", "pool", "-n", "cold", "--replicas=0"], "").await?;
    stage.pool_is_full(0).await?;
    stage.add(resource::conversation("spill", "pool")).await?;
    let conversation = stage.is("spill", "Started").await?;
    assert_eq!(conversation["status"]["sandbox"]["warm"], false);

    let own = json!({"apiVersion": resource::API_VERSION, "kind": "Conversation", "metadata": {"name": "own"},
        "spec": {"sandbox": {"template": {"image": "example/own:1", "labels": {"team": "blue"}}}}});
    stage.add(own).await?;
    let conversation = stage.is("own", "Ready").await?;
    let pod = stage.namespace.find("Pod", text(&conversation, "/status/sandbox/pod")).await?.context("pod")?;
    assert_eq!(
        (text(&pod, "/spec/containers/0/image"), text(&pod, "/metadata/labels/team")),
        ("example/own:1", "blue")
    );
    let memory = stage.node.memory(pod_uid(&conversation)).await?;
    assert_eq!((memory.inits.len(), memory.starts.len()), (1, 0), "a sandbox has keys and no conversation");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_satisfy_the_restricted_standard() -> Result<()> {
    needs!(ControlPlane);
    let stage = Stage::set("restricted").await?;
    let enforce = ["label", "ns", "restricted", "pod-security.kubernetes.io/enforce=restricted"];
    stage.kubectl.run(&enforce, "").await?;
    let _operator = stage.with_pool(1).await?;
    stage.add(resource::conversation("conv", "pool")).await?;
    stage.is("conv", "Started").await?;
    let injected = json!({"apiVersion": resource::API_VERSION, "kind": "Conversation", "metadata": {"name": "injected"},
        "spec": {"sandbox": {"template": {"image": "debian:13", "serverImage": "example/server:1"}}}});
    stage.add(injected).await?;
    let conversation = stage.is("injected", "Ready").await?;
    let pod = stage.namespace.find("Pod", text(&conversation, "/status/sandbox/pod")).await?.context("pod")?;
    let context = &pod["spec"]["containers"][0]["securityContext"];
    assert_eq!(context["capabilities"]["drop"], json!(["ALL"]), "{context}");
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_believed_only_from_the_bound_pod() -> Result<()> {
    needs!(ControlPlane);
    let stage = Stage::set("reports").await?;
    let _operator = stage.with_pool(2).await?;
    for name in ["mine", "other"] {
        stage.add(resource::conversation(name, "pool")).await?;
    }
    let (mine, other) = (stage.is("mine", "Started").await?, stage.is("other", "Started").await?);
    let make = |uid: String, status: &'static str| {
        let node = &stage.node;
        async move { node.with(&uid, async |agent| agent.next_report(status, None)).await }
    };
    let (target, body) = make(pod_uid(&mine).to_owned(), "finished").await?;
    let (other_target, _) = make(pod_uid(&other).to_owned(), "running").await?;
    let refused = |status: u16| (400..500).contains(&status);
    assert!(refused(stage.node.post_report(&target, "guess", &body).await?), "a guessed token");
    assert!(refused(stage.node.post_report(&target, "", &body).await?), "no token");
    assert!(refused(stage.node.post_report(&target, text(&other_target, "/token"), &body).await?), "another's token");
    let mut forged = body.clone();
    forged["podUid"] = pod_uid(&other).into();
    assert!(refused(stage.node.post_report(&target, text(&target, "/token"), &forged).await?), "another pod's name");
    forged = body.clone();
    forged["conversationId"] = other["metadata"]["uid"].clone();
    assert!(
        refused(stage.node.post_report(&target, text(&target, "/token"), &forged).await?),
        "another's conversation"
    );
    assert!(
        refused(stage.node.post_report(&target, text(&target, "/token"), &json!({"podUid": 1})).await?),
        "nonsense"
    );
    wait::stays("nothing was believed", QUIET, &false, || async {
        let found = stage.namespace.find("Conversation", "mine").await?.context("mine")?;
        Ok(is_true(&found, "Finished"))
    })
    .await?;
    assert_eq!(stage.node.post_report(&target, text(&target, "/token"), &body).await?, 204);
    stage.is("mine", "Finished").await?;
    // An older report that was late changes nothing, however it is answered.
    let mut late = body.clone();
    late["seq"] = 0.into();
    late["executionStatus"] = "running".into();
    stage.node.post_report(&target, text(&target, "/token"), &late).await?;
    wait::stays("a late report is not believed", QUIET, &"finished".to_owned(), || async {
        let found = stage.namespace.find("Conversation", "mine").await?.context("mine")?;
        Ok(text(&found, "/status/executionStatus").to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_killed_at_any_time_never_claims_twice() -> Result<()> {
    needs!(ControlPlane);
    let stage = Stage::set("killed").await?;
    let mut operator = stage.with_pool(3).await?;
    let mut names = Vec::new();
    // Rounds die at other places of the claim; the first nearly at once, the last after it.
    for (round, after) in [5, 15, 30, 60, 120].into_iter().enumerate() {
        for twin in ["a", "b"] {
            let name = format!("conv-{round}{twin}");
            stage.add(resource::conversation(&name, "pool")).await?;
            names.push(name);
        }
        tokio::time::sleep(Duration::from_millis(after)).await;
        operator.kill();
        operator = stage.operator("operator-a").await?;
    }
    let mut pods = BTreeMap::new();
    for name in &names {
        let found =
            stage.namespace.reaches("Conversation", name, "Started", SOON * 2, |c| is_true(c, "Started")).await?;
        let before = pods.insert(pod_uid(&found).to_owned(), name.clone());
        assert_eq!(before, None, "{name} shares a pod");
    }
    stage.pool_is_full(3).await?;
    // Every conversation was started on exactly the pod its status names.
    let starts = stage.starts().await;
    assert_eq!(starts.len(), names.len(), "{starts:?}");
    for name in &names {
        let found = stage.namespace.find("Conversation", name).await?.context("conversation")?;
        let uid = text(&found, "/metadata/uid");
        assert_eq!(starts.get(uid), Some(&vec![pod_uid(&found).to_owned()]), "{name}");
        let owned = stage.pods(&format!("openhands.dev/conversation-uid={uid}")).await?;
        assert_eq!(owned.len(), 1, "{name} owns {owned:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_operator_takes_over_from_a_frozen_one() -> Result<()> {
    needs!(ControlPlane);
    let stage = Stage::set("takeover").await?;
    let first = stage.with_pool(1).await?;
    let second = stage.operator("operator-b").await?;
    second.ready().await?;
    assert!(first.leads().await?, "the first leads");
    wait::stays("the second waits", QUIET, &false, || second.leads()).await?;
    stage.add(resource::conversation("before", "pool")).await?;
    let before = stage.is("before", "Started").await?;

    first.freeze()?;
    wait::until("the second leads", Duration::from_secs(20), || async { Ok(second.leads().await?.then_some(())) })
        .await?;
    stage.add(resource::conversation("after", "pool")).await?;
    let after = stage.is("after", "Started").await?;
    assert_ne!(pod_uid(&before), pod_uid(&after));
    wait::until("reports reach the new leader", SOON, || async {
        Ok((stage.node.report(pod_uid(&before), "finished", None).await? == 204).then_some(()))
    })
    .await?;
    stage.is("before", "Finished").await?;

    first.thaw()?;
    wait::until("the first knows that it leads no more, or has left", Duration::from_secs(15), || async {
        Ok((!first.process.runs() || !first.leads().await?).then_some(()))
    })
    .await?;
    stage.add(resource::conversation("last", "pool")).await?;
    let last = stage.is("last", "Started").await?;
    let starts = stage.starts().await;
    assert_eq!(starts.get(text(&last, "/metadata/uid")).map(Vec::len), Some(1), "{starts:?}");
    assert!(second.leads().await?, "the second still leads");
    Ok(())
}
