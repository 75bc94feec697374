//! A real Kubernetes on this machine: one node made of namespaces, without Docker and without a registry. Each cluster
//! has its own network, mount and process namespaces, so several live side by side and taking one down leaves nothing.

mod addresses;
mod cgroup;
mod components;
mod configuration;
mod dns;
mod kind;
mod network;
mod node;
mod pki;
pub(crate) mod record;
mod start;
pub(crate) mod status;
mod stop;
pub(crate) mod target;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};

/// `cargo xtask cluster ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Starts the cluster, or repairs a running one (about ten seconds once its programs are built)
    Up(Up),
    /// Stops the cluster and removes everything it made
    Down(Name),
    /// Shows what runs
    Status(Name),
    /// Prints shell lines that point kubectl, helm and the tests at the cluster: eval "$(cargo xtask cluster env)"
    Env(Name),
}

/// Which cluster.
#[derive(Debug, Clone, Args)]
pub(crate) struct Name {
    /// The cluster's name
    #[arg(long, default_value = "dev", value_parser = name)]
    pub(crate) name: String,
}

/// How to start one.
#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    name: Name,
    /// Who runs the node
    #[arg(long, value_enum, default_value_t)]
    provider: Provider,
}

/// Who runs the node of a development cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Provider {
    /// kind where Docker runs and kind is installed, else our own
    #[default]
    Auto,
    /// Namespaces of this machine (root, Linux)
    Own,
    /// kind in Docker
    Kind,
}

/// Does what the command says.
///
/// # Errors
/// The cluster cannot be reached, started or stopped.
pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Up(up) => ensure(&up.name.name, up.provider).map(|_| ()),
        Command::Down(name) => down(&name.name),
        Command::Status(name) => status::show(&name.name),
        Command::Env(name) => status::environment(&target::existing(&name.name)?),
    }
}

/// Starts or repairs the cluster called `name` and gives the way to it.
///
/// # Errors
/// It cannot be started here.
pub(crate) fn ensure(name: &str, provider: Provider) -> Result<target::Target> {
    let provider = match provider {
        Provider::Auto if record::Record::load(name)?.is_some() => Provider::Own,
        Provider::Auto if kind::usable() => Provider::Kind,
        other => other,
    };
    match provider {
        Provider::Kind => kind::up(name),
        Provider::Auto | Provider::Own => start::up(name),
    }
}

/// Stops the cluster called `name`; one that does not exist is as good as stopped.
///
/// # Errors
/// Something of it could not be removed; the message says what.
pub(crate) fn down(name: &str) -> Result<()> {
    if record::Record::load(name)?.is_none() && kind::exists(name) {
        return kind::down(name);
    }
    stop::down(name)
}

/// Names end up in interface, cgroup and table names.
fn name(text: &str) -> Result<String> {
    let fits = text.len() <= 20 && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !fits || text.is_empty() || text.starts_with('-') {
        bail!("a cluster's name has 1 to 20 lower-case letters, digits and '-', and starts with no '-'");
    }
    Ok(text.to_owned())
}
