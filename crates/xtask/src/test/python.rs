//! Python environments in the cache: the unmodified SDK that drives the server, and tools that come as wheels.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command::{Cmd, find};
use crate::folders;

/// The client that must not notice a difference.
const SDK: &str = "1.58.2";
/// The model proxy, at the version that the SDK above calls models with.
const LITELLM: &str = "1.105.7";
/// llama.cpp with its server, as a wheel that needs no compiler, and what makes a model for it.
const LLAMA: [&str; 2] = ["xllamacpp==2026.10.11549", "gguf==0.19.0"];
/// The oldest Python that the SDK runs on.
const OLDEST: (u32, u32) = (3, 12);

/// The Python of an environment with the SDK and what its tests need, made when it is absent.
///
/// # Errors
/// There is no new enough Python, or the packages cannot be had.
pub(crate) fn sdk() -> Result<PathBuf> {
    let home = folders::cache()?.join(format!("python-sdk-{SDK}"));
    let packages = ["openhands-sdk", "openhands-tools", "openhands-workspace"].map(|name| format!("{name}=={SDK}"));
    environment(&home, &packages.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The Python of an environment with the reference server.
///
/// # Errors
/// As [`sdk`].
pub(crate) fn reference() -> Result<PathBuf> {
    let home = folders::cache()?.join(format!("python-reference-{SDK}"));
    let names = ["openhands-agent-server", "openhands-sdk", "openhands-tools", "openhands-workspace"];
    let packages = names.map(|name| format!("{name}=={SDK}"));
    environment(&home, &packages.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The Python of an environment with LiteLLM's proxy.
///
/// # Errors
/// As [`sdk`].
pub(crate) fn litellm() -> Result<PathBuf> {
    let home = folders::cache()?.join(format!("python-litellm-proxy-{LITELLM}"));
    environment(&home, &[&format!("litellm[proxy]=={LITELLM}")])
}

/// The Python of an environment with llama.cpp's server.
///
/// # Errors
/// As [`sdk`].
pub(crate) fn llama() -> Result<PathBuf> {
    let [server, _] = LLAMA;
    let home = folders::cache()?.join(format!("python-llama-{}", server.rsplit('=').next().unwrap_or(server)));
    environment(&home, &LLAMA)
}

/// The Python of a virtual environment at `home` that has `packages`; made anew unless it was finished before.
///
/// # Errors
/// As [`sdk`].
pub(crate) fn environment(home: &Path, packages: &[&str]) -> Result<PathBuf> {
    let python = home.join("bin").join("python");
    let done = home.join("complete");
    if done.exists() && python.exists() {
        return Ok(python);
    }
    let _lock = folders::lock("python")?;
    let base = newest()?;
    let _ = std::fs::remove_dir_all(home);
    Cmd::new(&base)
        .args(["-m", "venv"])
        .arg(home)
        .run()
        .context("cannot make a virtual environment; on Debian: apt-get install python3-venv")?;
    let pip = Cmd::new(&python).args(["-m", "pip", "install", "--quiet", "--no-input"]).args(packages);
    pip.limit(Duration::from_secs(1200)).run()?;
    std::fs::write(done, packages.join("\n"))?;
    Ok(python)
}

/// The newest Python of this machine that is new enough.
fn newest() -> Result<PathBuf> {
    let named = (OLDEST.1..OLDEST.1 + 4).rev().filter_map(|minor| find(&format!("python3.{minor}")));
    let home = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let managed = home.and_then(|home| std::fs::read_dir(home.join("versions")).ok()).into_iter().flatten().flatten();
    let managed = managed.map(|entry| entry.path().join("bin").join("python3"));
    let mut found: Vec<((u32, u32), PathBuf)> = named
        .chain(find("python3"))
        .chain(managed)
        .filter_map(|path| Some((version(&path)?, path)))
        .filter(|(version, _)| *version >= OLDEST)
        .collect();
    // What is newest may be too new for a package with compiled parts: the oldest that serves is the safest.
    found.sort();
    match found.into_iter().next() {
        Some((_, path)) => Ok(path),
        None => bail!(
            "no Python {}.{} or newer: install one (on Debian 13: apt-get install python3 python3-venv; elsewhere pyenv or python.org) and put it on PATH",
            OLDEST.0,
            OLDEST.1
        ),
    }
}

/// The version that an interpreter tells. A shim of a version manager that cannot choose tells none.
fn version(python: &Path) -> Option<(u32, u32)> {
    let text = Cmd::new(python)
        .args(["-c", "import sys; print(sys.version_info[0], sys.version_info[1])"])
        .limit(Duration::from_secs(20))
        .run()
        .ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_tells_its_version() {
        if let Some(python) = find("python3") {
            assert!(version(&python).is_none_or(|version| version >= (3, 0)));
        }
        assert_eq!(version(Path::new("/no/such/python")), None);
    }
}
