//! Whom secrets are told to, whose reports are believed, and what pods may do.

use anyhow::{Context as _, Result};
use openhands_tests::{
    needs,
    resource::{self, is_true, text},
    wait,
};
use serde_json::json;

use crate::stage::{QUIET, SOON, Stage, pod_uid};

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
