//! The model of measurements: an example of the testkit, as a process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Child;

use anyhow::{Context, Result};

use crate::command::Cmd;

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
