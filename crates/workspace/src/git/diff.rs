//! Both whole texts of one file.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use openhands_protocol::git::GitDiff;

use super::{
    GitError,
    base::{self, Purpose},
    command::Git,
};
use crate::environment::ToolEnvironment;

/// Most bytes of a file on either side.
pub const MAX_DIFF_BYTES: u64 = 1024 * 1024;

/// A file in its repository.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) path: PathBuf,
    pub(super) root: PathBuf,
    /// Path below the root.
    pub(super) relative: String,
}

/// Finds the repository of a file, which need not exist any more.
///
/// # Errors
/// When no directory above it is a repository.
pub(super) fn locate(path: &Path) -> Result<Located, GitError> {
    let path = resolve(path);
    let root = path.ancestors().find(|ancestor| ancestor.join(".git").exists());
    let Some(root) = root.map(Path::to_owned) else { return Err(GitError::NotARepository(path)) };
    let relative = path.strip_prefix(&root).unwrap_or(Path::new("")).to_string_lossy().into_owned();
    Ok(Located { path, root, relative })
}

/// The absolute path without symbolic links, as far as it exists.
fn resolve(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut missing = Vec::new();
    let mut existing = absolute.as_path();
    loop {
        if let Ok(real) = existing.canonicalize() {
            return missing.iter().rev().fold(real, |path, name| path.join(name));
        }
        let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else { return absolute };
        missing.push(name);
        existing = parent;
    }
}

/// The working tree's text and the one at `reference`.
pub(super) async fn of_tree(
    path: &Path,
    reference: Option<&str>,
    tools: &ToolEnvironment,
) -> Result<GitDiff, GitError> {
    let (file, modified) = blocking(path, examine).await?;
    let git = Git::at(&file.root, tools).without_own_filters().await?;
    let base = base::resolve(&git, reference, Purpose::Display).await?;
    let original = blob(&git, base.object(), &file.relative).await?;
    if modified.is_none() && original.is_none() {
        return Err(missing(&file.path));
    }
    Ok(GitDiff { modified: Some(modified.unwrap_or_default()), original: Some(original.unwrap_or_default()) })
}

fn missing(path: &Path) -> GitError {
    GitError::Path(format!("File does not exist: {}", path.display()))
}

/// Where the file is and what it holds now; `None` when it is not on disk. Blocking.
fn examine(path: &Path) -> Result<(Located, Option<String>), GitError> {
    let exists = path.exists();
    match locate(path) {
        Ok(file) => {
            let modified = if exists { Some(read(&file.path)?) } else { None };
            Ok((file, modified))
        }
        Err(GitError::NotARepository(path)) if !exists => Err(missing(&path)),
        Err(error) => Err(error),
    }
}

async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path) -> Result<T, GitError> + Send + 'static,
) -> Result<T, GitError> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || work(&path))
        .await
        .unwrap_or_else(|error| Err(GitError::Path(format!("reading was interrupted: {error}"))))
}

/// The text in a commit and in its first parent; the disk is not looked at, so deleted files have their texts too.
pub(super) async fn of_commit(path: &Path, commit: &str, tools: &ToolEnvironment) -> Result<GitDiff, GitError> {
    let file = blocking(path, locate).await?;
    let git = Git::at(&file.root, tools);
    let sha = base::commit(&git, commit).await?;
    let modified = blob(&git, &sha, &file.relative).await?;
    let original = match base::commit(&git, &format!("{sha}^")).await {
        Ok(parent) => blob(&git, &parent, &file.relative).await?,
        Err(GitError::UnknownRevision(_)) => None,
        Err(error) => return Err(error),
    };
    Ok(GitDiff { modified: Some(modified.unwrap_or_default()), original: Some(original.unwrap_or_default()) })
}

/// A file's text in a commit; `None` when it is not there.
async fn blob(git: &Git, revision: &str, relative: &str) -> Result<Option<String>, GitError> {
    let object = format!("{revision}:{relative}");
    let limit = usize::try_from(MAX_DIFF_BYTES).unwrap_or(usize::MAX);
    match git.run_within(["cat-file", "blob", &object], super::command::SLOW, limit).await {
        Ok(bytes) => Ok(Some(lines(&bytes))),
        Err(GitError::Command { .. }) => Ok(None),
        Err(GitError::TooLarge { .. }) => Err(too_large(None)),
        Err(error) => Err(error),
    }
}

/// The text on disk; empty for what is no regular file.
fn read(path: &Path) -> Result<String, GitError> {
    let unreadable = |error: io::Error| GitError::Path(format!("Cannot access file: {}: {error}", path.display()));
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_DIFF_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_DIFF_BYTES {
        return Err(too_large(Some(metadata.len())));
    }
    Ok(lines(&bytes))
}

fn too_large(size: Option<u64>) -> GitError {
    let size = size.map(|size| format!(": {size} bytes")).unwrap_or_default();
    GitError::Path(format!("File too large for git diff{size} (max: {MAX_DIFF_BYTES} bytes)"))
}

/// The text with plain line ends and without the last one.
fn lines(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    if text.contains('\r') {
        text = text.replace("\r\n", "\n").replace('\r', "\n");
    }
    if text.ends_with('\n') {
        text.pop();
    }
    text
}
