//! The programs of a node and their arguments. Pure: a record's addresses and folders in, command lines out.

use std::path::{Path, PathBuf};

use super::addresses::Addresses;
use super::configuration::NODE;

/// One long-running program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Component {
    /// Its name in logs, the record and the status.
    pub(crate) name: &'static str,
    /// The binary.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
}

/// What must answer before anything else can start: the store, the API server and the container runtime.
pub(crate) fn first(programs: &Path, folder: &Path, addresses: Addresses) -> Vec<Component> {
    vec![etcd(programs, folder, addresses), api_server(programs, folder, addresses), containerd(folder)]
}

/// What talks to the API server from its first moment.
pub(crate) fn second(programs: &Path, folder: &Path, addresses: Addresses) -> Vec<Component> {
    vec![
        kubelet(programs, folder, addresses),
        controller_manager(programs, folder),
        scheduler(programs, folder),
        proxy(programs, folder, addresses),
    ]
}

/// What gives up when its node is not registered yet.
pub(crate) fn third(programs: &Path, folder: &Path, addresses: Addresses) -> Vec<Component> {
    vec![policies(programs, folder, addresses)]
}

fn etcd(programs: &Path, folder: &Path, addresses: Addresses) -> Component {
    Component {
        name: "etcd",
        program: programs.join("etcd"),
        arguments: vec![
            format!("--data-dir={}", folder.join("etcd").display()),
            // A development cluster may lose its last moment with the machine's power.
            "--unsafe-no-fsync".into(),
            "--listen-client-urls=http://127.0.0.1:2379".into(),
            "--advertise-client-urls=http://127.0.0.1:2379".into(),
            "--listen-peer-urls=http://127.0.0.1:2380".into(),
            format!("--listen-metrics-urls=http://{}:2381", addresses.node()),
            "--log-level=warn".into(),
        ],
    }
}

fn api_server(programs: &Path, folder: &Path, addresses: Addresses) -> Component {
    let key = |name: &str| folder.join("pki").join(name).display().to_string();
    Component {
        name: "kube-apiserver",
        program: programs.join("kube-apiserver"),
        arguments: vec![
            "--etcd-servers=http://127.0.0.1:2379".into(),
            "--secure-port=6443".into(),
            format!("--advertise-address={}", addresses.node()),
            format!("--cert-dir={}", folder.join("pki").display()),
            format!("--tls-cert-file={}", key("apiserver.crt")),
            format!("--tls-private-key-file={}", key("apiserver.key")),
            format!("--client-ca-file={}", key("ca.crt")),
            format!("--service-account-key-file={}", key("sa.pub")),
            format!("--service-account-signing-key-file={}", key("sa.key")),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-cluster-ip-range={}", addresses.services()),
            "--authorization-mode=Node,RBAC".into(),
            "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement".into(),
            "--allow-privileged=true".into(),
            format!("--kubelet-client-certificate={}", key("admin.crt")),
            format!("--kubelet-client-key={}", key("admin.key")),
            format!("--kubelet-certificate-authority={}", key("ca.crt")),
            "--kubelet-preferred-address-types=InternalIP".into(),
            format!("--audit-policy-file={}", folder.join("audit-policy.yaml").display()),
            format!("--audit-log-path={}", folder.join("audit.log").display()),
            "--audit-log-maxsize=200".into(),
            "--audit-log-maxbackup=1".into(),
            "--audit-log-mode=batch".into(),
        ],
    }
}

fn containerd(folder: &Path) -> Component {
    Component {
        name: "containerd",
        program: crate::command::find("containerd").unwrap_or_else(|| "/usr/bin/containerd".into()),
        arguments: vec![
            "--config".into(),
            folder.join("containerd.toml").display().to_string(),
            "--log-level".into(),
            "warn".into(),
        ],
    }
}

fn kubelet(programs: &Path, folder: &Path, addresses: Addresses) -> Component {
    Component {
        name: "kubelet",
        program: programs.join("kubelet"),
        arguments: vec![
            format!("--config={}", folder.join("kubelet.json").display()),
            kubeconfig(folder, "kubelet"),
            format!("--root-dir={}", folder.join("kubelet").display()),
            format!("--hostname-override={NODE}"),
            format!("--node-ip={}", addresses.node()),
        ],
    }
}

fn controller_manager(programs: &Path, folder: &Path) -> Component {
    let key = |name: &str| folder.join("pki").join(name).display().to_string();
    Component {
        name: "kube-controller-manager",
        program: programs.join("kube-controller-manager"),
        arguments: vec![
            kubeconfig(folder, "controller-manager"),
            format!("--service-account-private-key-file={}", key("sa.key")),
            format!("--root-ca-file={}", key("ca.crt")),
            "--use-service-account-credentials=true".into(),
            format!("--cluster-signing-cert-file={}", key("ca.crt")),
            format!("--cluster-signing-key-file={}", key("ca.key")),
            "--leader-elect=false".into(),
            "--bind-address=127.0.0.1".into(),
        ],
    }
}

fn scheduler(programs: &Path, folder: &Path) -> Component {
    Component {
        name: "kube-scheduler",
        program: programs.join("kube-scheduler"),
        arguments: vec![
            kubeconfig(folder, "scheduler"),
            "--leader-elect=false".into(),
            "--bind-address=127.0.0.1".into(),
        ],
    }
}

fn proxy(programs: &Path, folder: &Path, addresses: Addresses) -> Component {
    Component {
        name: "kube-proxy",
        program: programs.join("kube-proxy"),
        arguments: vec![
            kubeconfig(folder, "proxy"),
            format!("--hostname-override={NODE}"),
            "--proxy-mode=iptables".into(),
            format!("--cluster-cidr={}", addresses.pods()),
            // These limits belong to the whole machine; the cluster leaves them alone.
            "--conntrack-max-per-core=0".into(),
            "--conntrack-tcp-timeout-established=0".into(),
            "--conntrack-tcp-timeout-close-wait=0".into(),
            // Services follow their pods at once instead of within a second.
            "--iptables-min-sync-period=100ms".into(),
        ],
    }
}

/// kube-router, of which only the NetworkPolicy engine runs.
fn policies(programs: &Path, folder: &Path, addresses: Addresses) -> Component {
    Component {
        name: "kube-router",
        program: programs.join("kube-router"),
        arguments: vec![
            format!("--kubeconfig={}", folder.join("pki").join("admin.kubeconfig").display()),
            "--run-firewall=true".into(),
            "--run-router=false".into(),
            "--run-service-proxy=false".into(),
            "--run-loadbalancer=false".into(),
            format!("--hostname-override={NODE}"),
            format!("--service-cluster-ip-range={}", addresses.services()),
            "--health-port=0".into(),
        ],
    }
}

fn kubeconfig(folder: &Path, user: &str) -> String {
    format!("--kubeconfig={}", folder.join("pki").join(format!("{user}.kubeconfig")).display())
}

/// One line for each write, without bodies: what an operator's own counters are compared with.
pub(crate) const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: None
    verbs: [get, list, watch]
  - level: None
    resources: [{group: coordination.k8s.io, resources: [leases]}]
  - level: Metadata
";
