//! The way of one Conversation: claimed warm or started cold, proven, started, followed to its last word; what is missing heals.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use openhands_tests::{
    needs,
    resource::{self, is_true, text},
};
use serde_json::{Value, json};

use crate::stage::{COLLECTED, QUIET, SOON, Stage, pod_uid};

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
    let key = resource::decoded(&secret, "session-api-key")?;
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
