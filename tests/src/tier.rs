//! Which checks run: a tier that was not asked for is skipped with a printed reason, one that was asked for fails when a part
//! of its equipment is missing.
//!
//! `OPENHANDS_TEST_TIER` is a list with commas of `chart`, `control-plane`, `sdk`, `cluster`, `litellm`, `llama`, `reference`, or
//! `all`. Unset, as with a plain
//! `cargo test` on a laptop, nothing is asked for. `cargo xtask test` sets it.

use std::{
    env,
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail};

/// The variable that asks for tiers.
pub const VARIABLE: &str = "OPENHANDS_TEST_TIER";
/// The variable with the folder of etcd, kube-apiserver, kube-controller-manager and helm.
pub const KUBE_BIN: &str = "OPENHANDS_KUBE_BIN";

/// A group of checks that needs the same equipment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The chart as text; needs helm.
    Chart,
    /// Resources and operator on etcd and an API server; needs those two and the operator's binary.
    ControlPlane,
    /// The Python SDK against the agent-server; needs a Python with the SDK and the server's binary.
    Sdk,
    /// LiteLLM's proxy as a model server; needs a Python that has it.
    Litellm,
    /// llama.cpp as a model server; needs a Python that has it.
    Llama,
    /// The Python agent-server beside ours; needs a Python that has it and our binary.
    Reference,
    /// A cluster with nodes and our images; needs `KUBECONFIG`, kubectl and helm.
    Cluster,
}

impl Tier {
    const fn name(self) -> &'static str {
        match self {
            Self::Chart => "chart",
            Self::ControlPlane => "control-plane",
            Self::Sdk => "sdk",
            Self::Litellm => "litellm",
            Self::Llama => "llama",
            Self::Reference => "reference",
            Self::Cluster => "cluster",
        }
    }

    /// Whether this tier was asked for; says why not.
    #[must_use]
    pub fn wanted(self) -> bool {
        let asked = env::var(VARIABLE).unwrap_or_default();
        let wanted = asked.split(',').map(str::trim).any(|word| word == self.name() || word == "all");
        if !wanted {
            let name = self.name();
            // Past the capture of passed tests: a skipped check must be seen.
            let _ = writeln!(
                io::stderr(),
                "skipped: tier {name} was not asked for ({VARIABLE}={asked:?}); `cargo xtask test` runs it"
            );
        }
        wanted
    }
}

/// Ends the test early, as passed, unless the tier was asked for.
#[macro_export]
macro_rules! needs {
    ($tier:ident) => {
        if !$crate::tier::Tier::$tier.wanted() {
            return Ok(());
        }
    };
}

/// The path of a Kubernetes tool: in the folder named by `OPENHANDS_KUBE_BIN`, else on `PATH`.
///
/// # Errors
/// When it is in neither; says how to get it.
pub fn tool(name: &str) -> Result<PathBuf> {
    let given = env::var_os(KUBE_BIN).map(PathBuf::from);
    let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let Some(found) = given.iter().chain(&on_path).map(|folder| folder.join(name)).find(|file| file.is_file()) else {
        bail!(
            "{name} is neither in {KUBE_BIN} ({given:?}) nor on PATH: run the checks with `cargo xtask test`, which builds it"
        );
    };
    Ok(found)
}

/// The path of a binary of this workspace: the variable's value, else beside the running test in the target folder.
///
/// # Errors
/// When it was not built; says how to build it.
pub fn built(package: &str, variable: &str) -> Result<PathBuf> {
    let file = match env::var_os(variable) {
        Some(given) => PathBuf::from(given),
        None => {
            let test = env::current_exe().context("the path of this test")?;
            let profile = test.ancestors().nth(2).context("the target folder of this test")?;
            profile.join(package)
        }
    };
    if !file.is_file() {
        bail!("{} is missing: `cargo build -p {package}`, or set {variable}", file.display());
    }
    Ok(file)
}

/// The interpreter that a variable names.
///
/// # Errors
/// When the variable is not set; says what sets it.
pub fn python(variable: &str) -> Result<PathBuf> {
    let given = env::var_os(variable).with_context(|| {
        format!("{variable} is not set: `cargo xtask test` makes the Python environment and sets it")
    })?;
    Ok(PathBuf::from(given))
}

/// The top folder of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
