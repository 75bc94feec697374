//! The size of a pool.

use anyhow::{Context as _, Result};
use openhands_tests::{
    needs,
    resource::{self, is_true, text},
    wait,
};
use serde_json::json;

use crate::stage::{COLLECTED, QUIET, SOON, Stage};

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
