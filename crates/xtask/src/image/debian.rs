//! The Debian root below the agent image, made once by mmdebstrap and kept in the cache by what it is made of.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::USER;
use super::layer::{Layer, digest};
use crate::command::Cmd;
use crate::{folders, packages, say};

/// The release.
const SUITE: &str = "bookworm";

/// What an agent finds beside a minimal Debian.
const PACKAGES: &str = "bash,ca-certificates,git,procps,python3,ripgrep,tmux";

/// Kept out of the root: nobody reads them in a pod.
const LEFT_OUT: &[&str] = &["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*"];

/// The root as a layer, made when it is absent (half a minute).
///
/// # Errors
/// mmdebstrap is missing or fails.
pub(crate) fn layer() -> Result<Layer> {
    let recipe = recipe();
    let key: String = digest(recipe.join("\n").as_bytes()).chars().take(12).collect();
    let home = folders::made(folders::cache()?.join(format!("debian-{SUITE}-{key}")))?;
    let file = home.join("root.tar");
    let known = home.join("digest");
    if let (Ok(text), Ok(meta)) = (std::fs::read_to_string(&known), std::fs::metadata(&file)) {
        return Ok(Layer { file, digest: text.trim().to_owned(), size: meta.len() });
    }
    let _lock = folders::lock("debian")?;
    packages::ensure(packages::IMAGES)?;
    let fresh = home.join("fresh.tar");
    say::step(&format!("make the Debian root ({PACKAGES})"), || {
        Cmd::new("mmdebstrap")
            .args(&recipe)
            .args([SUITE.as_ref(), fresh.as_os_str()])
            .env("SOURCE_DATE_EPOCH", "0")
            .limit(Duration::from_secs(900))
            .run()
    })
    .context("mmdebstrap could not make the Debian root")?;
    std::fs::rename(&fresh, &file)?;
    let layer = Layer::of(&file)?;
    std::fs::write(&known, &layer.digest)?;
    Ok(layer)
}

/// The arguments of mmdebstrap before suite and target.
fn recipe() -> Vec<String> {
    let mut arguments: Vec<String> =
        ["--quiet", "--variant=minbase", "--format=tar", "--skip=output/dev"].map(String::from).to_vec();
    arguments.push(format!("--include={PACKAGES}"));
    arguments.push(r#"--aptopt=APT::Install-Recommends "false""#.into());
    arguments.extend(LEFT_OUT.iter().map(|path| format!("--dpkgopt=path-exclude={path}")));
    for command in [
        format!(r#"chroot "$1" groupadd --gid {USER} openhands"#),
        format!(r#"chroot "$1" useradd --uid {USER} --gid {USER} --create-home --shell /bin/bash openhands"#),
        format!(r#"install -d -o {USER} -g {USER} -m 0755 "$1/workspace""#),
        r#"rm -rf "$1"/var/log/* "$1"/var/cache/* "$1"/etc/passwd- "$1"/etc/group- "$1"/etc/shadow- "$1"/etc/gshadow-"#
            .into(),
    ] {
        arguments.push(format!("--customize-hook={command}"));
    }
    arguments
}

/// The bundle of certificate authorities from the root, for images that have nothing else of Debian.
///
/// # Errors
/// The root lacks it.
pub(crate) fn authorities(root: &Layer) -> Result<Vec<u8>> {
    let mut archive = tar::Archive::new(File::open(&root.file)?);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.path()?.ends_with("etc/ssl/certs/ca-certificates.crt") {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            return Ok(bytes);
        }
    }
    anyhow::bail!("{} has no etc/ssl/certs/ca-certificates.crt", root.file.display())
}

/// Where the images' tars are written.
///
/// # Errors
/// The folder cannot be made.
pub(crate) fn output() -> Result<PathBuf> {
    folders::made(folders::cache()?.join("images"))
}
