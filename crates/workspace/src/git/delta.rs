//! A patch of a working tree against a base, made without touching the repository: its index and new objects live in a
//! scratch directory.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tokio::io::AsyncWrite;

use super::{
    GitError, GitReader,
    base::{self, Base, Purpose},
    command::SLOW,
};

/// Time to seed the scratch index.
const SEED: Duration = Duration::from_secs(60);

/// What is to be compared.
pub(crate) struct Delta<'a> {
    /// The directory whose changes are wanted.
    pub(crate) directory: &'a Path,
    /// The base; chosen for export when `None`.
    pub(crate) base: Option<&'a str>,
    /// Pathspecs that leave files out.
    pub(crate) pathspecs: &'a [String],
    /// Most bytes of the patch.
    pub(crate) limit: u64,
}

/// What a repository is called, for whoever replays a patch. Parts that are not known are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Origin's address without user, password and query.
    pub(crate) remote: Option<String>,
    /// The branch, or `DETACHED`.
    pub(crate) branch: Option<String>,
    pub(crate) head: Option<String>,
}

impl GitReader {
    /// Writes the patch to `to` and returns the base commit; `None` when the base is the empty tree.
    ///
    /// # Errors
    /// [`GitError::NotARepository`]; [`GitError::UnknownRevision`] when `base` names no commit.
    pub(crate) async fn delta(
        &self,
        delta: Delta<'_>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Result<Option<String>, GitError> {
        let mut git = self.repository(delta.directory).await?.without_own_filters().await?;
        let detached = git.ask(["symbolic-ref", "--quiet", "HEAD"]).await?.is_none();
        // A pinned checkout has no branch; the commit it is pinned to is the base.
        let wanted = delta.base.or(detached.then_some("HEAD"));
        let base = base::resolve(&git, wanted, Purpose::Export).await?;
        let objects = git.line(["rev-parse", "--path-format=absolute", "--git-path", "objects"]).await?;

        let scratch = Scratch::new().map_err(|source| GitError::Run { command: "add".to_owned(), source })?;
        git.variable("GIT_INDEX_FILE", scratch.index());
        git.variable("GIT_OBJECT_DIRECTORY", scratch.objects());
        git.variable("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects);
        git.run_within(["read-tree", base.object()], SEED, 0).await?;
        let add = ["add", "-A", "--", "."].into_iter().chain(delta.pathspecs.iter().map(String::as_str));
        git.run_within(add, SLOW, super::command::LISTING_BYTES).await?;
        let compare = ["diff", "--binary", "--cached", "--no-ext-diff", "--no-textconv", base.object(), "--", "."];
        git.stream(compare.into_iter().chain(delta.pathspecs.iter().map(String::as_str)), SLOW, delta.limit, to)
            .await?;
        Ok(match base {
            Base::Commit(name) => Some(name),
            Base::EmptyTree(_) => None,
        })
    }

    /// What the repository of a directory is called.
    pub(crate) async fn identity(&self, directory: &Path) -> Identity {
        let Ok(git) = self.repository(directory).await else { return Identity::default() };
        let ask = async |arguments: &[&str]| git.ask(arguments).await.ok().flatten();
        let head = ask(&["rev-parse", "--quiet", "--verify", "HEAD"]).await;
        let branch = match head {
            Some(_) => ask(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await.or(Some("DETACHED".to_owned())),
            None => None,
        };
        let remote = ask(&["remote", "get-url", "origin"]).await.map(|url| without_credentials(&url));
        Identity { remote, branch, head }
    }
}

/// Where an index and new objects live until the patch is made.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> io::Result<Self> {
        let scratch = Self(tempfile::tempdir()?);
        // Without it git does not take the repository for one.
        std::fs::create_dir(scratch.objects())?;
        Ok(scratch)
    }

    fn index(&self) -> PathBuf {
        self.0.path().join("index")
    }

    fn objects(&self) -> PathBuf {
        self.0.path().join("objects")
    }
}

/// An address without user, password, query and fragment; scp-like ones keep their user, which is no secret.
fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit('@').next().unwrap_or_default();
    if path.is_empty() { format!("{scheme}://{host}") } else { format!("{scheme}://{host}/{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_their_secrets() {
        for (url, expected) in [
            ("https://user:token@host:8443/a/b.git?x=y#z", "https://host:8443/a/b.git"),
            ("https://host/a@b", "https://host/a@b"),
            ("git@host:a/b.git", "git@host:a/b.git"),
            ("/srv/a.git", "/srv/a.git"),
        ] {
            assert_eq!(without_credentials(url), expected);
        }
    }
}
