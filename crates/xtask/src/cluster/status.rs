//! What a person or a shell asks about a cluster.

use anyhow::Result;

use super::record::Record;
use super::target::Target;
use super::{configuration, kind, network, target};
use crate::{go, say};

/// Shows the components and the nodes of the cluster called `name`.
///
/// # Errors
/// There is no such cluster, or it does not answer.
pub(crate) fn show(name: &str) -> Result<()> {
    let target = target::existing(name)?;
    if let Target::Own(record) = &target {
        describe(record)?;
    } else if kind::exists(name) {
        say::result(format!("cluster {name}, by kind"));
    }
    say::result(target.kubectl()?.args(["get", "nodes,pods", "--all-namespaces", "-o", "wide"]).run()?.trim_end());
    Ok(())
}

fn describe(record: &Record) -> Result<()> {
    let addresses = record.addresses;
    say::result(format!("cluster {}: Kubernetes {}", record.name, go::KUBERNETES));
    say::result(format!("state folder  {}", record.folder()?.display()));
    say::result(format!("API server    {}", addresses.server()));
    say::result(format!(
        "pods          {}   services {}   name server {}",
        addresses.pods(),
        addresses.services(),
        addresses.dns_service()
    ));
    let interface = if network::exists(addresses) { "" } else { " (absent)" };
    say::result(format!(
        "this machine  {} on {}{interface}   node {} ({})",
        addresses.machine(),
        addresses.interface(),
        configuration::NODE,
        addresses.node()
    ));
    let Some(node) = record.node.as_ref().filter(|node| node.alive()) else {
        say::result("the node does not run; `cargo xtask cluster up` starts it again from nothing");
        return Ok(());
    };
    for (name, inner) in &record.components {
        match node.outer(*inner).filter(|_| node.runs(*inner)) {
            Some(pid) => say::result(format!("  {name:<24} pid {pid}")),
            None => say::result(format!("  {name:<24} does not run; `cargo xtask cluster up` starts it")),
        }
    }
    Ok(())
}

/// Prints shell lines.
///
/// # Errors
/// The programs cannot be built.
pub(crate) fn environment(target: &Target) -> Result<()> {
    for (name, value) in variables(target)? {
        say::result(format!("export {name}='{value}'"));
    }
    say::result(format!("export PATH='{}':\"$PATH\"", go::programs()?.display()));
    Ok(())
}

/// What programs need to find the cluster.
///
/// # Errors
/// The programs cannot be built.
pub(crate) fn variables(target: &Target) -> Result<Vec<(&'static str, String)>> {
    let mut variables = vec![("OPENHANDS_KUBE_BIN", go::programs()?.display().to_string())];
    if let Some(file) = target.kubeconfig()? {
        variables.push(("KUBECONFIG", file.display().to_string()));
    }
    if let Target::Own(record) = target {
        variables.push(("OPENHANDS_HOST_ADDRESS", record.addresses.machine()));
        variables.push(("OPENHANDS_CONTAINERD", record.containerd()?.display().to_string()));
        variables.push(("OPENHANDS_ETCD_METRICS", format!("http://{}:2381/metrics", record.addresses.node())));
        variables.push(("OPENHANDS_AUDIT_LOG", record.folder()?.join("audit.log").display().to_string()));
        if let Some(node) = &record.node {
            for (variable, component) in [("OPENHANDS_APISERVER_PID", "kube-apiserver"), ("OPENHANDS_ETCD_PID", "etcd")]
            {
                if let Some(pid) = record.components.get(component).and_then(|inner| node.outer(*inner)) {
                    variables.push((variable, pid.to_string()));
                }
            }
        }
    }
    Ok(variables)
}
