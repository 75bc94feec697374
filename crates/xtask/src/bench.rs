//! `cargo xtask bench`: figures. Those of model calls have their yardsticks here; those of the server and of claims lie in a
//! folder `shared/bench` beside the checkout.

mod calls;
mod claims;
mod model;
mod ratio;
mod server;
mod streams;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Subcommand;

use crate::folders;
use crate::image::rust::Profile;

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The agent-server beside the Python reference, one after the other in one run, with ratios
    Server {
        /// Only ours; the ratios are left out
        #[arg(long)]
        alone: bool,
        /// Turns of the long conversation
        #[arg(long, default_value_t = 100)]
        turns: u32,
        /// Conversations at once
        #[arg(long, default_value_t = 50)]
        conversations: u32,
        /// How our binary is built
        #[arg(long, value_enum, default_value_t = Profile::Release)]
        profile: Profile,
    },
    /// What a model call costs beside the Python SDK, with ratios
    Calls(calls::Options),
    /// Many streaming calls at once: memory, processor time, and whether every piece arrives
    Streams(streams::Options),
    /// How fast warm claims are served on the development cluster
    Claims(claims::Options),
}

/// Measures.
///
/// # Errors
/// The yardstick is missing or a measurement failed.
pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Server { alone, turns, conversations, profile } => {
            server::run(*alone, *turns, *conversations, *profile)
        }
        Command::Calls(options) => calls::run(options),
        Command::Streams(options) => streams::run(options),
        Command::Claims(options) => claims::run(options),
    }
}

/// A file or folder of the yardsticks.
fn yardstick(name: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("OPENHANDS_BENCH_DIR").map(PathBuf::from);
    let folder = folder.or_else(|| Some(folders::repository().parent()?.join("shared").join("bench")));
    match folder.map(|folder| folder.join(name)).filter(|path| path.exists()) {
        Some(path) => Ok(path),
        None => bail!(
            "{name} is not there: set OPENHANDS_BENCH_DIR to the folder that holds it (by default ../shared/bench beside the checkout)"
        ),
    }
}
