//! The same development cluster by kind, where Docker runs.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::target::Target;
use crate::command::{Cmd, find};
use crate::{folders, say};

/// Whether kind is installed and Docker answers.
pub(crate) fn usable() -> bool {
    find("kind").is_some() && Cmd::new("docker").arg("info").limit(Duration::from_secs(20)).succeeds()
}

/// Whether kind has a cluster called `name`.
pub(crate) fn exists(name: &str) -> bool {
    usable()
        && Cmd::new("kind")
            .args(["get", "clusters"])
            .run()
            .is_ok_and(|text| text.lines().any(|line| line.trim() == name))
}

/// Starts it when it is absent.
///
/// # Errors
/// Docker or kind is missing, or kind failed.
pub(crate) fn up(name: &str) -> Result<Target> {
    if !usable() {
        bail!("kind needs Docker: start Docker and install kind (https://kind.sigs.k8s.io), or leave --provider out");
    }
    if !exists(name) {
        say::step(&format!("kind creates cluster {name}"), || {
            Cmd::new("kind")
                .args(["create", "cluster", "--wait", "120s", "--name", name])
                .limit(Duration::from_secs(900))
                .run()
        })?;
    }
    target(name)
}

/// The way to it.
///
/// # Errors
/// kind does not know it.
pub(crate) fn target(name: &str) -> Result<Target> {
    let text =
        Cmd::new("kind").args(["get", "kubeconfig", "--name", name]).run().context("kind does not know the cluster")?;
    let kubeconfig = folders::made(folders::cache()?.join("kind"))?.join(format!("{name}.kubeconfig"));
    std::fs::write(&kubeconfig, text)?;
    Ok(Target::Kind { name: name.to_owned(), kubeconfig })
}

/// Removes it.
///
/// # Errors
/// kind failed.
pub(crate) fn down(name: &str) -> Result<()> {
    say::step(&format!("kind deletes cluster {name}"), || {
        Cmd::new("kind").args(["delete", "cluster", "--name", name]).run()
    })?;
    let _ = std::fs::remove_file(folders::cache()?.join("kind").join(format!("{name}.kubeconfig")));
    Ok(())
}
