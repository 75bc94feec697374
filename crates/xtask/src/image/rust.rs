//! Builds our binaries static, for this machine's architecture and the GNU C library.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::command::Cmd;
use crate::{folders, say};

/// How our binaries are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Profile {
    /// Small and quick to build: what tests use.
    #[default]
    Quick,
    /// As released.
    Release,
}

impl Profile {
    /// Cargo's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Release => "release",
        }
    }
}

/// The built binaries.
#[derive(Debug)]
pub(crate) struct Binaries {
    /// `openhands-agent-server`.
    pub(crate) server: PathBuf,
    /// `openhands-operator`.
    pub(crate) operator: PathBuf,
}

/// Builds both binaries.
///
/// # Errors
/// The build failed, or a binary turned out not to be static.
pub(crate) fn build(profile: Profile) -> Result<Binaries> {
    let folder = build_packages(profile, &["openhands-agent-server", "openhands-operator"])?;
    let binaries =
        Binaries { server: folder.join("openhands-agent-server"), operator: folder.join("openhands-operator") };
    for binary in [&binaries.server, &binaries.operator] {
        if !binary.exists() {
            bail!("cargo built no {}", binary.display());
        }
    }
    Ok(binaries)
}

/// Builds the named packages static and gives the folder that their binaries lie in.
///
/// # Errors
/// The build failed.
pub(crate) fn build_packages(profile: Profile, packages: &[&str]) -> Result<PathBuf> {
    let chosen: Vec<&str> = packages.iter().flat_map(|package| ["--package", package]).collect();
    build_static(profile, &packages.join(" and "), &chosen)
}

/// Builds an example of a package as binaries are built, and gives its path.
///
/// # Errors
/// The build failed.
pub(crate) fn build_example(profile: Profile, package: &str, name: &str) -> Result<PathBuf> {
    let folder = build_static(profile, name, &["--package", package, "--example", name])?;
    Ok(folder.join("examples").join(name))
}

fn build_static(profile: Profile, name: &str, chosen: &[&str]) -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", target.to_uppercase().replace('-', "_"));
    let log = folders::logs()?.join("images-cargo.log");
    say::step(&format!("build {name}, static, profile {}", profile.name()), || {
        let cargo =
            cargo().args(["build", "--profile", profile.name(), "--target", &target]).args(locked()).args(chosen);
        // With an explicit target the flags reach neither build scripts nor procedural macros.
        cargo.env(flags, "-C target-feature=+crt-static").log(log).limit(Duration::from_secs(3000)).run().map(|_| ())
    })?;
    Ok(target_folder()?.join(target).join(profile.name()))
}

/// Cargo in the checkout, free of what the `cargo run` around this program put into the environment.
pub(crate) fn cargo() -> Cmd {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Cmd::new(program).dir(folders::repository()).limit(Duration::from_secs(3600));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_")
            || text.starts_with("CARGO_MANIFEST_")
            || text == "CARGO_BIN_NAME"
            || text == "CARGO_CRATE_NAME"
        {
            command = command.without_env(&name);
        }
    }
    command
}

/// In CI the lock file must already say everything; while somebody edits manifests it may follow.
pub(crate) fn locked() -> Option<&'static str> {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty()).then_some("--locked")
}

/// Where cargo puts what it builds.
///
/// # Errors
/// Cargo does not tell.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let text = cargo().args(["metadata", "--format-version", "1", "--no-deps"]).args(locked()).run()?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    metadata
        .get("target_directory")
        .and_then(serde_json::Value::as_str)
        .map(PathBuf::from)
        .context("cargo metadata names no target folder")
}
