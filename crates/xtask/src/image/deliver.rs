//! Brings images to where a cluster's nodes find them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::build::Image;
use crate::cluster::record::Record;
use crate::cluster::target::Target;
use crate::command::Cmd;
use crate::say;

/// Makes every image known to the cluster. An existing cluster by context has a registry of its own: the tars are named.
///
/// # Errors
/// An import failed.
pub(crate) fn to(target: &Target, images: &[Image]) -> Result<()> {
    match target {
        Target::Own(record) => {
            let mut record = Record::clone(record);
            say::step("import the images", || {
                for image in images {
                    import_digest(
                        &record.containerd()?,
                        &image.name,
                        &image.file,
                        image.digest.clone(),
                        &mut record.images,
                    )?;
                }
                record.save()
            })
        }
        Target::Kind { name, .. } => say::step("load the images into kind", || {
            for image in images {
                let command = Cmd::new("kind").args(["load", "image-archive", "--name", name]).arg(&image.file);
                command.limit(Duration::from_secs(600)).run()?;
            }
            Ok(())
        }),
        Target::Context(name) => {
            say::line(format!(
                "  note  the nodes behind context {name} must be able to pull these images; the tars can be loaded and pushed:"
            ));
            tell(images);
            Ok(())
        }
    }
}

/// Tells where the tars lie.
pub(crate) fn tell(images: &[Image]) {
    for image in images {
        say::result(format!("docker load --input {}   # {}", image.file.display(), image.name));
    }
}

/// `ctr` at a containerd of ours, in the namespace that the kubelet sees.
pub(crate) fn ctr(socket: &Path) -> Cmd {
    Cmd::new("ctr").arg("--address").arg(socket).args(["--namespace", "k8s.io"]).limit(Duration::from_secs(300))
}

/// Imports a tar unless `known` says that the same one is already there.
///
/// # Errors
/// containerd refuses it.
pub(crate) fn import(socket: &Path, name: &str, file: &Path, known: &mut BTreeMap<String, String>) -> Result<()> {
    let meta = std::fs::metadata(file)?;
    // Cheap to ask and changed by every rewrite; the content itself is only hashed by containerd.
    let stamp = format!("{}-{:?}", meta.len(), meta.modified()?);
    import_digest(socket, name, file, stamp, known)
}

fn import_digest(
    socket: &Path,
    name: &str,
    file: &Path,
    digest: String,
    known: &mut BTreeMap<String, String>,
) -> Result<()> {
    if known.get(name) == Some(&digest) {
        return Ok(());
    }
    ctr(socket).args(["images", "import"]).arg(file).run().with_context(|| format!("cannot import {name}"))?;
    known.insert(name.to_owned(), digest);
    Ok(())
}
