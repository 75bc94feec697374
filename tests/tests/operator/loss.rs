//! Lost pods, restarted containers, strays; operators that die, freeze and come back.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use openhands_tests::{
    needs,
    resource::{self, condition, is_true, text},
    wait,
};
use serde_json::json;

use crate::stage::{QUIET, SOON, Stage, pod_uid};

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
