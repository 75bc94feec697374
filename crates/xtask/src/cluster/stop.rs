//! Taking a cluster down so that nothing of it is left: processes, cgroups, interfaces, tables, folders.

use std::time::Duration;

use anyhow::{Context, Result};

use super::record::Record;
use super::{cgroup, network};
use crate::{folders, say, wait};

/// Stops the cluster called `name`.
///
/// # Errors
/// Something of it could not be removed.
pub(crate) fn down(name: &str) -> Result<()> {
    let _lock = folders::lock(&format!("cluster-{name}"))?;
    if !folders::clusters()?.join(name).exists() && !cgroup::exists(name) {
        say::line(format!("  ok    cluster {name} does not exist"));
        return Ok(());
    }
    say::step(&format!("stop cluster {name}"), || remove(name))
}

/// As [`down`], for a caller that holds the cluster's lock.
///
/// # Errors
/// Something of it could not be removed.
pub(crate) fn remove(name: &str) -> Result<()> {
    let folder = folders::clusters()?.join(name);
    let record = Record::load(name).ok().flatten();
    if let Some(node) = record.as_ref().and_then(|record| record.node.as_ref()) {
        node.end()?;
    }
    cgroup::remove(name)?;
    if let Some(record) = &record {
        let others: Vec<Record> = Record::all()?.into_iter().filter(|other| other.name != name).collect();
        network::disconnect(record.addresses, &others)?;
        if others.is_empty() {
            for path in record.made_folders.iter().rev() {
                // Only ours and only when nobody else has put something there.
                let _ = std::fs::remove_dir(path);
            }
        } else {
            hand_over(record, others)?;
        }
    }
    // The kernel unmounts what the node had mounted shortly after its last process.
    wait::until(Duration::from_secs(20), &format!("the end of {}", folder.display()), || match std::fs::remove_dir_all(
        &folder,
    ) {
        Ok(()) => Ok(Some(())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Some(())),
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot remove {}", folder.display())),
    })
}

/// Folders that this cluster made and others use are removed with the last of them.
fn hand_over(record: &Record, others: Vec<Record>) -> Result<()> {
    if let Some(mut heir) = others.into_iter().next() {
        for path in &record.made_folders {
            if !heir.made_folders.contains(path) {
                heir.made_folders.push(path.clone());
            }
        }
        heir.save()?;
    }
    Ok(())
}
