//! The front door of the repository: `cargo xtask <command>`. It depends on none of our crates, so that it compiles in
//! seconds; what is generated comes from the binaries themselves.

mod bench;
mod cluster;
mod command;
mod demo;
mod edges;
mod folders;
mod generate;
mod go;
mod image;
mod packages;
mod peers;
mod say;
mod test;
mod wait;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use image::rust::Profile;

/// Builds, runs, tests and measures the OpenHands operator.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// From nothing to an agent's finished work in a pod, told step by step
    Demo(demo::Options),
    /// Every check: format, lints, unit tests, control plane, real cluster, Python SDK, other people's model servers
    Test(test::Options),
    /// The quick checks: format, lints, edges, generated files, unit tests, documentation, dependencies
    Ci,
    /// A real Kubernetes on this machine, without Docker and without a registry
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Builds the images and brings them to a cluster
    Images {
        /// How the binaries are built
        #[arg(long, value_enum, default_value_t)]
        profile: Profile,
        /// The development cluster to import them into
        #[arg(long)]
        cluster: Option<String>,
        /// An existing cluster, by a context of your kubeconfig
        #[arg(long, conflicts_with = "cluster")]
        context: Option<String>,
    },
    /// Writes the files that our binaries generate
    Generate {
        /// Only compare, and fail when a file differs
        #[arg(long)]
        check: bool,
    },
    /// Checks the dependencies between crates against docs/ARCHITECTURE.md
    Edges,
    /// Our parts beside other people's: the Python agent-server, LiteLLM's proxy, llama.cpp
    #[command(subcommand)]
    Peers(peers::Command),
    /// Measures, beside the peers where there are some
    #[command(subcommand)]
    Bench(bench::Command),
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::line(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Demo(options) => demo::run(options),
        Command::Test(options) => test::run(options),
        Command::Ci => test::quick(),
        Command::Generate { check } => generate::run(*check),
        Command::Edges => edges::check(),
        Command::Peers(command) => peers::run(command),
        Command::Bench(command) => bench::run(command),
        Command::Cluster(command) => cluster::run(command),
        Command::Images { profile, cluster, context } => {
            let images = image::build::all(*profile)?;
            match (cluster, context) {
                (Some(name), _) => image::deliver::to(&cluster::target::existing(name)?, &images),
                (None, Some(context)) => {
                    image::deliver::to(&cluster::target::Target::Context(context.clone()), &images)
                }
                (None, None) => {
                    image::deliver::tell(&images);
                    Ok(())
                }
            }
        }
    }
}
