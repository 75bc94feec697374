//! The Go programs of the development cluster: which ones, at which version, and one folder that has them all.

pub(crate) mod tool;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::folders;
use tool::{Source, Tool};

/// The Kubernetes of the development cluster.
pub(crate) const KUBERNETES: &str = "1.34.4";

/// Kubernetes' own programs: one binary that is called by six names, so that it is linked and stored once.
const KUBERNETES_NAMES: &[&str] =
    &["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"];

const KUBE: Tool = Tool {
    name: "kubernetes",
    version: KUBERNETES,
    source: Source::Kubernetes(include_str!("go/sources/kubernetes.go")),
    names: KUBERNETES_NAMES,
};
const ETCD: Tool = Tool {
    name: "etcd",
    version: "3.6.16",
    source: Source::Module { module: "go.etcd.io/etcd/server/v3", package: "" },
    names: &[],
};
const HELM: Tool = Tool {
    name: "helm",
    version: "3.22.0",
    source: Source::Module { module: "helm.sh/helm/v3", package: "/cmd/helm" },
    names: &[],
};
const KUBE_ROUTER: Tool = Tool {
    name: "kube-router",
    version: "2.1.0",
    source: Source::Module { module: "github.com/cloudnativelabs/kube-router/v2", package: "/cmd/kube-router" },
    names: &[],
};
const COREDNS: Tool = Tool {
    name: "coredns",
    version: "1.15.0",
    source: Source::Main { module: "github.com/coredns/coredns", text: include_str!("go/sources/coredns.go") },
    names: &[],
};
/// What the cluster and the tests call, in the order in which they are built.
const CLUSTER: &[&Tool] = &[&KUBE, &ETCD, &HELM, &KUBE_ROUTER, &COREDNS];

/// Builds what is absent and gives the folder that has every program of the cluster under its own name.
///
/// # Errors
/// Go is missing or too old, or a build failed.
pub(crate) fn programs() -> Result<PathBuf> {
    let versions = CLUSTER.iter().map(|tool| format!("{}-{}", tool.name, tool.version)).collect::<Vec<_>>().join("_");
    let folder = folders::cache()?.join("programs").join(&versions);
    if CLUSTER.iter().flat_map(|tool| tool.programs()).all(|name| folder.join(name).exists()) {
        return Ok(folder);
    }
    let _lock = folders::lock("go-programs")?;
    folders::made(folder.clone())?;
    for tool in CLUSTER {
        let binary = tool.ensure()?;
        for name in tool.programs() {
            link(&binary, &folder.join(name))?;
        }
    }
    Ok(folder)
}

/// A Go program whose source lies in `folder`, built into the cache under `name`; rebuilt by Go only when it changed.
///
/// # Errors
/// Go is missing or too old, or the build failed.
pub(crate) fn local(name: &str, folder: &Path) -> Result<PathBuf> {
    tool::check_go()?;
    let out = folders::made(folders::cache()?.join("local"))?.join(name);
    crate::say::step(&format!("build {name}"), || {
        tool::build_command(folder, &out, "", "readonly")
            .arg(".")
            .run()
            .map(|_| ())
            .with_context(|| format!("cannot build {name}"))
    })?;
    Ok(out)
}

fn link(target: &Path, name: &Path) -> Result<()> {
    let _ = std::fs::remove_file(name);
    std::os::unix::fs::symlink(target, name).with_context(|| format!("cannot link {}", name.display()))
}
