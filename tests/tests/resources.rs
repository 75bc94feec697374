//! The two resources on a real API server: what is accepted, what is refused and with which words, what is filled in, what may
//! change, how `kubectl` shows and scales them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use openhands_tests::{
    command::Answer,
    control_plane::ControlPlane,
    kubectl::Kubectl,
    needs,
    resource::{self, Namespace, text},
    tier, wait,
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

static APPLIED: OnceCell<()> = OnceCell::const_new();

fn definitions() -> Result<Vec<(String, String)>> {
    let folder = tier::repository().join("crds/yaml");
    let mut files = Vec::new();
    for entry in
        std::fs::read_dir(&folder).with_context(|| format!("{}: `cargo xtask generate` writes it", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push((path.display().to_string(), std::fs::read_to_string(&path)?));
        }
    }
    files.sort();
    Ok(files)
}

/// The control plane with our definitions, applied by `kubectl apply` on the client side as a user would, and a namespace.
async fn ready(namespace: &str) -> Result<(Kubectl, Namespace)> {
    let plane = ControlPlane::shared().await?;
    let kubectl = Kubectl::new(&plane.kubeconfig())?;
    APPLIED
        .get_or_try_init(|| async {
            for (_, yaml) in definitions()? {
                kubectl.run(&["apply", "-f", "-"], &yaml).await?;
            }
            let all = [
                "wait",
                "--for=condition=Established",
                "--timeout=60s",
                "crd/conversations.openhands.dev",
                "crd/warmpools.openhands.dev",
            ];
            kubectl.run(&all, "").await?;
            anyhow::Ok(())
        })
        .await?;
    let namespace = Namespace::create(plane.client().await?, namespace).await?;
    // Established is said before every API path serves the kind.
    wait::until("both kinds are served", Duration::from_secs(30), || async {
        namespace.list("Conversation", "").await?;
        namespace.list("WarmPool", "").await?;
        Ok(Some(()))
    })
    .await?;
    Ok((kubectl, namespace))
}

async fn dry_run(kubectl: &Kubectl, namespace: &str, object: &Value) -> Result<Answer> {
    kubectl.ask(&["create", "-n", namespace, "--dry-run=server", "-o", "json", "-f", "-"], &object.to_string()).await
}

/// `base` with `value` at a path of members of its `spec`, of which all but the last are there; `null` removes.
fn with(mut base: Value, pointer: &str, value: Value) -> Value {
    let (parent, last) = pointer.rsplit_once('/').map_or(("", pointer), |(parent, last)| (parent, last));
    let parent = if parent.is_empty() { "/spec".to_owned() } else { format!("/spec/{parent}") };
    if let Some(members) = base.pointer_mut(&parent).and_then(Value::as_object_mut) {
        if value.is_null() {
            members.remove(last);
        } else {
            members.insert(last.to_owned(), value);
        }
    }
    base
}

fn conversation(pointer: &str, value: Value) -> Value {
    with(resource::conversation("case", "pool"), pointer, value)
}

fn pool(pointer: &str, value: Value) -> Value {
    with(resource::pool("case", 1), pointer, value)
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_small_enough_for_a_client_side_apply() -> Result<()> {
    needs!(ControlPlane);
    let (kubectl, _) = ready("definitions").await?;
    let files = definitions()?;
    assert_eq!(files.len(), 2, "{files:?}");
    for (name, yaml) in files {
        // kubectl keeps a copy in an annotation, which may have 256 KiB.
        assert!(yaml.len() < 200 * 1024, "{name} has {} bytes", yaml.len());
        let again = kubectl.run(&["apply", "-f", "-"], &yaml).await?;
        assert!(again.contains("unchanged"), "a second apply changes something: {again}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_objects_are_accepted() -> Result<()> {
    needs!(ControlPlane);
    let (kubectl, namespace) = ready("valid").await?;
    let env = |names: usize| (0..names).map(|n| json!({"name": format!("V{n}"), "value": "x"})).collect::<Vec<_>>();
    let cases = [
        ("plain", resource::conversation("case", "pool")),
        ("without an agent", resource::sandbox("case", "pool")),
        ("own template", {
            let cold = conversation("sandbox/poolRef", Value::Null);
            with(cold, "sandbox/template", json!({"image": "debian:13", "serverImage": "localhost/server:dev"}))
        }),
        ("raw agent", conversation("agent", json!({"rawSecretRef": {"name": "agent", "key": "agent.json"}}))),
        ("message in a Secret", conversation("initialMessage", json!({"secretRef": {"name": "m", "key": "text"}}))),
        ("longest message", conversation("initialMessage/text", "x".repeat(32 * 1024).into())),
        ("most variables", conversation("env", env(64).into())),
        ("warm only", conversation("sandbox/policy", "WarmOnly".into())),
        ("more of the model", conversation("agent/llm/extra", json!({"seed": "7", "drop_params": "true"}))),
        ("risk", conversation("agent/confirmationPolicy", json!({"kind": "ConfirmRisky", "threshold": "MEDIUM"}))),
        ("id", conversation("conversationId", "0f8fad5b-d9cb-469f-a165-70867728950e".into())),
        ("pool", resource::pool("case", 3)),
        ("empty pool", resource::pool("case", 0)),
        ("capped pool", pool("maxPods", 5.into())),
        (
            "quantities",
            pool("template/resources", json!({"requests": {"cpu": "250m", "memory": "0.5Gi"}, "limits": {"cpu": "2"}})),
        ),
        ("platform's ids", pool("template/securityContext", json!({"useNamespaceRange": true}))),
    ];
    for (name, object) in cases {
        let answer = dry_run(&kubectl, &namespace.name, &object).await?;
        assert!(answer.success, "{name}: {}", answer.stderr);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_objects_are_refused_with_the_field_and_the_remedy() -> Result<()> {
    needs!(ControlPlane);
    let (kubectl, namespace) = ready("invalid").await?;
    let template = json!({"image": "debian:13"});
    let bad_name = |mut object: Value, length: usize| {
        object["metadata"]["name"] = "n".repeat(length).into();
        object
    };
    let cases = [
        (
            with(conversation("sandbox/poolRef", Value::Null), "sandbox", json!({})),
            "exactly one of sandbox.poolRef and sandbox.template",
        ),
        (conversation("sandbox/template", template.clone()), "exactly one of sandbox.poolRef and sandbox.template"),
        (conversation("sandbox", Value::Null), "spec.sandbox: Required value"),
        (
            conversation("sandbox", json!({"template": template, "policy": "WarmOnly"})),
            "sandbox.policy WarmOnly needs sandbox.poolRef",
        ),
        (conversation("sandbox/policy", "Lukewarm".into()), "spec.sandbox.policy: Unsupported value"),
        (conversation("sandbox/poolRef/name", "Upper".into()), "spec.sandbox.poolRef.name"),
        (conversation("agent", Value::Null), "spec.initialMessage needs spec.agent"),
        (conversation("agent/llm/model", Value::Null), "spec.agent.llm.model: Required value"),
        (conversation("agent/llm/baseUrl", "ftp://model".into()), "agent.llm.baseUrl must be an http or https URL"),
        (conversation("agent/llm/temperature", 3.into()), "spec.agent.llm.temperature"),
        (conversation("agent/llm/extra", json!({"api_key": "\"sk\""})), "agent.llm.extra must not hold secrets"),
        (
            conversation("agent/llm/extra", json!({"aws_secret_access_key": "x"})),
            "agent.llm.extra must not hold secrets",
        ),
        (conversation("agent/llm/extra", json!({"Bad-Name": "1"})), "agent.llm.extra: names are"),
        (
            conversation("agent/rawSecretRef", json!({"name": "a", "key": "b"})),
            "exactly one of agent.llm and agent.rawSecretRef",
        ),
        (
            conversation("agent/confirmationPolicy", json!({"kind": "AlwaysConfirm", "threshold": "LOW"})),
            "threshold needs kind ConfirmRisky",
        ),
        (conversation("initialMessage", json!({})), "exactly one of initialMessage.text and initialMessage.secretRef"),
        (conversation("initialMessage/text", "x".repeat(32 * 1024 + 1).into()), "spec.initialMessage.text"),
        (conversation("maxIterations", 0.into()), "spec.maxIterations"),
        (conversation("conversationId", "not-a-uuid".into()), "spec.conversationId"),
        (conversation("env", json!([{"name": "OH_SECRET_KEY", "value": "x"}])), "must not be PATH or begin with OH_"),
        (conversation("env", json!([{"name": "LD_PRELOAD", "value": "x"}])), "must not be PATH or begin with OH_"),
        (
            conversation("env", json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])),
            "spec.env[1]: Duplicate value",
        ),
        (
            conversation("secrets", json!([{"name": "bad name", "secretKeyRef": {"name": "s", "key": "k"}}])),
            "spec.secrets[0].name",
        ),
        (bad_name(resource::conversation("x", "pool"), 64), "metadata.name must have at most 63 characters"),
        (bad_name(resource::pool("x", 1), 51), "metadata.name must have at most 50 characters"),
        (pool("replicas", (-1).into()), "spec.replicas"),
        (pool("replicas", 1001.into()), "spec.replicas"),
        (with(pool("replicas", 4.into()), "maxPods", 3.into()), "spec.maxPods must not be smaller than spec.replicas"),
        (pool("template", Value::Null), "spec.template: Required value"),
        (
            pool("template/labels", json!({"openhands.dev/pool": "other"})),
            "template.labels must not begin with openhands.dev/",
        ),
        (pool("template/securityContext", json!({"runAsUser": 0})), "spec.template.securityContext.runAsUser"),
        (pool("template/resources", json!({"limits": {"memory": "plenty"}})), "spec.template.resources.limits.memory"),
        // A field nobody knows is a spelling mistake, and host access is a field nobody knows.
        (pool("template/hostNetwork", true.into()), "unknown field \"spec.template.hostNetwork\""),
        (conversation("initialMesage", json!({"text": "typo"})), "unknown field \"spec.initialMesage\""),
    ];
    let mut wrong = Vec::new();
    for (object, wanted) in cases {
        let answer = dry_run(&kubectl, &namespace.name, &object).await?;
        if answer.success {
            wrong.push(format!("accepted, but wanted {wanted:?}: {}", object["spec"]));
        } else if !answer.stderr.contains(wanted) {
            wrong.push(format!("wanted {wanted:?}, got {}", answer.stderr.trim()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_are_filled_in() -> Result<()> {
    needs!(ControlPlane);
    let (_, namespace) = ready("defaults").await?;
    let made = namespace.add(&resource::sandbox("plain", "pool")).await?;
    assert_eq!(made["spec"], json!({"sandbox": {"policy": "PreferWarm", "poolRef": {"name": "pool"}}}));
    let made = namespace.add(&pool("replicas", Value::Null)).await?;
    assert_eq!(made["spec"]["replicas"], 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_conversation_keeps_its_specification() -> Result<()> {
    needs!(ControlPlane);
    let (_, namespace) = ready("immutable").await?;
    namespace.add(&resource::conversation("conv", "pool")).await?;
    // Before a pod is bound the user may still correct things; an id never changes.
    namespace.merge("Conversation", "conv", &json!({"spec": {"initialMessage": {"text": "Corrected"}}})).await?;
    let id = json!({"spec": {"conversationId": "0f8fad5b-d9cb-469f-a165-70867728950e"}});
    let refused = namespace.merge("Conversation", "conv", &id).await.err().context("an id was added")?;
    assert!(refused.to_string().contains("spec.conversationId is immutable"), "{refused}");

    let bound = json!({"status": {"sandbox": {"podUID": "u", "pod": "p", "address": "127.0.0.1:8000", "warm": true, "restarts": 0}}});
    let patch = kube::api::Patch::Merge(&bound);
    namespace.api("Conversation").patch_status("conv", &kube::api::PatchParams::default(), &patch).await?;
    let cases = [
        (json!({"sandbox": {"poolRef": {"name": "other"}}}), "spec.sandbox is immutable"),
        (json!({"agent": {"llm": {"model": "openai/other"}}}), "spec.agent is immutable"),
        (json!({"agent": null, "initialMessage": null}), "is immutable"),
        (json!({"initialMessage": {"text": "Changed"}}), "spec.initialMessage is immutable"),
        (json!({"initialMessage": null}), "spec.initialMessage is immutable"),
        (json!({"maxIterations": 9}), "spec.maxIterations is immutable"),
        (json!({"env": [{"name": "A", "value": "b"}]}), "spec.env is immutable"),
        (json!({"secrets": [{"name": "A", "secretKeyRef": {"name": "s", "key": "k"}}]}), "spec.secrets is immutable"),
    ];
    for (spec, wanted) in cases {
        let answer = namespace.merge("Conversation", "conv", &json!({"spec": spec})).await;
        let refused = answer.err().with_context(|| format!("accepted: {spec}"))?;
        assert!(refused.to_string().contains(wanted), "{spec}: {refused}");
    }
    namespace.merge("Conversation", "conv", &json!({"metadata": {"labels": {"team": "blue"}}})).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_lists_explains_and_scales() -> Result<()> {
    needs!(ControlPlane);
    let (kubectl, namespace) = ready("kubectl").await?;
    namespace.add(&resource::pool("small", 2)).await?;
    namespace.add(&resource::conversation("conv", "small")).await?;
    let pools =
        json!({"status": {"replicas": 2, "desired": 2, "ready": 1, "dormant": 2, "updated": 2, "selector": "a=b"}});
    let merge = kube::api::Patch::Merge(&pools);
    namespace.api("WarmPool").patch_status("small", &kube::api::PatchParams::default(), &merge).await?;
    let status = json!({"status": {"phase": "Running", "executionStatus": "running", "usage": {"cost": "0.25"},
        "sandbox": {"podUID": "u", "pod": "small-0", "address": "127.0.0.1:8000", "pool": "small", "warm": true, "restarts": 0}}});
    let merge = kube::api::Patch::Merge(&status);
    namespace.api("Conversation").patch_status("conv", &kube::api::PatchParams::default(), &merge).await?;

    let listed = kubectl.run(&["get", "conv,wp", "-n", "kubectl"], "").await?;
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.iter().any(|row| row == &["NAME", "PHASE", "EXECUTION", "POOL", "COST", "AGE"]), "{listed}");
    let row = rows.iter().find(|row| row.first() == Some(&"conversation.openhands.dev/conv")).context("row of conv")?;
    assert_eq!(row.get(1..5), Some(["Running", "running", "small", "0.25"].as_slice()), "{listed}");
    assert!(rows.iter().any(|row| row == &["NAME", "DESIRED", "READY", "UPDATED", "AGE"]), "{listed}");
    let row = rows.iter().find(|row| row.first() == Some(&"warmpool.openhands.dev/small")).context("row of small")?;
    assert_eq!(row.get(1..4), Some(["2", "1", "2"].as_slice()), "{listed}");
    let wide = kubectl.run(&["get", "conv", "-n", "kubectl", "-o", "wide"], "").await?;
    assert!(wide.contains("POD") && wide.contains("small-0"), "{wide}");
    let explained = kubectl.run(&["explain", "conversation.spec.sandbox.poolRef"], "").await?;
    assert!(explained.contains("WarmPool of the same namespace"), "{explained}");

    kubectl.run(&["scale", "wp", "small", "-n", "kubectl", "--replicas=5"], "").await?;
    let pool = namespace.find("WarmPool", "small").await?.context("pool")?;
    assert_eq!(pool["spec"]["replicas"], 5);
    let scale = kubectl
        .run(&["get", "--raw", "/apis/openhands.dev/v1alpha1/namespaces/kubectl/warmpools/small/scale"], "")
        .await?;
    let scale: Value = serde_json::from_str(&scale)?;
    assert_eq!((text(&scale, "/status/selector"), &scale["status"]["replicas"]), ("a=b", &json!(2)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_are_accepted() -> Result<()> {
    needs!(ControlPlane);
    let (kubectl, namespace) = ready("examples").await?;
    let folder = tier::repository().join("deploy/examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let yaml = std::fs::read_to_string(&path)?;
        let answer = kubectl.ask(&["apply", "-n", &namespace.name, "--dry-run=server", "-f", "-"], &yaml).await?;
        assert!(answer.success, "{}: {}", path.display(), answer.stderr);
        seen += 1;
    }
    assert!(seen >= 4, "{seen} examples in {}", folder.display());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_is_accepted_in_every_variant() -> Result<()> {
    needs!(ControlPlane);
    let (kubectl, namespace) = ready("chart").await?;
    for name in ["openhands-system", "agents", "research", "team-a"] {
        Namespace::create(namespace.client.clone(), name).await?;
    }
    for variant in ["default", "namespaced", "full", "bare"] {
        let rendered = std::fs::read_to_string(tier::repository().join(format!("tests/golden/chart/{variant}.yaml")))?;
        // The one kind that only a cluster with the Prometheus operator knows.
        let known = rendered.split("\n---\n").filter(|object| !object.contains("kind: ServiceMonitor"));
        let answer =
            kubectl.ask(&["create", "--dry-run=server", "-f", "-"], &known.collect::<Vec<_>>().join("\n---\n")).await?;
        assert!(answer.success, "{variant}: {}", answer.stderr);
    }
    Ok(())
}
