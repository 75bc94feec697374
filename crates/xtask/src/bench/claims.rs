//! Warm claims on a development cluster of their own, by the claimbench yardstick: our operator from the chart, our real pods.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use super::yardstick;
use crate::cluster::target::Target;
use crate::cluster::{self, Provider, status};
use crate::command::Cmd;
use crate::image::rust::Profile;
use crate::image::{build, deliver};
use crate::{folders, go, say, wait};

const CLUSTER: &str = "bench";
const NAMESPACE: &str = "bench";
const USER: &str = "system:serviceaccount:bench:claimbench";

/// How the claims come.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Members of the pool
    #[arg(long, default_value_t = 40)]
    pool: u32,
    /// Claims of the sequential and the burst run
    #[arg(long, default_value_t = 40)]
    claims: u32,
    /// Repetitions of each run
    #[arg(long, default_value_t = 3)]
    repetitions: u32,
    /// How the binaries are built
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
    /// Leave the cluster running
    #[arg(long)]
    keep: bool,
}

/// Measures and prints the yardstick's tables.
///
/// # Errors
/// The yardstick is missing, the cluster does not start, or the pool does not fill.
pub(crate) fn run(options: &Options) -> Result<()> {
    let source = yardstick("claimbench")?;
    let bench = go::local("claimbench", &source)?;
    let _turn = folders::turn(CLUSTER)?;
    let target = cluster::ensure(CLUSTER, Provider::Own)?;
    let outcome = measure(options, &bench, &target);
    if !options.keep {
        cluster::down(CLUSTER)?;
    }
    outcome
}

fn measure(options: &Options, bench: &std::path::Path, target: &Target) -> Result<()> {
    let images = build::all(options.profile)?;
    deliver::to(target, &images)?;
    say::step("install the operator by Helm", || {
        let chart = folders::repository().join("charts").join("openhands-operator");
        let helm = target.helm()?.args(["upgrade", "--install", "openhands-operator"]).arg(chart);
        helm.args([
            "--namespace",
            "openhands-system",
            "--create-namespace",
            "--set",
            "image.tag=dev",
            "--set",
            "replicas=1",
            "--wait",
        ])
        .run()
    })?;
    for object in objects(options.pool) {
        target.kubectl()?.args(["apply", "-f", "-"]).input(object.to_string()).run()?;
    }
    say::step(&format!("fill the pool with {}", options.pool), || {
        wait::until(Duration::from_secs(600), "a full pool", || {
            let ready = target
                .kubectl()?
                .args(["-n", NAMESPACE, "get", "wp", "pool", "-o", "jsonpath={.status.ready}"])
                .run()?;
            Ok((ready.trim().parse().unwrap_or(0) >= options.pool).then_some(()))
        })
    })?;
    let out = folders::made(folders::cache()?.join("bench"))?;
    let template = out.join("claim.yaml");
    std::fs::write(&template, CLAIM)?;
    let pods = pods_of_operator(target)?;
    let variables = status::variables(target)?;
    let value = |name: &str| variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.clone());
    for mode in ["sequential", "burst"] {
        let report = out.join(format!("claims-{mode}.json"));
        let mut command = Cmd::new(bench)
            .args([
                "--label",
                &format!("openhands {mode}"),
                "--mode",
                mode,
                "--namespace",
                NAMESPACE,
                "--ready",
                "Ready",
                "--md-header",
            ])
            .args(["--gvr", "openhands.dev/v1alpha1/conversations", "--cold", "{.status.sandbox.warm}=false"])
            .args([
                "--unique",
                "{.status.sandbox.podUID}",
                "--pool",
                "pool",
                "--pool-gvr",
                "openhands.dev/v1alpha1/warmpools",
            ])
            .args([
                "--pool-path",
                "{.status.ready}",
                "--pool-want",
                &options.pool.to_string(),
                "--quiet-gvr",
                "v1/pods",
            ])
            .args(["--probe", "http://{{.Value}}/health", "--probe-value", "{.status.sandbox.address}"])
            .args(["--as", USER, "--as-group", "system:serviceaccounts,system:serviceaccounts:bench"])
            .args(["--n", &options.claims.to_string(), "--reps", &options.repetitions.to_string()])
            .arg("--template")
            .arg(&template)
            .arg("--out")
            .arg(&report);
        if let Some(file) = target.kubeconfig()? {
            command = command.arg("--kubeconfig").arg(file);
        }
        if let Some(url) = value("OPENHANDS_ETCD_METRICS") {
            command = command.args(["--etcd-metrics", &url]);
        }
        for (name, variable) in [("apiserver", "OPENHANDS_APISERVER_PID"), ("etcd", "OPENHANDS_ETCD_PID")] {
            if let Some(pid) = value(variable) {
                command = command.args(["--pid", &format!("{name}={pid}")]);
            }
        }
        say::line(format!("  ...   {mode} ({})", pods));
        command.limit(Duration::from_secs(1800)).shown().run()?;
    }
    say::result(format!("reports: {}", out.display()));
    Ok(())
}

/// A first look that the operator runs at all.
fn pods_of_operator(target: &Target) -> Result<String> {
    let selector = "app.kubernetes.io/name=openhands-operator";
    let pods = target.kubectl()?.args(["-n", "openhands-system", "get", "pods", "-l", selector, "-o", "name"]).run()?;
    if pods.trim().is_empty() {
        bail!("the operator has no pod in openhands-system");
    }
    Ok(pods.trim().replace('\n', " "))
}

const CLAIM: &str = r#"apiVersion: openhands.dev/v1alpha1
kind: Conversation
metadata: {name: "{{.Name}}", namespace: "{{.Namespace}}"}
spec:
  sandbox:
    poolRef: {name: pool}
"#;

/// The load generator is a tenant's service account: an administrator would be exempt from the API server's fairness.
fn objects(pool: u32) -> Vec<serde_json::Value> {
    let named = |name: &str| json!({"name": name, "namespace": NAMESPACE});
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named("claimbench")}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": named("claimbench"),
            "rules": [{"apiGroups": ["openhands.dev"], "resources": ["conversations"], "verbs": ["get", "list", "watch", "create", "delete"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": named("claimbench"),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "claimbench"},
            "subjects": [{"kind": "ServiceAccount", "name": "claimbench", "namespace": NAMESPACE}],
        }),
        json!({
            "apiVersion": "openhands.dev/v1alpha1", "kind": "WarmPool", "metadata": named("pool"),
            "spec": {
                "replicas": pool,
                "maxPods": pool * 3,
                "template": {
                    "image": crate::image::AGENT,
                    "resources": {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"memory": "128Mi"}},
                },
            },
        }),
    ]
}
