//! What lies in each of our images.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::layer::{Layer, Tree};
use super::layout::{self, Settings};
use super::rust::{self, Profile};
use super::{AGENT, OPERATOR, STATIC, USER, debian};
use crate::say;

/// An image on disk.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    /// Its name with the tag.
    pub(crate) name: String,
    /// The tar.
    pub(crate) file: PathBuf,
    /// The manifest's digest, `sha256:...`.
    pub(crate) digest: String,
}

/// Where the server lies in every image.
const SERVER: &str = "usr/local/bin/openhands-agent-server";

/// Builds the binaries and writes the three images.
///
/// # Errors
/// A build failed or a file cannot be written.
pub(crate) fn all(profile: Profile) -> Result<Vec<Image>> {
    let root = debian::layer()?;
    let binaries = rust::build(profile)?;
    let out = debian::output()?;
    say::step("pack the images", || {
        let server = Tree::default().program(SERVER, &binaries.server).write(&out.join("server.layer"))?;
        let operator =
            operator_tree(&binaries.operator, debian::authorities(&root)?).write(&out.join("operator.layer"))?;
        let bare = Tree::default().folder("tmp", 0o1777, 0).write(&out.join("bare.layer"))?;
        Ok(vec![
            image(&out.join("openhands-operator.tar"), OPERATOR, &operator_settings(), &[operator])?,
            image(
                &out.join("openhands-agent-server-static.tar"),
                STATIC,
                &server_settings("/", "/tmp"),
                &[bare, server.clone()],
            )?,
            image(
                &out.join("openhands-agent-server.tar"),
                AGENT,
                &server_settings("/home/openhands", "/home/openhands"),
                &[root, server],
            )?,
        ])
    })
}

fn image(file: &Path, name: &str, settings: &Settings, layers: &[Layer]) -> Result<Image> {
    let digest = layout::write(file, name, settings, layers)?;
    Ok(Image { name: name.to_owned(), file: file.to_owned(), digest })
}

/// The operator needs its binary, a user and the authorities; nothing else is there to be attacked.
fn operator_tree(binary: &Path, authorities: Vec<u8>) -> Tree {
    Tree::default()
        .folder("etc", 0o755, 0)
        .text(
            "etc/passwd",
            0o644,
            format!("root:x:0:0:root:/:/nologin\nopenhands:x:{USER}:{USER}:openhands:/:/nologin\n"),
        )
        .text("etc/group", 0o644, format!("root:x:0:\nopenhands:x:{USER}:\n"))
        .folder("etc/ssl", 0o755, 0)
        .folder("etc/ssl/certs", 0o755, 0)
        .text("etc/ssl/certs/ca-certificates.crt", 0o644, authorities)
        .folder("tmp", 0o1777, 0)
        .program("usr/local/bin/openhands-operator", binary)
}

fn operator_settings() -> Settings {
    Settings {
        entrypoint: vec!["/usr/local/bin/openhands-operator".into()],
        command: vec!["controller".into()],
        environment: vec!["PATH=/usr/local/bin".into()],
        user: format!("{USER}:{USER}"),
        folder: "/".into(),
        ports: vec![],
    }
}

fn server_settings(folder: &str, home: &str) -> Settings {
    Settings {
        entrypoint: vec!["/usr/local/bin/openhands-agent-server".into()],
        command: ["--host", "0.0.0.0", "--port", "8000"].map(String::from).to_vec(),
        environment: vec![
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into(),
            "LANG=C.UTF-8".into(),
            format!("HOME={home}"),
        ],
        user: format!("{USER}:{USER}"),
        folder: folder.into(),
        ports: vec![8000],
    }
}
