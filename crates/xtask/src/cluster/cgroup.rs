//! The cgroup below which the kubelet puts a cluster's pods, in every hierarchy that this machine has (one with cgroup v2,
//! one for each controller with v1).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::wait;

const MOUNT: &str = "/sys/fs/cgroup";

/// The cgroup's name for a cluster, as the kubelet writes it.
pub(crate) fn name(cluster: &str) -> String {
    format!("/openhands-{cluster}")
}

/// Makes the cgroup, and hands the controllers down to it with v2.
///
/// # Errors
/// A cgroup cannot be made.
pub(crate) fn make(cluster: &str) -> Result<()> {
    for hierarchy in hierarchies() {
        let controllers = std::fs::read_to_string(hierarchy.join("cgroup.controllers")).unwrap_or_default();
        for controller in controllers.split_whitespace() {
            // A controller that cannot be handed down is missed by the kubelet, which says so by name.
            let _ = std::fs::write(hierarchy.join("cgroup.subtree_control"), format!("+{controller}"));
        }
        let folder = at(&hierarchy, cluster);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make the cgroup {}", folder.display()))?;
        // A v1 cpuset accepts no process before it has cpus and memory nodes.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(value) = std::fs::read_to_string(hierarchy.join(file)) {
                let _ = std::fs::write(folder.join(file), value);
            }
        }
    }
    Ok(())
}

/// Removes the cgroup and all below it. Its processes have to be gone; the kernel may need a moment to notice.
///
/// # Errors
/// A cgroup stays busy.
pub(crate) fn remove(cluster: &str) -> Result<()> {
    for hierarchy in hierarchies() {
        let folder = at(&hierarchy, cluster);
        wait::until(Duration::from_secs(20), &format!("the end of the cgroup {}", folder.display()), || {
            remove_tree(&folder);
            Ok((!folder.exists()).then_some(()))
        })?;
    }
    Ok(())
}

/// Whether something of the cgroup is there.
pub(crate) fn exists(cluster: &str) -> bool {
    hierarchies().iter().any(|hierarchy| at(hierarchy, cluster).exists())
}

fn at(hierarchy: &Path, cluster: &str) -> PathBuf {
    hierarchy.join(name(cluster).trim_start_matches('/'))
}

fn remove_tree(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_tree(&entry.path());
    }
    // Busy ones are tried again by the caller.
    let _ = std::fs::remove_dir(folder);
}

/// Mount points of cgroup hierarchies. Links to a hierarchy count once.
fn hierarchies() -> Vec<PathBuf> {
    let root = PathBuf::from(MOUNT);
    if root.join("cgroup.controllers").exists() {
        return vec![root];
    }
    let entries = std::fs::read_dir(&root).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    entries
        .into_iter()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
