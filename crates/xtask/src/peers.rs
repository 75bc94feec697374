//! `cargo xtask peers`: our parts beside other people's, each check on its own. `cargo xtask test` runs them as well.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::command::Cmd;
use crate::image::rust::{Profile, build_packages, cargo, locked};
use crate::say;
use crate::test::python;

/// What stands beside what.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The Python agent-server and ours play the same conversations; their model calls are compared by meaning
    Requests(Requests),
    /// Our model layer before LiteLLM's proxy
    Litellm,
    /// Our model layer before llama.cpp's server
    Llama,
}

/// Which conversations, and where their requests go.
#[derive(Debug, Args)]
pub(crate) struct Requests {
    /// Only those whose name contains this text
    #[arg(long)]
    only: Option<String>,
    /// A folder that gets the requests of both servers, whole and in the form that is compared
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// Runs a check.
///
/// # Errors
/// The set-up or the check failed.
pub(crate) fn run(command: &Command) -> Result<()> {
    let folder = build_packages(Profile::Quick, &["openhands-agent-server"])?;
    let server = folder.join("openhands-agent-server");
    let test = match command {
        Command::Requests(options) => {
            let mut test = requests(&server)?;
            if let Some(only) = &options.only {
                test = test.env("OPENHANDS_REQUESTS_ONLY", only);
            }
            if let Some(keep) = &options.keep {
                test = test.env("OPENHANDS_REQUESTS_DIR", std::path::absolute(keep)?);
            }
            test
        }
        Command::Litellm => litellm(&server)?,
        Command::Llama => llama(&server)?,
    };
    test.shown().run().map(|_| ())
}

/// The test that compares the model calls of both servers.
///
/// # Errors
/// The Python server is not to be had.
pub(crate) fn requests(server: &Path) -> Result<Cmd> {
    let python = say::step("the Python reference (packages, once)", python::reference)?;
    Ok(test("requests", "reference", server).env("OPENHANDS_REFERENCE_PYTHON", python))
}

/// The tests with LiteLLM's proxy.
///
/// # Errors
/// It is not to be had.
pub(crate) fn litellm(server: &Path) -> Result<Cmd> {
    let python = say::step("LiteLLM's proxy (packages, once)", python::litellm)?;
    Ok(test("litellm", "litellm", server).env("OPENHANDS_LITELLM_PYTHON", python))
}

/// The tests with llama.cpp.
///
/// # Errors
/// It is not to be had.
pub(crate) fn llama(server: &Path) -> Result<Cmd> {
    let python = say::step("llama.cpp's server (packages, once)", python::llama)?;
    Ok(test("llama", "llama", server).env("OPENHANDS_LLAMA_PYTHON", python))
}

fn test(target: &str, tier: &str, server: &Path) -> Cmd {
    cargo()
        .args(["test", "--package", "openhands-tests", "--no-fail-fast", "--test", target])
        .args(locked())
        .env("OPENHANDS_TEST_TIER", tier)
        .env("OPENHANDS_AGENT_SERVER_BIN", server)
}

/// Adds the checks to a whole run: those of seconds always, the long one with `full`.
pub(crate) fn check(report: &mut crate::test::report::Report, server: &Path, full: bool) {
    type Make = fn(&Path) -> Result<Cmd>;
    let all: [(&str, Make, bool); 3] = [(LITELLM, litellm, true), (LLAMA, llama, true), (REQUESTS, requests, full)];
    for (name, make, is_wanted) in all {
        if !is_wanted || !report.wants(name) {
            continue;
        }
        match make(server) {
            Ok(command) => report.tests(name, command),
            Err(error) => report.missing(name, &format!("{error:#}")),
        }
    }
}

const LITELLM: &str = "model layer before LiteLLM's proxy";
const LLAMA: &str = "model layer before llama.cpp";
const REQUESTS: &str = "model calls of both servers";
/// The names of the checks, as in a report.
pub(crate) const NAMES: [&str; 3] = [LITELLM, LLAMA, REQUESTS];
