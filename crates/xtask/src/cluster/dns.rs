//! Names inside the cluster: CoreDNS as an ordinary deployment, so that policies that allow "the cluster's name server" mean
//! the same as elsewhere; and the role that kube-proxy needs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::addresses::Addresses;
use crate::folders;
use crate::image::layer::Tree;
use crate::image::layout::{self, Settings};

/// The image's name.
pub(crate) const IMAGE: &str = "localhost/coredns:dev";

const COREFILE: &str = ".:53 {
  errors
  health :8080
  ready :8181
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    pods insecure
    ttl 5
  }
  forward . /etc/resolv.conf
  cache 5
}
";

/// The image as a tar, written when the program changed.
///
/// # Errors
/// The program cannot be read or the files cannot be written.
pub(crate) fn image(programs: &Path) -> Result<PathBuf> {
    let binary = programs.join("coredns").canonicalize().context("coredns is not built")?;
    let file = binary.with_file_name("image.tar");
    if !file.exists() {
        let folder = tempfile::tempdir_in(folders::cache()?)?;
        let layer = Tree::default().program("coredns", &binary).write(&folder.path().join("layer.tar"))?;
        let settings = Settings { entrypoint: vec!["/coredns".into()], ..Settings::default() };
        let fresh = folder.path().join("image.tar");
        layout::write(&fresh, IMAGE, &settings, &[layer])?;
        std::fs::rename(&fresh, &file)?;
    }
    Ok(file)
}

/// Every object, as one list for `kubectl apply`.
pub(crate) fn objects(addresses: Addresses) -> Value {
    let labels = json!({"k8s-app": "kube-dns"});
    let named = |name: &str| json!({"name": name, "namespace": "kube-system", "labels": labels});
    let items = vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "dev:kube-proxy"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-proxier"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "system:kube-proxy"}],
        }),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named("coredns")}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "dev:coredns"},
            "rules": [
                {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "dev:coredns"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "dev:coredns"},
            "subjects": [{"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}],
        }),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named("coredns"), "data": {"Corefile": COREFILE}}),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": named("kube-dns"),
            "spec": {
                "clusterIP": addresses.dns_service(),
                "selector": labels,
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
                ],
            },
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": named("coredns"),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod()},
            },
        }),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn pod() -> Value {
    json!({
        "serviceAccountName": "coredns",
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 0,
        "containers": [{
            "name": "coredns",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "args": ["-conf", "/etc/coredns/Corefile"],
            "ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"}, {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            },
            "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": true}],
        }],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    })
}
