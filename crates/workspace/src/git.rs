//! What changed in a repository, by asking `git`. It does not know HTTP, and it never changes a repository.

mod base;
mod changes;
mod command;
mod delta;
mod diff;

use std::{
    io,
    path::{Path, PathBuf},
};

use openhands_protocol::git::{GitChange, GitCommit, GitCommitsPage, GitDiff};

use self::command::Git;
pub(crate) use self::delta::{Delta, Identity};
pub use self::diff::MAX_DIFF_BYTES;
use crate::environment::ToolEnvironment;

/// Why a question about a repository has no answer.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The directory does not exist or is in no repository.
    #[error("Not a git repository: {}", .0.display())]
    NotARepository(PathBuf),
    /// A revision that names no commit.
    #[error("'{0}' does not name a commit of this repository")]
    UnknownRevision(String),
    /// A file that cannot be compared; the text says why.
    #[error("{0}")]
    Path(String),
    /// Git refused.
    #[error("git {command} failed with code {code}: {stderr}")]
    Command {
        /// The subcommand.
        command: String,
        /// Its exit code.
        code: i32,
        /// What it said.
        stderr: String,
    },
    /// Git took too long and was killed.
    #[error("git {command} took longer than {seconds} s")]
    Timeout {
        /// The subcommand.
        command: String,
        /// The limit.
        seconds: u64,
    },
    /// Git answered more than is taken.
    #[error("git {command} answered more than {limit} bytes")]
    TooLarge {
        /// The subcommand.
        command: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// There is no git.
    #[error("git is not installed in this image")]
    NotInstalled,
    /// Git could not be started or waited for.
    #[error("git {command} could not be run")]
    Run {
        /// The subcommand.
        command: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Git was started without pipes.
    #[error("git {command} has no output")]
    Broken {
        /// The subcommand.
        command: String,
    },
}

/// Reads repositories. A cheap clone.
#[derive(Clone, Debug, Default)]
pub struct GitReader {
    environment: ToolEnvironment,
}

impl GitReader {
    /// A reader whose git sees `environment` without any `GIT_*` variable.
    #[must_use]
    pub fn new(environment: ToolEnvironment) -> Self {
        Self { environment }
    }

    /// The changed files below a directory against `reference` (else a base chosen for display), by path, and those of the
    /// repositories directly below it.
    ///
    /// # Errors
    /// [`GitError::NotARepository`] when neither the directory nor anything directly below it is one.
    pub async fn changes(&self, directory: &Path, reference: Option<&str>) -> Result<Vec<GitChange>, GitError> {
        let nested = changes::nested(directory).await;
        let own = match self.repository(directory).await {
            Ok(git) => changes::in_tree(git, reference).await?,
            Err(GitError::NotARepository(_)) if !nested.is_empty() => Vec::new(),
            Err(error) => return Err(error),
        };
        let is_nested = |path: &str| nested.iter().any(|name| Path::new(path).starts_with(name));
        let mut all: Vec<GitChange> = own.into_iter().filter(|change| !is_nested(&change.path)).collect();
        for name in &nested {
            let git = match self.repository(&directory.join(name)).await {
                Ok(git) => git,
                Err(error) => {
                    tracing::debug!(repository = name, %error, "nested repository is skipped");
                    continue;
                }
            };
            match changes::in_tree(git, reference).await {
                Ok(below) => all.extend(below.into_iter().map(|change| {
                    let path = format!("{name}/{}", change.path);
                    GitChange { path, ..change }
                })),
                Err(error) => tracing::debug!(repository = name, %error, "nested repository is skipped"),
            }
        }
        all.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(all)
    }

    /// Both texts of a file: in the working tree, and at `reference` (else at the base that [`Self::changes`] uses).
    ///
    /// # Errors
    /// [`GitError::NotARepository`] when the file is in none; [`GitError::Path`] when it is too large or on neither side.
    pub async fn diff(&self, file: &Path, reference: Option<&str>) -> Result<GitDiff, GitError> {
        diff::of_tree(file, reference, &self.environment).await
    }

    /// Both texts of a file: in a commit and in its first parent.
    ///
    /// # Errors
    /// As [`Self::diff`]; [`GitError::UnknownRevision`] when the commit does not exist.
    pub async fn commit_diff(&self, file: &Path, commit: &str) -> Result<GitDiff, GitError> {
        diff::of_commit(file, commit, &self.environment).await
    }

    /// The newest commits of the current branch, at most `limit`.
    ///
    /// # Errors
    /// [`GitError::NotARepository`] when the directory is in none.
    pub async fn commits(&self, directory: &Path, limit: usize) -> Result<GitCommitsPage, GitError> {
        let git = self.repository(directory).await?;
        let head = match base::commit(&git, "HEAD").await {
            Ok(head) => head,
            Err(GitError::UnknownRevision(_)) => return Ok(GitCommitsPage::default()),
            Err(error) => return Err(error),
        };
        let count = (limit + 1).to_string();
        let question =
            ["log", "-z", "--no-show-signature", "--format=%H%x1f%h%x1f%an%x1f%aI%x1f%s", "-n", &count, &head, "--"];
        let listing = git.run(question).await?;
        let mut commits: Vec<GitCommit> = String::from_utf8_lossy(&listing).split('\0').filter_map(commit).collect();
        let has_more = commits.len() > limit;
        commits.truncate(limit);
        Ok(GitCommitsPage { commits, has_more })
    }

    /// The files that one commit changed against its first parent.
    ///
    /// # Errors
    /// [`GitError::NotARepository`] when the directory is in none; [`GitError::UnknownRevision`] when the commit does not exist.
    pub async fn commit_changes(&self, directory: &Path, commit: &str) -> Result<Vec<GitChange>, GitError> {
        changes::of_commit(&self.repository(directory).await?, commit).await
    }

    /// Git in a directory of a repository.
    async fn repository(&self, directory: &Path) -> Result<Git, GitError> {
        let none = || GitError::NotARepository(directory.to_owned());
        let real = directory.canonicalize().map_err(|_| none())?;
        if !real.is_dir() {
            return Err(none());
        }
        let git = Git::at(&real, &self.environment);
        match git.ask(["rev-parse", "--git-dir"]).await? {
            Some(_) => Ok(git),
            None => Err(none()),
        }
    }
}

fn commit(line: &str) -> Option<GitCommit> {
    // A subject may hold the separator; it comes last.
    let mut fields = line.splitn(5, '\u{1f}').map(str::to_owned);
    let (sha, short_sha, author, timestamp) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    Some(GitCommit { sha, short_sha, subject: fields.next()?, author, timestamp })
}

#[cfg(test)]
mod tests;
