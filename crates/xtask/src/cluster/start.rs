//! Starting a cluster, or repairing one that runs: each step looks first whether its work is already done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::components::{self, Component};
use super::configuration::{self, NODE};
use super::node::Node;
use super::record::Record;
use super::target::Target;
use super::{cgroup, dns, network, pki, stop};
use crate::command::Cmd;
use crate::image::{deliver, pause};
use crate::{folders, go, packages, say, wait};

/// Folders below which programs write at fixed places; the node sees its own instead.
const OWN: &[(&str, &str)] =
    &[("/var/lib/cni", "var-lib-cni"), ("/var/lib/kubelet", "var-lib-kubelet"), ("/var/log", "var-log")];

/// Starts or repairs the cluster called `name`.
///
/// # Errors
/// This machine cannot run it (the message has the remedy), or a component did not come up.
pub(crate) fn up(name: &str) -> Result<Target> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "a cluster of our own needs root: run the command as root, or install Docker and kind, or name an existing cluster by --context"
        );
    }
    packages::ensure(packages::CLUSTER)?;
    let programs = go::programs()?;
    let holder = pause::program()?;
    let images = [(pause::IMAGE, pause::image()?), (dns::IMAGE, dns::image(&programs)?)];
    let _lock = folders::lock(&format!("cluster-{name}"))?;
    let record = match Record::load(name)? {
        Some(record) if record.node.as_ref().is_some_and(Node::alive) => record,
        Some(_) => {
            stop::remove(name)?;
            Record::create(name)?
        }
        None => Record::create(name)?,
    };
    say::step(&format!("start cluster {name}"), || {
        let outcome = bring_up(record, &programs, &holder, &images);
        outcome.with_context(|| {
            format!(
                "cluster {name} did not come up; logs: {}",
                folders::clusters().unwrap_or_default().join(name).join("log").display()
            )
        })
    })?;
    super::target::existing(name)
}

fn bring_up(mut record: Record, programs: &Path, holder: &Path, images: &[(&str, PathBuf)]) -> Result<()> {
    let folder = record.folder()?;
    let node = prepare(&mut record, &folder, holder)?;
    for component in components::first(programs, &folder, record.addresses) {
        start(&mut record, &node, &folder, &component)?;
    }
    let kubectl = |arguments: &[&str]| -> Result<Cmd> {
        Ok(Cmd::new(programs.join("kubectl"))
            .arg("--kubeconfig")
            .arg(record.kubeconfig()?)
            .args(arguments)
            .limit(Duration::from_secs(30)))
    };
    let socket = record.containerd()?;
    wait::until(Duration::from_secs(60), "containerd", || {
        Ok(deliver::ctr(&socket).arg("version").succeeds().then_some(()))
    })?;
    let mut digests = record.images.clone();
    for (name, file) in images {
        deliver::import(&socket, name, file, &mut digests)?;
    }
    wait::until(Duration::from_secs(90), "the API server", || {
        Ok(kubectl(&["get", "--raw", "/readyz"])?.succeeds().then_some(()))
    })?;
    kubectl(&["apply", "--server-side", "--force-conflicts", "-f", "-"])?
        .input(dns::objects(record.addresses).to_string())
        .run()?;
    record.images = digests;
    for component in components::second(programs, &folder, record.addresses) {
        start(&mut record, &node, &folder, &component)?;
    }
    let kubeconfig = record.kubeconfig()?;
    let wait_for = |arguments: &[&str]| {
        let command = Cmd::new(programs.join("kubectl")).arg("--kubeconfig").arg(&kubeconfig).args(arguments);
        command.limit(Duration::from_secs(30)).succeeds()
    };
    wait::until(Duration::from_secs(60), "the node's registration", || {
        Ok(wait_for(&["get", "node", NODE]).then_some(()))
    })?;
    for component in components::third(programs, &folder, record.addresses) {
        start(&mut record, &node, &folder, &component)?;
    }
    let ready = ["wait", "--for=condition=Ready", "--timeout=10s", "node", NODE];
    wait::until(Duration::from_secs(90), "the node", || Ok(wait_for(&ready).then_some(())))?;
    let named = ["-n", "kube-system", "wait", "--for=condition=Available", "--timeout=10s", "deployment/coredns"];
    wait::until(Duration::from_secs(90), "the name server", || Ok(wait_for(&named).then_some(())))?;
    let account = ["-n", "default", "get", "serviceaccount", "default"];
    wait::until(Duration::from_secs(30), "the default service account", || Ok(wait_for(&account).then_some(())))?;
    for (component, inner) in &record.components {
        if !node.runs(*inner) {
            bail!("{component} ended right after its start");
        }
    }
    Ok(())
}

/// Namespaces, network, cgroup, keys and files.
fn prepare(record: &mut Record, folder: &Path, holder: &Path) -> Result<Node> {
    for name in ["log", "tmp", "cni", "etcd", "kubelet"] {
        folders::made(folder.join(name))?;
    }
    pki::ensure(&folder.join("pki"), record.addresses)?;
    write_files(record, folder)?;
    if let Some(node) = &record.node {
        return Ok(node.clone());
    }
    cgroup::make(&record.name)?;
    for (path, _) in OWN {
        if !Path::new(path).exists() {
            std::fs::create_dir_all(path)?;
            record.made_folders.push(path.into());
        }
    }
    record.save()?;
    let node = Node::create(holder, &folder.join("log").join("node.log"))?;
    record.node = Some(node.clone());
    record.save()?;
    isolate(&node, folder)?;
    network::connect(&node, record.addresses)?;
    Ok(node)
}

fn write_files(record: &Record, folder: &Path) -> Result<()> {
    let resolvers: Vec<String> = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"]
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .collect();
    let cgroup = cgroup::name(&record.name);
    for (name, text) in [
        ("resolv.conf", configuration::resolvers(&resolvers)),
        ("containerd.toml", configuration::containerd(folder)),
        ("kubelet.json", configuration::kubelet(folder, record.addresses, &cgroup)),
        ("audit-policy.yaml", components::AUDIT_POLICY.to_owned()),
        ("cni/10-bridge.conflist", configuration::pod_network(record.addresses)),
    ] {
        std::fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// Gives the node its own view of the places that programs write to regardless of their configuration.
fn isolate(node: &Node, folder: &Path) -> Result<()> {
    // Volumes with mount propagation need a shared root; it is shared within the node only.
    let mut script = String::from("set -e\nmount --make-rshared /\nmount -t tmpfs -o mode=755 tmpfs /run\n");
    for (path, own) in OWN {
        let source = folders::made(folder.join(own))?;
        script.push_str(&format!("mount --bind '{}' '{path}'\n", source.display()));
    }
    node.inside().args(["sh", "-c", &script]).run().context("cannot mount inside the node").map(|_| ())
}

fn start(record: &mut Record, node: &Node, folder: &Path, component: &Component) -> Result<()> {
    if record.components.get(component.name).is_some_and(|inner| node.runs(*inner)) {
        return Ok(());
    }
    let log = folder.join("log").join(format!("{}.log", component.name));
    let inner = node.start(&component.program, &component.arguments, folder, &log)?;
    record.components.insert(component.name.to_owned(), inner);
    record.save()
}
