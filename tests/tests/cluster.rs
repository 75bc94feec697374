//! A whole cluster with nodes and our images: the chart installed by Helm, a conversation from `kubectl apply` to a file that the
//! agent made, cold and warm, and what happens when parts of it are killed.
//!
//! Needs `KUBECONFIG`, and the images that `cargo xtask images` builds. A model pod answers from a script; its program is
//! `tests/fixtures/scripted_llm.py`, run by the Python of the agent image. One test, because each part stands on the last.

#![expect(clippy::indexing_slicing, reason = "a JSON value answers null for what it lacks, and a check may panic")]

use std::{env, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use openhands_tests::{
    command, control_plane, helm, http,
    kubectl::Kubectl,
    needs,
    process::Process,
    resource::{self, Namespace, condition, is_true, text},
    tier, wait,
};
use serde_json::{Value, json};

const SYSTEM: &str = "openhands-system";
const AGENTS: &str = "agents-test";
const AGENT_IMAGE: &str = "localhost/openhands-agent-server:dev";
const STATIC_IMAGE: &str = "localhost/openhands-agent-server-static:dev";
const BOUND: Duration = Duration::from_secs(120);

struct Cluster {
    kubectl: Kubectl,
    kubeconfig: PathBuf,
    agents: Namespace,
    folder: tempfile::TempDir,
}

impl Cluster {
    async fn open() -> Result<Self> {
        let kubeconfig = env::var_os("KUBECONFIG")
            .map(PathBuf::from)
            .context("KUBECONFIG is not set: `cargo xtask cluster up` makes a cluster")?;
        let kubectl = Kubectl::new(&kubeconfig)?;
        // What an interrupted run left.
        let gone = ["delete", "ns", AGENTS, SYSTEM, "--ignore-not-found", "--timeout=100s"];
        kubectl.run(&gone, "").await?;
        let agents = Namespace::create(control_plane::client(&kubeconfig).await?, AGENTS).await?;
        kubectl
            .run(&["label", "ns", AGENTS, "pod-security.kubernetes.io/enforce=restricted", "--overwrite"], "")
            .await?;
        Ok(Self { kubectl, kubeconfig, agents, folder: tempfile::tempdir()? })
    }

    async fn helm(&self, arguments: &[&str]) -> Result<String> {
        helm::run(self.folder.path(), Some(&self.kubeconfig), arguments, "").await
    }

    async fn install(&self) -> Result<()> {
        let chart = helm::chart().display().to_string();
        let all = [
            "upgrade",
            "--install",
            "openhands-operator",
            &chart,
            "--namespace",
            SYSTEM,
            "--create-namespace",
            "--wait",
            "--timeout=120s",
            "--set",
            "image.tag=dev",
            "--set",
            "leaderElection.leaseDurationSeconds=5",
            "--set",
            &format!("sandbox.networkPolicy.namespaces={{{AGENTS}}}"),
        ];
        self.helm(&all).await.map(|_| ())
    }

    /// The model as a pod with a Service, and the Secret of its key.
    async fn model(&self) -> Result<()> {
        let program = std::fs::read_to_string(tier::repository().join("tests/fixtures/scripted_llm.py"))?;
        let labels = json!({"app": "model"});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "model", "labels": labels},
            "spec": {
                "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
                "securityContext": {"runAsNonRoot": true, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "model", "image": AGENT_IMAGE, "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "/model/scripted_llm.py", "--host", "0.0.0.0", "--port", "9000"],
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    "readinessProbe": {"httpGet": {"path": "/health", "port": 9000}, "periodSeconds": 1},
                    "volumeMounts": [{"name": "program", "mountPath": "/model"}],
                }],
                "volumes": [{"name": "program", "configMap": {"name": "model"}}],
            },
        });
        let objects = [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "model"}, "data": {"scripted_llm.py": program}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "model"},
                "spec": {"selector": labels, "ports": [{"port": 9000}]}}),
            // Sandboxes reach nothing inside the cluster by themselves; policies add up.
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "to-the-model"}, "spec": {
                "podSelector": {"matchExpressions": [{"key": "openhands.dev/conversation", "operator": "Exists"}]},
                "policyTypes": ["Egress"],
                "egress": [{"to": [{"podSelector": {"matchLabels": labels}}], "ports": [{"port": 9000}]}]}}),
            resource::llm_secret(true),
            pod,
        ];
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.kubectl.run(&["apply", "-n", AGENTS, "-f", "-"], &list.to_string()).await?;
        self.kubectl.run(&["wait", "-n", AGENTS, "pod/model", "--for=condition=Ready", "--timeout=90s"], "").await?;
        Ok(())
    }

    /// The address under which pods reach the model: the pod's own, so that the test does not stand on cluster DNS.
    async fn model_address(&self) -> Result<String> {
        let pod = self.agents.find("Pod", "model").await?.context("model")?;
        Ok(format!("http://{}:9000", text(&pod, "/status/podIP")))
    }

    /// Gives the model a script, from inside its pod.
    async fn script(&self, name: &str, turns: &Value) -> Result<()> {
        let put = format!(
            "import urllib.request as u,sys; u.urlopen(u.Request('http://127.0.0.1:9000/scripts/{name}',sys.stdin.buffer.read(),method='PUT'))"
        );
        self.kubectl
            .run(&["exec", "-i", "-n", AGENTS, "model", "--", "python3", "-c", &put], &turns.to_string())
            .await?;
        Ok(())
    }

    /// A Conversation whose model plays a script of the same name.
    async fn converse(&self, name: &str, policy: &str, turns: &Value) -> Result<()> {
        self.script(name, turns).await?;
        let mut conversation = resource::conversation(name, "pool");
        conversation["spec"]["sandbox"]["policy"] = policy.into();
        conversation["spec"]["agent"]["llm"]["baseUrl"] = format!("{}/{name}/v1", self.model_address().await?).into();
        self.agents.add(&conversation).await?;
        Ok(())
    }

    async fn is(&self, name: &str, kind: &str) -> Result<Value> {
        let reached = self.agents.reaches("Conversation", name, kind, BOUND, |found| is_true(found, kind)).await;
        match reached {
            Ok(found) => Ok(found),
            Err(error) => bail!("{error:#}\n{}", self.story().await),
        }
    }

    /// What helps to understand a failure.
    async fn story(&self) -> String {
        let mut told = String::new();
        for question in [
            vec!["get", "conv,wp,pods", "-A", "-o", "wide"],
            vec!["get", "events", "-A", "--sort-by=.lastTimestamp"],
            vec!["logs", "-n", SYSTEM, "-l", "app.kubernetes.io/name=openhands-operator", "--tail=60", "--prefix"],
            vec!["logs", "-n", AGENTS, "-l", "openhands.dev/pool=pool", "--tail=30", "--prefix"],
        ] {
            let answer = self.kubectl.ask(&question, "").await;
            told.push_str(&format!(
                "--- kubectl {}\n{}\n",
                question.join(" "),
                answer.map_or_else(|e| e.to_string(), |a| a.stdout + &a.stderr)
            ));
        }
        told
    }

    /// A port of this machine that leads to a port of a pod, for as long as the process lives.
    async fn forward(&self, pod: &str, port: u16) -> Result<(String, Process)> {
        let local = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (target, ports) = (format!("pod/{pod}"), format!("{local}:{port}"));
        let kubeconfig = self.kubeconfig.display().to_string();
        let arguments = ["port-forward", "-n", AGENTS, &target, &ports];
        let variables = [("KUBECONFIG", kubeconfig.as_str())];
        let process = Process::start(
            &format!("port-forward-{pod}"),
            self.folder.path(),
            self.kubectl.program(),
            arguments,
            &variables,
        )?;
        let url = format!("http://127.0.0.1:{local}");
        let health = format!("{url}/health");
        let reached = wait::until("an answer through the port-forward", Duration::from_secs(30), || async {
            Ok((http::get(&health).await?.status == 200).then_some(()))
        });
        reached.await.with_context(|| process.said())?;
        Ok((url, process))
    }

    async fn exec(&self, pod: &str, command: &str) -> Result<String> {
        self.kubectl.run(&["exec", "-n", AGENTS, pod, "--", "sh", "-c", command], "").await
    }

    async fn pool_is_full(&self, members: i64) -> Result<()> {
        let full = |pool: &Value| pool["status"]["ready"] == members;
        let reached = self.agents.reaches("WarmPool", "pool", &format!("{members} ready members"), BOUND, full).await;
        match reached {
            Ok(_) => Ok(()),
            Err(error) => bail!("{error:#}\n{}", self.story().await),
        }
    }
}

fn pod_of(conversation: &Value) -> &str {
    text(conversation, "/status/sandbox/pod")
}

fn shell(command: &str) -> Value {
    json!({"calls": [["terminal", {"command": command}]]})
}

fn finish(message: &str) -> Value {
    json!({"calls": [["finish", {"message": message}]]})
}

#[tokio::test(flavor = "multi_thread")]
async fn from_helm_install_to_finished_conversations() -> Result<()> {
    needs!(Cluster);
    let cluster = Cluster::open().await?;
    cluster.install().await?;
    cluster.model().await?;
    cluster.agents.add(&resource::pool("pool", 2)).await?;
    cluster.pool_is_full(2).await?;

    warm(&cluster).await?;
    cold(&cluster).await?;
    through_a_port_forward(&cluster).await?;
    server_child_killed(&cluster).await?;
    pod_killed(&cluster).await?;
    operator_killed(&cluster).await?;
    sandboxes_cannot_reach_each_other(&cluster).await?;
    uninstalled(&cluster).await
}

/// The shortest story, and its end: the agent's file is in the pod; the pod goes with the Conversation.
async fn warm(cluster: &Cluster) -> Result<()> {
    cluster
        .converse(
            "warm",
            "WarmOnly",
            &json!([shell("echo made-by-the-agent > proof.txt && pwd"), finish("The file is there.")]),
        )
        .await?;
    cluster.kubectl.run(&["wait", "-n", AGENTS, "conv/warm", "--for=condition=Finished", "--timeout=120s"], "").await?;
    let conversation = cluster.is("warm", "Finished").await?;
    ensure!(
        condition(&conversation, "Finished") == "True/Finished",
        "{}\n{}",
        conversation["status"],
        cluster.story().await
    );
    ensure!(conversation["status"]["sandbox"]["warm"] == true, "{}", conversation["status"]);
    ensure!(text(&conversation, "/status/finalMessage") == "The file is there.", "{}", conversation["status"]);
    let pod = pod_of(&conversation).to_owned();
    let found = cluster.exec(&pod, "cat $(find / -name proof.txt -not -path '/proc/*' 2>/dev/null | head -1)").await?;
    ensure!(found.trim() == "made-by-the-agent", "{found:?}");
    // Nothing in the pod's object or environment opens the server.
    let environment = cluster.exec(&pod, "env; cat /proc/1/environ | tr '\\0' '\\n'").await?;
    ensure!(!environment.contains("key-of-the-model"), "the model's key is in the pod's environment");
    let described = cluster.kubectl.run(&["describe", "conv", "warm", "-n", AGENTS], "").await?;
    ensure!(described.contains("Finished") && !described.contains("key-of-the-model"), "{described}");
    cluster.pool_is_full(2).await?;
    cluster.kubectl.run(&["delete", "conv", "warm", "-n", AGENTS, "--timeout=60s"], "").await?;
    cluster.agents.vanishes("Pod", &pod, BOUND).await
}

/// A pod of its own, in an image that has no server: it is put in.
async fn cold(cluster: &Cluster) -> Result<()> {
    cluster.script("cold", &json!([shell("echo cold > cold.txt && cat cold.txt"), finish("Cold, but done.")])).await?;
    let mut conversation = resource::conversation("cold", "pool");
    conversation["spec"]["sandbox"] = json!({"template": {"image": AGENT_IMAGE, "serverImage": STATIC_IMAGE}});
    conversation["spec"]["agent"]["llm"]["baseUrl"] = format!("{}/cold/v1", cluster.model_address().await?).into();
    cluster.agents.add(&conversation).await?;
    let conversation = cluster.is("cold", "Finished").await?;
    ensure!(conversation["status"]["sandbox"]["warm"] == false, "{}", conversation["status"]);
    ensure!(text(&conversation, "/status/finalMessage") == "Cold, but done.", "{}", conversation["status"]);
    cluster.kubectl.run(&["delete", "conv", "cold", "-n", AGENTS, "--wait=false"], "").await?;
    Ok(())
}

/// A sandbox is reached by its user with the key of its Secret, and by nobody without; the Python SDK works in it.
async fn through_a_port_forward(cluster: &Cluster) -> Result<()> {
    cluster.agents.add(&resource::sandbox("mine", "pool")).await?;
    let conversation = cluster.is("mine", "Ready").await?;
    let secret = text(&conversation, "/status/sessionKeySecretRef/name");
    let secret = cluster.agents.find("Secret", secret).await?.context("session Secret")?;
    let key = resource::decoded(&secret, "session-api-key")?;
    let (url, forward) = cluster.forward(pod_of(&conversation), 8000).await?;
    let counted =
        http::request("GET", &format!("{url}/api/conversations/count"), &[("X-Session-API-Key", &key)], "").await?;
    ensure!((counted.status, counted.body.trim()) == (200, "0"), "a sandbox begins without conversations: {counted:?}");
    ensure!(http::get(&format!("{url}/api/conversations/count")).await?.status == 401, "open without the key");
    python_sdk(cluster, &url, &key).await.with_context(|| forward.said())?;
    drop(forward);
    cluster.kubectl.run(&["delete", "conv", "mine", "-n", AGENTS, "--wait=false"], "").await?;
    Ok(())
}

/// The first scenario of the Python SDK, in a claimed pod, when there is a Python with the SDK.
#[expect(clippy::print_stderr, reason = "a skipped part says so")]
async fn python_sdk(cluster: &Cluster, url: &str, key: &str) -> Result<()> {
    let Some(python) = env::var_os("OPENHANDS_SDK_PYTHON").map(PathBuf::from) else {
        eprintln!("skipped: the Python SDK in a claimed pod (OPENHANDS_SDK_PYTHON is not set)");
        return Ok(());
    };
    let (door, forward) = cluster.forward("model", 9000).await?;
    let script = tier::repository().join("tests/python/hello.py").display().to_string();
    let model = cluster.model_address().await?;
    let arguments = [&script, "--server", url, key, "/workspace/project", "--model", &model, &door];
    let variables = [("PYTHONDONTWRITEBYTECODE", "1".as_ref())];
    let answer = command::ask(&python, arguments, &variables, "", BOUND).await?;
    ensure!(answer.success, "{}{}\n{}", answer.stdout, answer.stderr, forward.said());
    Ok(())
}

/// The server process dies under a running command: the pod stays, the server comes back with the keys and the history, the
/// command is not run a second time, and the agent can go on.
async fn server_child_killed(cluster: &Cluster) -> Result<()> {
    cluster
        .converse("child", "WarmOnly", &json!([shell("echo once >> $HOME/times; sleep 300"), finish("Never reached.")]))
        .await?;
    let conversation = cluster.is("child", "Started").await?;
    let pod = pod_of(&conversation).to_owned();
    wait::until("the command runs", BOUND, || async {
        Ok((cluster.exec(&pod, "cat $HOME/times").await?.trim() == "once").then_some(()))
    })
    .await?;
    let kill = "for p in /proc/[0-9]*; do case $p in /proc/1) continue;; esac; \
        [ \"$(cut -d' ' -f4 $p/stat 2>/dev/null)\" = 1 ] && readlink $p/exe | grep -q openhands-agent-server && kill -9 ${p#/proc/}; done; true";
    cluster.exec(&pod, kill).await?;
    let ended = |c: &Value| text(c, "/status/executionStatus") == "error" || is_true(c, "Finished");
    let conversation = cluster.agents.reaches("Conversation", "child", "the cut run is an error", BOUND, ended).await;
    let conversation = match conversation {
        Ok(found) => found,
        Err(error) => bail!("{error:#}\n{}", cluster.story().await),
    };
    ensure!(pod_of(&conversation) == pod, "another pod: {}", conversation["status"]);
    let found = cluster.agents.find("Pod", &pod).await?.context("pod")?;
    ensure!(
        found.pointer("/status/containerStatuses/0/restartCount") == Some(&json!(0)),
        "the container restarted: {}",
        found["status"]
    );
    ensure!(cluster.exec(&pod, "cat $HOME/times").await?.trim() == "once", "the command ran again");
    cluster.kubectl.run(&["delete", "conv", "child", "-n", AGENTS, "--wait=false"], "").await?;
    Ok(())
}

/// Without a volume a lost pod ends its Conversation, and says so.
async fn pod_killed(cluster: &Cluster) -> Result<()> {
    cluster.converse("gone", "PreferWarm", &json!([shell("sleep 300"), finish("Never reached.")])).await?;
    let conversation = cluster.is("gone", "Started").await?;
    cluster
        .kubectl
        .run(&["delete", "pod", pod_of(&conversation), "-n", AGENTS, "--grace-period=1", "--wait=false"], "")
        .await?;
    let conversation = cluster.is("gone", "Failed").await?;
    ensure!(condition(&conversation, "Failed") == "True/SandboxLost", "{}", conversation["status"]);
    cluster.kubectl.run(&["delete", "conv", "gone", "-n", AGENTS, "--wait=false"], "").await?;
    Ok(())
}

/// All replicas of the operator die while a conversation runs and another is created: both end well.
async fn operator_killed(cluster: &Cluster) -> Result<()> {
    cluster.pool_is_full(2).await?;
    cluster.converse("during", "PreferWarm", &json!([shell("sleep 8; echo slept"), finish("Slept well.")])).await?;
    cluster.is("during", "Started").await?;
    let selector = "app.kubernetes.io/name=openhands-operator";
    cluster.kubectl.run(&["delete", "pods", "-n", SYSTEM, "-l", selector, "--force", "--grace-period=0"], "").await?;
    cluster.converse("after", "PreferWarm", &json!([shell("echo hi"), finish("Hello again.")])).await?;
    for (name, words) in [("during", "Slept well."), ("after", "Hello again.")] {
        let conversation = cluster.is(name, "Finished").await?;
        ensure!(text(&conversation, "/status/finalMessage") == words, "{}", conversation["status"]);
    }
    let (during, after) = (cluster.is("during", "Ready").await?, cluster.is("after", "Ready").await?);
    ensure!(pod_of(&during) != pod_of(&after), "two conversations on one pod");
    Ok(())
}

/// Where an engine enforces NetworkPolicies: a sandbox reaches neither another sandbox nor the API server.
async fn sandboxes_cannot_reach_each_other(cluster: &Cluster) -> Result<()> {
    let policies = cluster.agents.list("NetworkPolicy", "app.kubernetes.io/name=openhands-operator").await?;
    ensure!(policies.len() == 1, "the chart made {} NetworkPolicies in {AGENTS}", policies.len());
    if env::var_os("OPENHANDS_TEST_NETWORK_POLICY").is_none_or(|value| value == "0") {
        return Ok(());
    }
    let (from, to) = (cluster.is("during", "Ready").await?, cluster.is("after", "Ready").await?);
    let connect = |host: String, port: u16| {
        format!(
            "python3 -c \"import socket,sys; s=socket.socket(); s.settimeout(4); \
             sys.exit(0 if s.connect_ex(('{host}', {port})) == 0 else 3)\"; echo $?"
        )
    };
    let neighbour = text(&to, "/status/sandbox/address").split(':').next().unwrap_or_default().to_owned();
    let service = cluster
        .kubectl
        .run(&["get", "svc", "kubernetes", "-n", "default", "-o", "jsonpath={.spec.clusterIP}"], "")
        .await?;
    // Who is not fenced in gets through, so it is the fence that holds the others back.
    let free = cluster.exec("model", &connect(service.clone(), 443)).await?;
    ensure!(free.trim() == "0", "the model's pod does not reach the API server either: {free:?}");
    for (what, host, port) in [("another sandbox", neighbour, 8000), ("the API server", service, 443)] {
        let answer = cluster.exec(pod_of(&from), &connect(host, port)).await?;
        ensure!(answer.trim() == "3", "a sandbox reached {what}: {answer:?}");
    }
    Ok(())
}

/// Uninstalling leaves definitions and Conversations where they are.
async fn uninstalled(cluster: &Cluster) -> Result<()> {
    cluster.helm(&["uninstall", "openhands-operator", "--namespace", SYSTEM, "--wait", "--timeout=60s"]).await?;
    let left = cluster.kubectl.run(&["get", "conv", "-n", AGENTS, "-o", "name"], "").await?;
    ensure!(left.contains("conversation.openhands.dev/during"), "{left}");
    // A second installation finds its definitions and takes them over.
    cluster.install().await?;
    cluster.is("during", "Ready").await?;
    cluster.kubectl.run(&["delete", "conv,wp", "--all", "-n", AGENTS, "--timeout=60s"], "").await?;
    cluster.helm(&["uninstall", "openhands-operator", "--namespace", SYSTEM, "--wait", "--timeout=60s"]).await?;
    cluster.kubectl.run(&["delete", "ns", AGENTS, SYSTEM, "--wait=false"], "").await?;
    Ok(())
}
