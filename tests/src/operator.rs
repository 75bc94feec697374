//! The operator as a process against the test control plane, started with the flags and environment of the chart's Deployment
//! and with the rights of the chart's service account.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    control_plane::{ControlPlane, free_ports},
    helm, http,
    kubectl::Kubectl,
    process::Process,
    tier, wait,
};

/// Where the chart is installed.
pub const NAMESPACE: &str = "openhands-system";
const START: Duration = Duration::from_secs(60);

/// One running operator.
#[derive(Debug)]
pub struct Operator {
    /// The process.
    pub process: Process,
    /// Its pod name, the identity in the Lease.
    pub name: String,
    port: u16,
}

/// Renders the chart with settings and hands back all its objects.
async fn render(home: &Path, settings: &[String]) -> Result<Vec<Value>> {
    let chart = helm::chart().display().to_string();
    let mut arguments =
        vec!["template", "openhands-operator", &chart, "--namespace", NAMESPACE, "--kube-version", helm::KUBERNETES];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    let yaml = helm::run(home, None, &arguments, "").await?;
    let parts = yaml.split("\n---\n").filter(|part| part.lines().any(|line| line.starts_with("kind:")));
    parts.map(|part| serde_saphyr::from_str(part).with_context(|| part.to_owned())).collect()
}

/// Applies the whole chart, definitions included, as far as a cluster without nodes can: the API server accepts every object.
///
/// # Errors
/// When helm or the API server refuses.
pub async fn install(plane: &ControlPlane, settings: &[String]) -> Result<()> {
    let kubectl = Kubectl::new(&plane.kubeconfig())?;
    let home = tempfile::tempdir()?;
    let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    kubectl.apply(&[namespace]).await?;
    kubectl.apply(&render(home.path(), settings).await?).await?;
    let crds = ["crd/conversations.openhands.dev", "crd/warmpools.openhands.dev"];
    kubectl.run(&[&["wait", "--for=condition=Established", "--timeout=60s"], crds.as_slice()].concat(), "").await?;
    Ok(())
}

impl Operator {
    /// Starts a replica named `name` and waits until it is alive (not until it leads).
    ///
    /// # Errors
    /// When the binary is missing, ends at once or is not alive within a minute; with its last words.
    pub async fn start(plane: &ControlPlane, name: &str, settings: &[String]) -> Result<Self> {
        let binary = tier::built("openhands-operator", "OPENHANDS_OPERATOR_BIN")?;
        let home = tempfile::tempdir()?;
        let [metrics, reports] = free_ports()?;
        let mut settings = settings.to_vec();
        settings.extend([
            format!("metrics.port={metrics}"),
            format!("reports.port={reports}"),
            "log.format=text".into(),
        ]);
        let objects = render(home.path(), &settings).await?;
        let deployment =
            objects.iter().find(|object| object["kind"] == "Deployment").context("the chart has no Deployment")?;
        let container = deployment.pointer("/spec/template/spec/containers/0").context("container")?;
        let account = crate::resource::text(deployment, "/spec/template/spec/serviceAccountName");
        let kubeconfig = plane.service_account(NAMESPACE, account)?.display().to_string();
        let mut variables = environment(container, name)?;
        variables.insert("KUBECONFIG".into(), kubeconfig);
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let listed = container["args"].as_array().context("args")?.iter();
        let arguments =
            listed.map(|a| a.as_str().context("an argument that is no text").map(|a| substitute(a, &variables)));
        let arguments: Vec<String> = arguments.collect::<Result<_>>()?;
        let process = Process::start(&format!("{name}-{metrics}"), plane.folder(), &binary, arguments, &variables)?;
        let operator = Self { process, name: name.to_owned(), port: metrics };
        operator.reaches("/healthz").await?;
        Ok(operator)
    }

    async fn reaches(&self, path: &str) -> Result<()> {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let what = format!("{} answers 200 on {path}", self.name);
        let done = wait::until(&what, START, || async {
            if !self.process.runs() {
                return Ok(Some(false));
            }
            let answer = http::get(&url).await?;
            if answer.status != 200 {
                bail!("{} {}", answer.status, answer.body);
            }
            Ok(Some(true))
        });
        match done.await {
            Ok(true) => Ok(()),
            Ok(false) => bail!("the operator ended: {}", self.process.said()),
            Err(error) => bail!("{error:#}\n{}", self.process.said()),
        }
    }

    /// Waits until its caches are filled.
    ///
    /// # Errors
    /// When that takes more than a minute.
    pub async fn ready(&self) -> Result<()> {
        self.reaches("/readyz").await
    }

    /// Whether it says that it leads.
    ///
    /// # Errors
    /// When its metrics cannot be read.
    pub async fn leads(&self) -> Result<bool> {
        Ok(self.metric("openhands_operator_leader", "").await? == 1.0)
    }

    /// The sum of all samples of a metric whose labels do not contain `without` (empty: of all).
    ///
    /// # Errors
    /// When its metrics cannot be read.
    pub async fn metric(&self, name: &str, without: &str) -> Result<f64> {
        let text = http::get(&format!("http://127.0.0.1:{}/metrics", self.port)).await?.body;
        let samples =
            text.lines().filter(|line| line.starts_with(name) && (without.is_empty() || !line.contains(without)));
        Ok(samples.filter_map(|line| line.rsplit_once(' ')).filter_map(|(_, value)| value.parse::<f64>().ok()).sum())
    }

    /// Its own count of writes, leases left out.
    ///
    /// # Errors
    /// When its metrics cannot be read.
    pub async fn counted_writes(&self) -> Result<f64> {
        self.metric("openhands_operator_api_writes_total", "resource=\"leases\"").await
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.process.kill();
    }

    /// Stops its processor time: alive for the kernel, silent for everybody else.
    ///
    /// # Errors
    /// When it is gone.
    pub fn freeze(&self) -> Result<()> {
        self.process.signal(Signal::STOP)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it is gone.
    pub fn thaw(&self) -> Result<()> {
        self.process.signal(Signal::CONT)
    }
}

/// The container's variables; what the kubelet would take from the pod is made up here.
fn environment(container: &Value, name: &str) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for variable in container["env"].as_array().into_iter().flatten() {
        let key = variable["name"].as_str().context("a variable without a name")?.to_owned();
        let value = match variable.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str) {
            Some("metadata.name") => name.to_owned(),
            Some("metadata.namespace") => NAMESPACE.to_owned(),
            Some("metadata.uid") => format!("uid-of-{name}"),
            // An EndpointSlice takes no loopback address; the fake node knows where this one leads.
            Some("status.podIP") => "192.0.2.1".to_owned(),
            Some(other) => bail!("variable {key} from {other} is not known to the checks"),
            None => variable["value"].as_str().unwrap_or_default().to_owned(),
        };
        all.insert(key, value);
    }
    Ok(all)
}

fn substitute(argument: &str, variables: &[(&str, &str)]) -> String {
    variables.iter().fold(argument.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
}
