//! Which files differ from a base, in the working tree or in one commit.

use std::{collections::BTreeMap, path::Path};

use openhands_protocol::git::{GitChange, GitChangeStatus};

use super::{
    GitError,
    base::{self, Purpose},
    command::{Git, LISTING_BYTES, SLOW},
};

/// Most repositories directly below a directory that are looked into.
const MAX_NESTED: usize = 100;

/// The changes below `git`'s directory against `reference`, by path.
pub(super) async fn in_tree(git: Git, reference: Option<&str>) -> Result<Vec<GitChange>, GitError> {
    let git = git.without_own_filters().await?;
    let base = base::resolve(&git, reference, Purpose::Display).await?;
    let compare = [
        "diff",
        "--name-status",
        "-z",
        "--relative",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        base.object(),
        "--",
    ];
    let tracked = git.run_within(compare, SLOW, LISTING_BYTES).await?;
    let mut changes = parse(&tracked);
    let untracked = git.run_within(["ls-files", "--others", "--exclude-standard", "-z"], SLOW, LISTING_BYTES).await?;
    for name in untracked.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        // A repository that is not tracked is listed as a directory.
        let path = String::from_utf8_lossy(name).trim_end_matches('/').to_owned();
        changes.entry(path).or_insert(GitChangeStatus::Added);
    }
    Ok(list(changes))
}

/// The changes of one commit against its first parent.
pub(super) async fn of_commit(git: &Git, commit: &str) -> Result<Vec<GitChange>, GitError> {
    let sha = base::commit(git, commit).await?;
    let parent = match base::commit(git, &format!("{sha}^")).await {
        Ok(parent) => parent,
        Err(GitError::UnknownRevision(_)) => base::empty_tree(git).await?.object().to_owned(),
        Err(error) => return Err(error),
    };
    let compare =
        ["diff", "--name-status", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", &parent, &sha, "--"];
    Ok(list(parse(&git.run_within(compare, SLOW, LISTING_BYTES).await?)))
}

/// The names of repositories directly below a directory.
pub(super) async fn nested(directory: &Path) -> Vec<String> {
    let directory = directory.to_owned();
    let found = tokio::task::spawn_blocking(move || {
        let entries = std::fs::read_dir(directory).ok()?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                (!name.starts_with('.') && entry.path().join(".git").exists()).then_some(name)
            })
            .take(MAX_NESTED)
            .collect();
        names.sort();
        Some(names)
    });
    found.await.ok().flatten().unwrap_or_default()
}

fn list(changes: BTreeMap<String, GitChangeStatus>) -> Vec<GitChange> {
    changes.into_iter().map(|(path, status)| GitChange { status, path }).collect()
}

/// `status NUL path NUL` pairs. A path may come twice when it is unmerged.
fn parse(listing: &[u8]) -> BTreeMap<String, GitChangeStatus> {
    let mut fields = listing.split(|byte| *byte == 0);
    let mut changes = BTreeMap::new();
    while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
        let status = match status.first() {
            Some(b'A') => GitChangeStatus::Added,
            Some(b'D') => GitChangeStatus::Deleted,
            Some(_) => GitChangeStatus::Updated,
            None => continue,
        };
        changes.entry(String::from_utf8_lossy(path).into_owned()).or_insert(status);
    }
    changes
}
