//! The `kubectl` that a user has, against one cluster.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, bail};
use serde_json::Value;

use crate::{command, tier};

/// `kubectl` with its configuration.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// For the cluster of a kubeconfig file.
    ///
    /// # Errors
    /// When kubectl is missing.
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        Ok(Self { program: tier::tool("kubectl")?, kubeconfig: kubeconfig.to_owned() })
    }

    /// The program, for children that live longer than one answer.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Runs kubectl and hands back whatever it answered.
    ///
    /// # Errors
    /// When it does not end within two minutes.
    pub async fn ask(&self, arguments: &[&str], input: &str) -> Result<command::Answer> {
        let variables = [("KUBECONFIG", self.kubeconfig.as_os_str()), ("HOME", OsStr::new("/nonexistent"))];
        command::ask(&self.program, arguments, &variables, input, Duration::from_secs(120)).await
    }

    /// Runs kubectl, which must succeed.
    ///
    /// # Errors
    /// With what it printed when it fails.
    pub async fn run(&self, arguments: &[&str], input: &str) -> Result<String> {
        let answer = self.ask(arguments, input).await?;
        if !answer.success {
            bail!("kubectl {}: {}{}", arguments.join(" "), answer.stdout, answer.stderr);
        }
        Ok(answer.stdout)
    }

    /// Applies objects on the client side, as `kubectl apply -f` does.
    ///
    /// # Errors
    /// With kubectl's message.
    pub async fn apply(&self, objects: &[Value]) -> Result<String> {
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.run(&["apply", "-f", "-"], &list.to_string()).await
    }
}
