//! `cargo xtask test` and `cargo xtask ci`: every check in order, each timed, all of them run even when one fails.

mod checks;
mod count;
pub(crate) mod python;
pub(crate) mod report;
mod tools;
mod whole;

use anyhow::Result;
use clap::Args;

use crate::say;
use report::Report;

/// How much is run.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Also what takes longer than the default tier's hour
    #[arg(long)]
    full: bool,
    /// Leave the development cluster running afterwards
    #[arg(long)]
    keep: bool,
    /// Run only the parts whose name contains this text; may be given several times
    #[arg(long)]
    only: Vec<String>,
}

/// Set-up, then every check, the whole system included.
///
/// # Errors
/// A check failed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut report = Report::new(options.only.clone());
    checks::run(&mut report);
    whole::run(&mut report, options.full, options.keep);
    report.finish()
}

/// The quick checks: no cluster, no Python, no network beyond cargo's.
///
/// # Errors
/// A check failed.
pub(crate) fn quick() -> Result<()> {
    let mut report = Report::new(Vec::new());
    checks::run(&mut report);
    say::line("  note  advisories are left out here; `cargo deny check advisories` asks for them");
    report.finish()
}
