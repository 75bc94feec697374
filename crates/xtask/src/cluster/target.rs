//! The way to a cluster, whoever runs it: how kubectl and helm are called, and how images get there.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use super::kind;
use super::record::Record;
use crate::command::{Cmd, find};
use crate::go;

/// A cluster that commands can be sent to.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// One of our own.
    Own(Box<Record>),
    /// One of kind's.
    Kind {
        /// Its name in kind.
        name: String,
        /// The administrator's kubeconfig.
        kubeconfig: PathBuf,
    },
    /// Somebody else's, by a context of the user's kubeconfig.
    Context(String),
}

/// The existing development cluster called `name`.
///
/// # Errors
/// There is none.
pub(crate) fn existing(name: &str) -> Result<Target> {
    if let Some(record) = Record::load(name)? {
        return Ok(Target::Own(Box::new(record)));
    }
    if kind::exists(name) {
        return kind::target(name);
    }
    bail!("there is no cluster {name}; start it with: cargo xtask cluster up --name {name}")
}

impl Target {
    /// `kubectl` at this cluster.
    ///
    /// # Errors
    /// There is no kubectl.
    pub(crate) fn kubectl(&self) -> Result<Cmd> {
        self.aimed("kubectl", "--context")
    }

    /// `helm` at this cluster.
    ///
    /// # Errors
    /// There is no helm.
    pub(crate) fn helm(&self) -> Result<Cmd> {
        self.aimed("helm", "--kube-context")
    }

    fn aimed(&self, program: &str, context_flag: &str) -> Result<Cmd> {
        let command = Cmd::new(self.program(program)?).limit(Duration::from_secs(120));
        Ok(match self {
            Self::Own(record) => command.arg("--kubeconfig").arg(record.kubeconfig()?),
            Self::Kind { kubeconfig, .. } => command.arg("--kubeconfig").arg(kubeconfig),
            Self::Context(name) => command.args([context_flag, name]),
        })
    }

    /// Somebody else's cluster is met with the user's own programs where there are some: they match its version.
    fn program(&self, name: &str) -> Result<PathBuf> {
        match self {
            Self::Own(_) => Ok(go::programs()?.join(name)),
            Self::Kind { .. } | Self::Context(_) => match find(name) {
                Some(path) => Ok(path),
                None => Ok(go::programs()?.join(name)),
            },
        }
    }

    /// The kubeconfig file, when the target has one of its own.
    ///
    /// # Errors
    /// There is no cache folder.
    pub(crate) fn kubeconfig(&self) -> Result<Option<PathBuf>> {
        Ok(match self {
            Self::Own(record) => Some(record.kubeconfig()?),
            Self::Kind { kubeconfig, .. } => Some(kubeconfig.clone()),
            Self::Context(_) => None,
        })
    }
}
