//! A real control plane without nodes: etcd, kube-apiserver, and of the controller manager the garbage collector.
//!
//! One per test program, started by the first check that asks; it ends with the program. Files are in a temporary folder.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::sync::OnceCell;

use crate::{
    certificate,
    process::{self, Process},
    tier, wait,
};

static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
const START: Duration = Duration::from_secs(120);

/// The running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    folder: PathBuf,
    port: u16,
    processes: Vec<Process>,
}

pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All are held until all are known, so that they differ.
    let held: Vec<TcpListener> = (0..N).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

impl ControlPlane {
    /// The one of this test program.
    ///
    /// # Errors
    /// When a program is missing or does not come up within two minutes; with its last words.
    pub async fn shared() -> Result<&'static Self> {
        SHARED.get_or_try_init(Self::start).await
    }

    async fn start() -> Result<Self> {
        // The provider may be there already when a client was made before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (etcd, apiserver, manager) =
            (tier::tool("etcd")?, tier::tool("kube-apiserver")?, tier::tool("kube-controller-manager")?);
        let folder = tempfile::Builder::new().prefix("openhands-control-plane-").tempdir()?.keep();
        process::remove_afterwards(&folder)?;
        certificate::write_all(&folder)?;
        let [client, peer, port, manager_port] = free_ports()?;
        let mut plane = Self { folder, port, processes: Vec::new() };
        plane.write_configuration()?;
        let etcd_url = format!("http://127.0.0.1:{client}");
        let peer_url = format!("http://127.0.0.1:{peer}");
        plane.run(
            "etcd",
            &etcd,
            &[
                ("data-dir", plane.path("etcd")),
                ("unsafe-no-fsync", "true".into()),
                ("listen-client-urls", etcd_url.clone()),
                ("advertise-client-urls", etcd_url.clone()),
                ("listen-peer-urls", peer_url.clone()),
                ("initial-advertise-peer-urls", peer_url.clone()),
                ("initial-cluster", format!("default={peer_url}")),
            ],
        )?;
        plane.run(
            "kube-apiserver",
            &apiserver,
            &[
                ("etcd-servers", etcd_url),
                ("bind-address", "127.0.0.1".into()),
                ("advertise-address", "127.0.0.1".into()),
                ("endpoint-reconciler-type", "none".into()),
                ("secure-port", port.to_string()),
                ("tls-cert-file", plane.path("server.crt")),
                ("tls-private-key-file", plane.path("server.key")),
                ("client-ca-file", plane.path("ca.crt")),
                ("service-account-key-file", plane.path("account.pub")),
                ("service-account-signing-key-file", plane.path("account.key")),
                ("service-account-issuer", "https://kubernetes.default.svc".into()),
                ("service-cluster-ip-range", "10.0.0.0/24".into()),
                ("authorization-mode", "RBAC".into()),
                // Pods name the default service account, which no controller makes in time here.
                ("disable-admission-plugins", "ServiceAccount".into()),
                ("audit-policy-file", plane.path("audit-policy.yaml")),
                ("audit-log-path", plane.path("audit.log")),
                ("audit-log-mode", "blocking".into()),
            ],
        )?;
        plane.answers().await?;
        plane.run(
            "kube-controller-manager",
            &manager,
            &[
                ("kubeconfig", plane.path("kubeconfig")),
                ("controllers", "garbage-collector-controller,namespace-controller".into()),
                ("leader-elect", "false".into()),
                ("bind-address", "127.0.0.1".into()),
                ("secure-port", manager_port.to_string()),
                ("service-account-private-key-file", plane.path("account.key")),
            ],
        )?;
        Ok(plane)
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn run(&mut self, name: &str, program: &Path, flags: &[(&str, String)]) -> Result<()> {
        let arguments = flags.iter().map(|(flag, value)| format!("--{flag}={value}"));
        self.processes.push(Process::start(name, &self.folder, program, arguments, &[])?);
        Ok(())
    }

    fn write_kubeconfig(&self, user: &str, file: &Path) -> Result<()> {
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port), "certificate-authority": self.path("ca.crt")}}],
            "users": [{"name": user, "user": {
                "client-certificate": self.path(&format!("{user}.crt")), "client-key": self.path(&format!("{user}.key"))}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        });
        fs::write(file, kubeconfig.to_string()).with_context(|| file.display().to_string())
    }

    /// A kubeconfig for a service account: the same name and groups as its pods would have, by a certificate.
    ///
    /// # Errors
    /// When openssl or the disk refuses.
    pub fn service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let groups = format!("/O=system:serviceaccounts/O=system:serviceaccounts:{namespace}/O=system:authenticated");
        let user = format!("account-{namespace}-{name}");
        certificate::issue(&self.folder, &user, &format!("{groups}/CN=system:serviceaccount:{namespace}:{name}"))?;
        let file = self.folder.join(format!("{user}.kubeconfig"));
        self.write_kubeconfig(&user, &file)?;
        Ok(file)
    }

    /// The folder with everything of this control plane; it goes with the test program.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn write_configuration(&self) -> Result<()> {
        self.write_kubeconfig("admin", &self.kubeconfig())?;
        // Every write once, when it is answered, and all that a service account asks; an administrator's reads are of no interest.
        let policy = serde_json::json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [
                {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
                {"level": "None", "verbs": ["get", "list", "watch"]},
                {"level": "Metadata"},
            ],
        });
        fs::write(self.folder.join("audit-policy.yaml"), policy.to_string()).context("audit policy")
    }

    async fn answers(&self) -> Result<()> {
        let ready = wait::until("the API server is ready", START, || async {
            if let Some(gone) = self.processes.iter().find(|process| !process.runs()) {
                // An error alone would be asked again; a dead process never gets better.
                return Ok(Some(Err(anyhow::anyhow!("{}", gone.said()))));
            }
            let client = self.client().await?;
            let request = http_get("/readyz")?;
            Ok((client.request_text(request).await? == "ok").then_some(Ok(())))
        });
        match ready.await {
            Ok(result) => result.context("the control plane ended while starting"),
            Err(error) => bail!("{error:#}\n{}", self.processes.iter().map(Process::said).collect::<String>()),
        }
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// A client of the calling runtime: connections die with the runtime they were made in, so every check makes its own.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub async fn client(&self) -> Result<Client> {
        client(&self.kubeconfig()).await
    }

    /// The writes the API server has answered so far, one line of JSON each.
    ///
    /// # Errors
    /// When the audit log cannot be read.
    pub fn audit(&self) -> Result<Vec<serde_json::Value>> {
        let text = fs::read_to_string(self.folder.join("audit.log")).context("audit log")?;
        text.lines().map(|line| serde_json::from_str(line).context("a line of the audit log")).collect()
    }
}

fn http_get(path: &str) -> Result<axum::http::Request<Vec<u8>>> {
    Ok(axum::http::Request::get(path).body(Vec::new())?)
}

/// A client for any kubeconfig file.
///
/// # Errors
/// When the file cannot be read.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.read_timeout = None;
    Ok(Client::try_from(config)?)
}
