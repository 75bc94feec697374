//! Where things lie: the checkout, and everything that is built or kept outside it. Knows nothing of their content.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The root of the checkout.
pub(crate) fn repository() -> PathBuf {
    let crate_folder =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    crate_folder.ancestors().nth(2).map_or(crate_folder.clone(), Path::to_owned)
}

/// The cache outside the checkout: `$XDG_CACHE_HOME` or `~/.cache`, then `openhands-operator`. Everything in it can be
/// rebuilt; whoever wants the space back may delete it while no cluster runs.
///
/// # Errors
/// Neither variable is set, or the folder cannot be made.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set; set one to a folder that can be written")?;
    made(base.join("openhands-operator"))
}

/// The state folders of development clusters, one below it for each.
///
/// # Errors
/// As [`cache`].
pub(crate) fn clusters() -> Result<PathBuf> {
    made(cache()?.join("clusters"))
}

/// The logs of long steps.
///
/// # Errors
/// As [`cache`].
pub(crate) fn logs() -> Result<PathBuf> {
    made(cache()?.join("logs"))
}

/// The folder, made when it is absent.
///
/// # Errors
/// It cannot be made.
pub(crate) fn made(folder: PathBuf) -> Result<PathBuf> {
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// A lock on `name` in the cache, held until the value is dropped, so that two runs do not build the same thing.
///
/// # Errors
/// The lock file cannot be opened or locked.
pub(crate) fn lock(name: &str) -> Result<std::fs::File> {
    let path = made(cache()?.join("locks"))?.join(name);
    let file =
        std::fs::File::options().create(true).append(true).open(&path).with_context(|| path.display().to_string())?;
    if file.try_lock().is_err() {
        crate::say::line(format!("  ...   waiting for another run that holds {}", path.display()));
        file.lock()?;
    }
    Ok(file)
}

/// A turn with the cluster that a command keeps for itself: a second run of the command waits until the first has taken it
/// down.
///
/// # Errors
/// As [`lock`].
pub(crate) fn turn(cluster: &str) -> Result<std::fs::File> {
    lock(&format!("turn-{cluster}"))
}
