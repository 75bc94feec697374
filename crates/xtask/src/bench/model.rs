//! The programs of measurements that are examples of our crates: how they are built, and the scripted model as a process.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;

use anyhow::{Context, Result};

use crate::command::Cmd;
use crate::folders;
use crate::image::rust::{Profile, cargo, locked, target_folder};
use crate::say;

/// Builds an example and gives its path.
///
/// # Errors
/// The build failed.
pub(super) fn example(package: &str, name: &str, profile: Profile) -> Result<PathBuf> {
    say::step(&format!("build {name}, profile {}", profile.name()), || {
        let command = cargo().args(["build", "--profile", profile.name(), "--package", package, "--example", name]);
        command.args(locked()).log(folders::logs()?.join(format!("bench-{name}.log"))).run().map(|_| ())
    })?;
    Ok(target_folder()?.join(profile.name()).join("examples").join(name))
}

/// A model in a process of its own; ends when it is dropped.
pub(super) struct Model {
    /// Its address.
    pub(super) url: String,
    process: Child,
}

impl Model {
    /// Starts it.
    ///
    /// # Errors
    /// It tells no address.
    pub(super) fn start(program: &Path) -> Result<Self> {
        let mut process = Cmd::new(program).spawn()?;
        let output = process.stdout.take().context("the model's output")?;
        let mut url = String::new();
        BufReader::new(output).read_line(&mut url)?;
        Ok(Self { url: url.trim().to_owned(), process })
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // It is gone already when this fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How busy the machine is, beside every figure: runnable processes over the last minute.
pub(super) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
