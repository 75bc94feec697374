//! The release binary of the agent-server beside the Python reference.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{ratio, yardstick};
use crate::command::Cmd;
use crate::image::rust::{self, Profile};
use crate::test::python;
use crate::{folders, say};

/// Measures ours and, unless `alone`, the reference.
///
/// # Errors
/// The yardstick is missing or a measurement failed.
pub(crate) fn run(alone: bool, turns: u32, conversations: u32, profile: Profile) -> Result<()> {
    let harness = yardstick("bench_server.py")?;
    let folder = rust::build_packages(profile, &["openhands-agent-server"])?;
    let python = say::step("the Python reference (packages, once)", python::reference)?;
    let server = folder.join("openhands-agent-server");
    let out = folders::made(folders::cache()?.join("bench"))?;
    let sizes = ["--turns".to_owned(), turns.to_string(), "--convs".to_owned(), conversations.to_string()];
    let measure = |label: &str, command: String, file: &Path| -> Result<Value> {
        say::line(format!("  ...   measure {label}"));
        let bench = Cmd::new(&python)
            .arg(&harness)
            .args(["--server-cmd", &command, "--label", label, "--json"])
            .arg(file)
            .args(&sizes);
        bench.limit(Duration::from_secs(1800)).shown().run().with_context(|| format!("cannot measure {label}"))?;
        Ok(serde_json::from_slice(&std::fs::read(file)?)?)
    };
    let ours = measure(
        "ours",
        format!("{} --host 127.0.0.1 --port {{port}}", server.display()),
        &out.join("server-ours.json"),
    )?;
    let reference = if alone {
        None
    } else {
        let command = format!("{} -m openhands.agent_server --host 127.0.0.1 --port {{port}}", python.display());
        Some(measure("reference", command, &out.join("server-reference.json"))?)
    };
    say::result(ratio::table(&ours, reference.as_ref()).trim_end());
    say::result(format!("reports: {}", out.display()));
    Ok(())
}
