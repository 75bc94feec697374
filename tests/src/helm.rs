//! The `helm` that a user has, on the chart of this repository.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, bail};

use crate::{command, tier};

/// The oldest Kubernetes that the chart supports. A helm built from source does not know which one it renders for.
pub const KUBERNETES: &str = "1.34.0";

/// The folder of the chart.
#[must_use]
pub fn chart() -> PathBuf {
    tier::repository().join("charts/openhands-operator")
}

/// Runs helm; its own files go to `home`.
///
/// # Errors
/// When helm is missing or does not end within five minutes.
pub async fn ask(home: &Path, kubeconfig: Option<&Path>, arguments: &[&str], input: &str) -> Result<command::Answer> {
    let program = tier::tool("helm")?;
    let config = kubeconfig.map_or(OsStr::new("/nonexistent"), Path::as_os_str);
    let variables = [("HOME", home.as_os_str()), ("KUBECONFIG", config)];
    command::ask(&program, arguments, &variables, input, Duration::from_secs(300)).await
}

/// Runs helm, which must succeed.
///
/// # Errors
/// With what it printed when it fails.
pub async fn run(home: &Path, kubeconfig: Option<&Path>, arguments: &[&str], input: &str) -> Result<String> {
    let answer = ask(home, kubeconfig, arguments, input).await?;
    if !answer.success {
        bail!("helm {}: {}{}", arguments.join(" "), answer.stdout, answer.stderr);
    }
    Ok(answer.stdout)
}
