//! What a working tree is compared with when nobody says. It only reads refs that are there: no remote is asked.

use std::collections::HashMap;

use super::{GitError, command::Git};

/// What the comparison is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Showing what was done here: committed and even pushed work stays visible.
    Display,
    /// A patch that is applied elsewhere: the base must be in a fresh clone.
    Export,
}

/// The object to compare with: a commit, or the empty tree when there is nothing.
///
/// # Errors
/// When `wanted` names no commit (`HEAD` of a branch without commits is the empty tree), or git cannot be run.
pub(super) async fn resolve(git: &Git, wanted: Option<&str>, purpose: Purpose) -> Result<Base, GitError> {
    if let Some(wanted) = wanted {
        return match commit(git, wanted).await {
            Ok(name) => Ok(Base::Commit(name)),
            Err(GitError::UnknownRevision(_)) if wanted == "HEAD" => empty_tree(git).await,
            Err(error) => Err(error),
        };
    }
    if git.ask(["rev-list", "--all", "-n", "1"]).await?.is_none() {
        return empty_tree(git).await;
    }
    let refs = Refs::read(git).await?;
    let found = match purpose {
        Purpose::Display => display(git, &refs).await?,
        Purpose::Export => export(git, &refs).await?,
    };
    match found {
        Some(name) => Ok(Base::Commit(name)),
        None => empty_tree(git).await,
    }
}

/// The side a tree is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Commit(String),
    EmptyTree(String),
}

impl Base {
    /// The object's name.
    pub(super) fn object(&self) -> &str {
        match self {
            Self::Commit(name) | Self::EmptyTree(name) => name,
        }
    }
}

/// The full name of a commit.
///
/// # Errors
/// [`GitError::UnknownRevision`] when it names none.
pub(super) async fn commit(git: &Git, revision: &str) -> Result<String, GitError> {
    let unknown = || GitError::UnknownRevision(revision.to_owned());
    // Git would take it for an option.
    if revision.starts_with('-') || revision.is_empty() {
        return Err(unknown());
    }
    let wanted = format!("{revision}^{{commit}}");
    git.ask(["rev-parse", "--quiet", "--verify", &wanted]).await?.ok_or_else(unknown)
}

/// The empty tree, whose name depends on the repository's hash.
pub(super) async fn empty_tree(git: &Git) -> Result<Base, GitError> {
    git.line(["hash-object", "-t", "tree", "/dev/null"]).await.map(Base::EmptyTree)
}

struct Refs {
    head: Option<String>,
    /// The current branch; `None` when detached or without a commit.
    branch: Option<String>,
    objects: HashMap<String, String>,
    /// Origin's default branch as recorded by the clone, else the usual names.
    default: Option<String>,
}

impl Refs {
    async fn read(git: &Git) -> Result<Self, GitError> {
        let head = git.ask(["rev-parse", "--quiet", "--verify", "HEAD"]).await?;
        let branch = match head {
            Some(_) => git.ask(["symbolic-ref", "--quiet", "--short", "HEAD"]).await?,
            None => None,
        };
        let mut wanted: Vec<String> =
            ["remotes/origin/HEAD", "remotes/origin/main", "remotes/origin/master", "heads/main", "heads/master"]
                .map(|name| format!("refs/{name}"))
                .into();
        wanted.extend(branch.iter().map(|branch| format!("refs/remotes/origin/{branch}")));
        let mut question =
            vec!["for-each-ref".to_owned(), "--format=%(refname)%00%(objectname)%00%(symref)".to_owned()];
        question.extend(wanted.iter().cloned());
        let listing = git.run(&question).await?;
        let (mut objects, mut default) = (HashMap::new(), None);
        for line in String::from_utf8_lossy(&listing).lines() {
            let mut fields = line.split('\0');
            let (Some(name), Some(object), Some(target)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            // A pattern also matches everything below it.
            if !wanted.iter().any(|wanted| wanted == name) {
                continue;
            }
            if name == "refs/remotes/origin/HEAD" {
                default = target.strip_prefix("refs/remotes/origin/").map(str::to_owned);
            }
            objects.insert(name.to_owned(), object.to_owned());
        }
        let usual =
            ["main", "master"].into_iter().find(|name| objects.contains_key(&format!("refs/remotes/origin/{name}")));
        let default = default.or_else(|| usual.map(str::to_owned));
        Ok(Self { head, branch, objects, default })
    }

    fn remote(&self, branch: &str) -> Option<&String> {
        self.objects.get(&format!("refs/remotes/origin/{branch}"))
    }
}

async fn merge_base(git: &Git, with: &str) -> Result<Option<String>, GitError> {
    git.ask(["merge-base", "HEAD", with]).await
}

async fn display(git: &Git, refs: &Refs) -> Result<Option<String>, GitError> {
    // Its own upstream, unless that would show nothing at all because everything is pushed.
    if let Some(upstream) = refs.branch.as_deref().and_then(|branch| refs.remote(branch))
        && (Some(upstream) != refs.head.as_ref() || is_dirty(git).await?)
    {
        return Ok(Some(upstream.clone()));
    }
    if let Some(default) = &refs.default {
        let remote = format!("refs/remotes/origin/{default}");
        // Where the branch left the default one, so that later commits there do not show up backwards.
        if let Some(base) = merge_base(git, &remote).await? {
            return Ok(Some(base));
        }
        if let Some(tip) = git.ask(["rev-parse", "--quiet", "--verify", &format!("{remote}^{{commit}}")]).await? {
            return Ok(Some(tip));
        }
    } else {
        let local = ["main", "master"]
            .into_iter()
            .find_map(|name| refs.objects.get(&format!("refs/heads/{name}")).map(|object| (name, object)));
        if let Some((name, object)) = local
            && refs.branch.as_deref() != Some(name)
            && merge_base(git, object).await?.as_ref() == Some(object)
        {
            return Ok(Some(object.clone()));
        }
    }
    Ok(refs.head.clone())
}

async fn export(git: &Git, refs: &Refs) -> Result<Option<String>, GitError> {
    if let Some(upstream) = refs.branch.as_deref().and_then(|branch| refs.remote(branch)) {
        return Ok(Some(upstream.clone()));
    }
    match &refs.default {
        Some(default) => {
            git.ask(["rev-parse", "--quiet", "--verify", &format!("refs/remotes/origin/{default}^{{commit}}")]).await
        }
        None => Ok(None),
    }
}

/// Whether tracked files differ from HEAD. Untracked ones are listed whatever the base is, so they must not choose it.
async fn is_dirty(git: &Git) -> Result<bool, GitError> {
    match git.run(["diff", "--quiet", "--no-ext-diff", "--no-textconv", "HEAD"]).await {
        Ok(_) => Ok(false),
        Err(GitError::Command { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}
