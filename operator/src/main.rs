//! Entry point of the operator.

use std::process::ExitCode;

use clap::Parser;
use openhands_operator::cli::{Cli, Command};

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Controller(options) => openhands_operator::run::controller(*options),
        Command::Crds { dir } => openhands_operator::run::crds(dir.as_deref()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            // Without a subscriber yet, such as for a bad flag, the log says nothing.
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("openhands-operator: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}
