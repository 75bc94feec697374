//! The program that holds a pod's namespaces open, and the image of it.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::layer::{Tree, digest};
use super::layout::{self, Settings};
use crate::command::Cmd;
use crate::folders;

/// The image's name; the cluster's containerd is told to use it for every pod.
pub(crate) const IMAGE: &str = "localhost/pause:dev";

const SOURCE: &str = include_str!("pause.c");

/// The static program, built when it is absent.
///
/// # Errors
/// There is no C compiler that links statically.
pub(crate) fn program() -> Result<PathBuf> {
    let key: String = digest(SOURCE.as_bytes()).chars().take(12).collect();
    let home = folders::made(folders::cache()?.join(format!("pause-{key}")))?;
    let binary = home.join("pause");
    if !binary.exists() {
        let fresh = home.join(format!("fresh-{}", std::process::id()));
        Cmd::new("cc")
            .args(["-static", "-Os", "-s", "-x", "c", "-", "-o"])
            .arg(&fresh)
            .input(SOURCE)
            .run()
            .context("cannot build the pause program; on Debian: apt-get install gcc libc6-dev")?;
        std::fs::rename(&fresh, &binary)?;
    }
    Ok(binary)
}

/// The image as a tar, written when it is absent.
///
/// # Errors
/// As [`program`], or the files cannot be written.
pub(crate) fn image() -> Result<PathBuf> {
    let binary = program()?;
    let file = binary.with_file_name("image.tar");
    if !file.exists() {
        let folder = tempfile::tempdir_in(binary.parent().context("the program lies in a folder")?)?;
        let layer = Tree::default().program("pause", &binary).write(&folder.path().join("layer.tar"))?;
        let settings =
            Settings { entrypoint: vec!["/pause".into()], user: "65535:65535".into(), ..Settings::default() };
        let fresh = folder.path().join("image.tar");
        layout::write(&fresh, IMAGE, &settings, &[layer])?;
        std::fs::rename(&fresh, &file)?;
    }
    Ok(file)
}
