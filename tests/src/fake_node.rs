//! A node without a kubelet: binds every pod, gives it an address in 127/8 with a fake agent-server on it, says it is ready, and
//! takes it away when it is deleted.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use axum::http::Request;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{sync::Mutex, task::JoinHandle};

use crate::{
    fake_agent::{Agent, Memory},
    http,
    resource::{Namespace, now, text},
};

/// The node's name.
pub const NODE: &str = "fake-node";
const ROUND: Duration = Duration::from_millis(50);

// Addresses are not used twice in one test program: a late connection to a pod that is gone must not find its successor.
static NEXT: AtomicU32 = AtomicU32::new(0);

struct Shared {
    client: Client,
    agents: Mutex<BTreeMap<String, Agent>>,
    frozen: AtomicBool,
}

/// The running node; it stops when dropped, and with it all its agents.
pub struct FakeNode {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn next_address() -> Ipv4Addr {
    // The process id keeps test programs apart that run at the same time.
    let place = NEXT.fetch_add(1, Ordering::Relaxed);
    let [_, _, high, low] = (place + 1).to_be_bytes();
    let process = std::process::id() % 100;
    Ipv4Addr::new(127, u8::try_from(100 + process).unwrap_or(100), high, low)
}

impl FakeNode {
    /// Registers the node and begins to serve its pods.
    ///
    /// # Errors
    /// When the API server refuses the node.
    pub async fn start(client: Client) -> Result<Self> {
        let nodes: Api<Node> = Api::all(client.clone());
        let node = serde_json::from_value(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}))?;
        match nodes.create(&PostParams::default(), &node).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(error).context("create the node"),
        }
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Fake", "message": "",
            "lastHeartbeatTime": now(), "lastTransitionTime": now()}]}});
        nodes.patch_status(NODE, &PatchParams::default(), &Patch::Strategic(status)).await?;
        let shared = Arc::new(Shared { client, agents: Mutex::default(), frozen: AtomicBool::new(false) });
        let task = tokio::spawn(serve(Arc::clone(&shared)));
        Ok(Self { shared, task })
    }

    /// While frozen, new pods stay pending; deletions go on.
    pub fn freeze(&self, frozen: bool) {
        self.shared.frozen.store(frozen, Ordering::Relaxed);
    }

    /// Looks at the agent of a pod.
    ///
    /// # Errors
    /// When that pod has none.
    pub async fn with<T>(&self, pod_uid: &str, look: impl AsyncFnOnce(&Agent) -> Result<T>) -> Result<T> {
        let agents = self.shared.agents.lock().await;
        look(agents.get(pod_uid).with_context(|| format!("no agent runs in pod {pod_uid}"))?).await
    }

    /// What the agent of a pod was told.
    ///
    /// # Errors
    /// When that pod has none.
    pub async fn memory(&self, pod_uid: &str) -> Result<Memory> {
        self.with(pod_uid, async |agent| Ok(agent.memory())).await
    }

    /// What all agents that still run were told, by pod UID.
    pub async fn memories(&self) -> BTreeMap<String, Memory> {
        self.shared.agents.lock().await.iter().map(|(uid, agent)| (uid.clone(), agent.memory())).collect()
    }

    /// The agent of a pod reports to where it was told, found as a cluster's DNS and proxy would: through the EndpointSlice of
    /// the Service. Hands back the answer's status code.
    ///
    /// # Errors
    /// When the pod has no initialised agent, the Service no endpoint, or nobody answers.
    pub async fn report(&self, pod_uid: &str, execution_status: &str, final_message: Option<&str>) -> Result<u16> {
        let (target, body) =
            self.with(pod_uid, async |agent| agent.next_report(execution_status, final_message)).await?;
        self.post_report(&target, text(&target, "/token"), &body).await
    }

    /// Sends any body with any token to where a report must go.
    ///
    /// # Errors
    /// When the Service has no endpoint or nobody answers.
    pub async fn post_report(&self, target: &Value, token: &str, body: &Value) -> Result<u16> {
        let url = text(target, "/url");
        let rest = url.strip_prefix("http://").with_context(|| format!("report url {url:?}"))?;
        let (host, path) = rest.split_once('/').context("path of the report url")?;
        let mut names = host.split(':').next().unwrap_or_default().split('.');
        let (service, namespace) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
        let slices = Namespace { name: namespace.to_owned(), client: self.shared.client.clone() };
        let slices = slices.list("EndpointSlice", &format!("kubernetes.io/service-name={service}")).await?;
        let slice = slices.iter().find(|s| s.pointer("/endpoints/0/addresses/0").is_some());
        let slice = slice.with_context(|| format!("no endpoint of {namespace}/{service}: {slices:?}"))?;
        let port = slice.pointer("/ports/0/port").context("port of the EndpointSlice")?;
        let headers = [("Authorization", format!("Bearer {token}")), ("Content-Type", "application/json".to_owned())];
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        // Whatever address the replica has, it is a process of this machine.
        Ok(http::request("POST", &format!("http://127.0.0.1:{port}/{path}"), &headers, &body.to_string()).await?.status)
    }

    /// The pod vanishes at once, as with its node.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn lose(&self, namespace: &str, pod: &str) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.shared.client.clone(), namespace);
        let uid = pods.get(pod).await?.uid().context("pod without UID")?;
        self.shared.agents.lock().await.remove(&uid);
        pods.delete(pod, &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    /// The container of a pod restarts: the agent is dormant again, the pod's status says so.
    ///
    /// # Errors
    /// When the pod has no agent or the API server refuses.
    pub async fn restart_container(&self, namespace: &str, pod: &str, keeps_conversations: bool) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.shared.client.clone(), namespace);
        let found = pods.get(pod).await?;
        let uid = found.uid().context("pod without UID")?;
        let restarts = found
            .status
            .iter()
            .flat_map(|status| status.container_statuses.iter().flatten())
            .map(|c| c.restart_count)
            .max();
        self.with(&uid, async |agent| {
            agent.restart(keeps_conversations);
            write_status(&pods, &found, agent.address, restarts.unwrap_or_default() + 1).await
        })
        .await
    }
}

async fn serve(shared: Arc<Shared>) {
    let pods: Api<Pod> = Api::all(shared.client.clone());
    loop {
        if let Ok(list) = pods.list(&ListParams::default()).await {
            let alive: Vec<String> = list.items.iter().filter_map(ResourceExt::uid).collect();
            shared.agents.lock().await.retain(|uid, _| alive.contains(uid));
            for pod in list.items {
                // A conflict or a pod that is gone is seen again in the next round.
                let _ = serve_pod(&shared, &pod).await;
            }
        }
        tokio::time::sleep(ROUND).await;
    }
}

async fn serve_pod(shared: &Shared, pod: &Pod) -> Result<()> {
    let (name, namespace, uid) = (pod.name_any(), pod.namespace().unwrap_or_default(), pod.uid().unwrap_or_default());
    let pods: Api<Pod> = Api::namespaced(shared.client.clone(), &namespace);
    if pod.metadata.deletion_timestamp.is_some() {
        shared.agents.lock().await.remove(&uid);
        let mut now = DeleteParams::default().grace_period(0);
        now.preconditions = Some(kube::api::Preconditions { uid: Some(uid), resource_version: None });
        pods.delete(&name, &now).await?;
        return Ok(());
    }
    let mut agents = shared.agents.lock().await;
    if agents.contains_key(&uid) || shared.frozen.load(Ordering::Relaxed) {
        return Ok(());
    }
    let spec = pod.spec.as_ref().context("pod without spec")?;
    if spec.node_name.is_none() {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}});
        let request = Request::post(format!("/api/v1/namespaces/{namespace}/pods/{name}/binding"))
            .header("Content-Type", "application/json")
            .body(serde_json::to_vec(&binding)?)?;
        shared.client.request_text(request).await?;
    }
    let variables = spec.containers.iter().flat_map(|container| container.env.iter().flatten());
    let digest =
        variables.into_iter().find(|variable| variable.name == "OH_INIT_KEY_SHA256").and_then(|v| v.value.clone());
    let Some(digest) = digest else { bail!("pod {name} carries no OH_INIT_KEY_SHA256") };
    let agent = Agent::start(next_address(), &uid, &digest).await?;
    write_status(&pods, pod, agent.address, 0).await?;
    agents.insert(uid, agent);
    Ok(())
}

async fn write_status(pods: &Api<Pod>, pod: &Pod, address: Ipv4Addr, restarts: i32) -> Result<()> {
    let spec = pod.spec.as_ref().context("pod without spec")?;
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now()});
    let container = |name: &str, image: Option<&String>| {
        json!({
            "name": name, "image": image, "imageID": "sha256:0", "ready": true, "started": true, "restartCount": restarts,
            "containerID": format!("containerd://{name}-{restarts}"), "state": {"running": {"startedAt": now()}},
        })
    };
    let containers: Vec<_> = spec.containers.iter().map(|c| container(&c.name, c.image.as_ref())).collect();
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    let status = json!({"status": {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "hostIP": "127.0.0.1", "startTime": now(),
        "conditions": conditions,
        "containerStatuses": containers,
    }});
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(status)).await?;
    Ok(())
}
