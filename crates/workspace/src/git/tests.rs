use std::process::Command;

use openhands_protocol::git::GitChangeStatus::{Added, Deleted, Updated};
use tempfile::TempDir;

use super::*;

/// A repository on a branch `main` whose git sees nothing of the machine's configuration.
struct Repository {
    directory: TempDir,
}

impl Repository {
    fn new() -> Self {
        let repository = Self { directory: TempDir::new().unwrap() };
        repository.git(&["init", "-q", "-b", "main"]);
        repository
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn git(&self, arguments: &[&str]) -> String {
        git_at(self.path(), arguments)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.path().join(name)).unwrap();
    }

    fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    async fn changes(&self, reference: Option<&str>) -> Vec<(GitChangeStatus, String)> {
        plain(GitReader::default().changes(self.path(), reference).await.unwrap())
    }

    async fn diff(&self, name: &str, reference: Option<&str>) -> Result<(String, String), GitError> {
        let diff = GitReader::default().diff(&self.path().join(name), reference).await?;
        Ok((diff.original.unwrap(), diff.modified.unwrap()))
    }
}

use openhands_protocol::git::GitChangeStatus;

fn git_at(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgSign=false"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn plain(changes: Vec<GitChange>) -> Vec<(GitChangeStatus, String)> {
    changes.into_iter().map(|change| (change.status, change.path)).collect()
}

fn paths(expected: &[(GitChangeStatus, &str)]) -> Vec<(GitChangeStatus, String)> {
    expected.iter().map(|(status, path)| (*status, (*path).to_owned())).collect()
}

#[tokio::test]
async fn changes_are_listed_by_path() {
    let repository = Repository::new();
    repository.write("kept.txt", "one\ntwo\n");
    repository.write("gone.txt", "x\n");
    repository.write("old name", "a long enough text to be seen as moved\n");
    repository.write("same.txt", "same\n");
    repository.commit("first commit");
    repository.write("kept.txt", "one\nTWO\n");
    repository.remove("gone.txt");
    repository.git(&["mv", "old name", "new name"]);
    repository.write("dir/new\n\"file\" é.txt", "new\n");
    repository.write(".gitignore", "*.log\n");
    repository.write("noise.log", "noise\n");
    let expected = [
        (Added, ".gitignore"),
        (Added, "dir/new\n\"file\" é.txt"),
        (Deleted, "gone.txt"),
        (Updated, "kept.txt"),
        (Added, "new name"),
        (Deleted, "old name"),
    ];
    assert_eq!(repository.changes(None).await, paths(&expected));
    assert_eq!(repository.changes(Some("HEAD")).await, paths(&expected));
}

#[tokio::test]
async fn a_subdirectory_lists_its_own_with_paths_relative_to_it() {
    let repository = Repository::new();
    repository.write("a/in.txt", "1\n");
    repository.write("b/out.txt", "1\n");
    repository.commit("first");
    repository.write("a/in.txt", "2\n");
    repository.write("a/new.txt", "2\n");
    repository.write("b/out.txt", "2\n");
    let changes = GitReader::default().changes(&repository.path().join("a"), None).await.unwrap();
    assert_eq!(plain(changes), paths(&[(Updated, "in.txt"), (Added, "new.txt")]));
}

#[tokio::test]
async fn repositories_below_are_listed_with_their_directory() {
    let outer = Repository::new();
    outer.write("inner-notes.txt", "x\n");
    for name in ["inner", "plain"] {
        std::fs::create_dir(outer.path().join(name)).unwrap();
    }
    git_at(&outer.path().join("inner"), &["init", "-q"]);
    outer.write("inner/file.txt", "x\n");
    outer.write("plain/file.txt", "x\n");
    let expected = paths(&[(Added, "inner-notes.txt"), (Added, "inner/file.txt"), (Added, "plain/file.txt")]);
    assert_eq!(outer.changes(None).await, expected);

    let bare = TempDir::new().unwrap();
    let inside = bare.path().join("repo");
    std::fs::create_dir(&inside).unwrap();
    git_at(&inside, &["init", "-q"]);
    std::fs::write(inside.join("file.txt"), "x\n").unwrap();
    assert_eq!(
        plain(GitReader::default().changes(bare.path(), None).await.unwrap()),
        paths(&[(Added, "repo/file.txt")])
    );
}

#[tokio::test]
async fn outside_a_repository_it_says_so() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("file"), "x").unwrap();
    let reader = GitReader::default();
    for path in [directory.path().to_owned(), directory.path().join("file"), directory.path().join("absent")] {
        assert!(matches!(reader.changes(&path, None).await, Err(GitError::NotARepository(_))), "{path:?}");
        assert!(matches!(reader.commits(&path, 5).await, Err(GitError::NotARepository(_))), "{path:?}");
    }
    assert!(matches!(reader.diff(&directory.path().join("file"), None).await, Err(GitError::NotARepository(_))));
    let error = reader.diff(&directory.path().join("absent"), None).await.unwrap_err();
    assert!(matches!(error, GitError::Path(_)), "{error}");
}

#[tokio::test]
async fn an_unknown_reference_is_an_error_and_an_unborn_head_is_empty() {
    let repository = Repository::new();
    repository.write("a", "x\n");
    assert_eq!(repository.changes(Some("HEAD")).await, paths(&[(Added, "a")]));
    assert_eq!(repository.changes(None).await, paths(&[(Added, "a")]));
    assert_eq!(repository.diff("a", None).await.unwrap(), (String::new(), "x".to_owned()));
    for reference in ["nope", "--output=/tmp/x", ""] {
        let error = GitReader::default().changes(repository.path(), Some(reference)).await.unwrap_err();
        assert!(matches!(error, GitError::UnknownRevision(_)), "{error}");
    }
    assert_eq!(GitReader::default().commits(repository.path(), 5).await.unwrap(), GitCommitsPage::default());
}

#[tokio::test]
async fn a_diff_has_whole_texts_without_the_last_line_end() {
    let repository = Repository::new();
    repository.write("kept.txt", "one\r\ntwo\n");
    repository.write("gone.txt", "x\n\n");
    repository.commit("first");
    repository.write("kept.txt", "one\nTWO\n");
    repository.remove("gone.txt");
    repository.write("new.txt", "  new");
    assert_eq!(repository.diff("kept.txt", None).await.unwrap(), ("one\ntwo".to_owned(), "one\nTWO".to_owned()));
    assert_eq!(repository.diff("gone.txt", None).await.unwrap(), ("x\n".to_owned(), String::new()));
    assert_eq!(repository.diff("new.txt", Some("HEAD")).await.unwrap(), (String::new(), "  new".to_owned()));
    assert!(matches!(repository.diff("never.txt", None).await, Err(GitError::Path(_))));
}

#[tokio::test]
async fn large_files_are_refused_on_both_sides() {
    let repository = Repository::new();
    let large = vec![b'x'; usize::try_from(MAX_DIFF_BYTES).unwrap() + 1];
    repository.write("large", &large);
    repository.write("fits", &large[1..]);
    let refused =
        |result: Result<_, GitError>| matches!(result, Err(GitError::Path(text)) if text.contains("too large"));
    assert!(refused(repository.diff("large", None).await));
    repository.commit("large");
    repository.write("large", "small");
    assert!(refused(repository.diff("large", None).await));
    repository.remove("large");
    assert!(refused(repository.diff("large", None).await));
    assert_eq!(repository.diff("fits", None).await.unwrap().0.len(), large.len() - 1);
}

#[tokio::test]
async fn commits_are_listed_newest_first_with_their_changes() {
    let repository = Repository::new();
    repository.write("a", "1\n");
    let first = repository.commit("first \u{1f} one");
    repository.write("a", "2\n");
    repository.write("b", "1\n");
    let second = repository.commit("second\n\nwith a body");
    repository.git(&["rm", "-q", "b"]);
    let third = repository.commit("third");
    let reader = GitReader::default();
    let page = reader.commits(repository.path(), 2).await.unwrap();
    assert!(page.has_more);
    let seen: Vec<_> = page
        .commits
        .iter()
        .map(|commit| (commit.sha.as_str(), commit.subject.as_str(), commit.author.as_str()))
        .collect();
    assert_eq!(seen, [(third.as_str(), "third", "Ada"), (second.as_str(), "second", "Ada")]);
    assert!(page.commits.iter().all(|commit| commit.sha.starts_with(&commit.short_sha)));
    assert!(page.commits[0].timestamp.parse::<jiff::Timestamp>().is_ok());
    let all = reader.commits(repository.path(), 3).await.unwrap();
    assert_eq!((all.has_more, all.commits[2].subject.as_str()), (false, "first \u{1f} one"));

    assert_eq!(plain(reader.commit_changes(repository.path(), &first).await.unwrap()), paths(&[(Added, "a")]));
    assert_eq!(
        plain(reader.commit_changes(repository.path(), &second[..8]).await.unwrap()),
        paths(&[(Updated, "a"), (Added, "b")])
    );
    assert_eq!(plain(reader.commit_changes(repository.path(), &third).await.unwrap()), paths(&[(Deleted, "b")]));
    assert!(matches!(reader.commit_changes(repository.path(), "abcd").await, Err(GitError::UnknownRevision(_))));

    let b = repository.path().join("b");
    let texts = |original: &str, modified: &str| GitDiff {
        original: Some(original.to_owned()),
        modified: Some(modified.to_owned()),
    };
    assert_eq!(reader.commit_diff(&b, &second).await.unwrap(), texts("", "1"));
    assert_eq!(reader.commit_diff(&b, &third).await.unwrap(), texts("1", ""));
    assert_eq!(reader.commit_diff(&repository.path().join("a"), &first).await.unwrap(), texts("", "1"));
}

#[tokio::test]
async fn the_base_keeps_work_of_a_clone_visible() {
    let origin = Repository::new();
    origin.write("base.txt", "1\n");
    origin.commit("base");
    let place = TempDir::new().unwrap();
    let clone = Repository { directory: place };
    clone.git(&["clone", "-q", origin.path().to_str().unwrap(), "."]);
    // Committed but not pushed, on the default branch: against its upstream.
    clone.write("one.txt", "1\n");
    clone.commit("one");
    assert_eq!(clone.changes(None).await, paths(&[(Added, "one.txt")]));
    // A branch of its own, without upstream: against where it left the default branch.
    clone.git(&["checkout", "-q", "-b", "topic", "origin/main", "--no-track"]);
    clone.write("two.txt", "2\n");
    clone.commit("two");
    origin.write("later.txt", "3\n");
    origin.commit("later");
    clone.git(&["fetch", "-q"]);
    assert_eq!(clone.changes(None).await, paths(&[(Added, "two.txt")]));
    // Pushed and clean: still visible. Dirty: only what is new.
    clone.git(&["push", "-q", "origin", "topic"]);
    assert_eq!(clone.changes(None).await, paths(&[(Added, "two.txt")]));
    assert_eq!(clone.diff("two.txt", None).await.unwrap(), (String::new(), "2".to_owned()));
    clone.write("base.txt", "2\n");
    assert_eq!(clone.changes(None).await, paths(&[(Updated, "base.txt")]));
}

#[tokio::test]
async fn a_branch_of_a_repository_without_remote_shows_its_commits() {
    let repository = Repository::new();
    repository.write("a", "1\n");
    repository.commit("a");
    repository.git(&["checkout", "-q", "-b", "topic"]);
    repository.write("b", "1\n");
    repository.commit("b");
    assert_eq!(repository.changes(None).await, paths(&[(Added, "b")]));
    repository.git(&["checkout", "-q", "main"]);
    assert_eq!(repository.changes(None).await, []);
}

#[tokio::test]
async fn unmerged_and_retyped_files_are_updates() {
    let repository = Repository::new();
    repository.write("a", "1\n");
    repository.write("link", "1\n");
    repository.commit("base");
    repository.git(&["checkout", "-q", "-b", "other"]);
    repository.write("a", "2\n");
    repository.commit("other");
    repository.git(&["checkout", "-q", "main"]);
    repository.write("a", "3\n");
    repository.commit("main");
    let merge = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@b", "merge", "-q", "other"])
        .current_dir(repository.path())
        .output();
    assert!(!merge.unwrap().status.success());
    repository.remove("link");
    std::os::unix::fs::symlink("a", repository.path().join("link")).unwrap();
    assert_eq!(repository.changes(Some("HEAD")).await, paths(&[(Updated, "a"), (Updated, "link")]));
}

#[tokio::test]
async fn a_hostile_configuration_runs_nothing() {
    let repository = Repository::new();
    let sign = TempDir::new().unwrap();
    repository.write(".gitattributes", "* filter=evil diff=evil\n");
    repository.write("a", "1\n");
    repository.commit("first");
    let touch = |name: &str| format!("touch {}", sign.path().join(name).display());
    for (key, value) in [
        ("filter.evil.clean", format!("{}; cat", touch("clean"))),
        ("filter.evil.process", touch("process")),
        ("filter.evil.required", "true".to_owned()),
        ("diff.external", touch("external")),
        ("diff.evil.command", touch("driver")),
        ("diff.evil.textconv", format!("{}; cat", touch("textconv"))),
        ("core.fsmonitor", touch("fsmonitor")),
        ("core.pager", touch("pager")),
        ("core.sshCommand", touch("ssh")),
        ("gpg.program", touch("gpg")),
        ("log.showSignature", "true".to_owned()),
        ("core.hooksPath", sign.path().display().to_string()),
        ("remote.origin.url", "ssh://host/a.git".to_owned()),
        ("remote.origin.promisor", "true".to_owned()),
    ] {
        repository.git(&["config", key, &value]);
    }
    let hook = sign.path().join("post-index-change");
    std::fs::write(&hook, format!("#!/bin/sh\n{}\n", touch("hook"))).unwrap();
    Command::new("chmod").arg("+x").arg(&hook).status().unwrap();
    // The same size and time as before, so that only the content tells.
    repository.write("a", "2\n");

    let reader = GitReader::default();
    assert_eq!(repository.changes(None).await, paths(&[(Updated, "a")]));
    assert_eq!(repository.diff("a", None).await.unwrap(), ("1".to_owned(), "2".to_owned()));
    let sha = reader.commits(repository.path(), 1).await.unwrap().commits[0].sha.clone();
    reader.commit_changes(repository.path(), &sha).await.unwrap();
    reader.commit_diff(&repository.path().join("a"), &sha).await.unwrap();
    let mut patch = Vec::new();
    let delta = Delta { directory: repository.path(), base: None, pathspecs: &[], limit: u64::MAX };
    reader.delta(delta, &mut patch).await.unwrap();
    reader.identity(repository.path()).await;
    let signs: Vec<_> = std::fs::read_dir(sign.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(signs, ["post-index-change"]);
}

#[tokio::test]
async fn a_delta_leaves_the_repository_as_it_was_and_applies_elsewhere() {
    let repository = Repository::new();
    repository.write("kept.txt", "one\n");
    repository.write("gone.txt", "x\n");
    let base = repository.commit("base");
    repository.git(&["checkout", "-q", "--detach"]);
    repository.write("kept.txt", "two\n");
    repository.remove("gone.txt");
    repository.write("new.bin", [0, 1, 2, 255]);
    repository.write("left/out.pyc", "x");
    let before = snapshot(&repository.path().join(".git"));
    let pathspecs = [":(glob,exclude)**/*.pyc".to_owned()];
    let delta = Delta { directory: repository.path(), base: None, pathspecs: &pathspecs, limit: 1 << 20 };
    let mut patch = Vec::new();
    assert_eq!(GitReader::default().delta(delta, &mut patch).await.unwrap(), Some(base.clone()));
    assert_eq!(snapshot(&repository.path().join(".git")), before);

    let other = Repository::new();
    other.git(&["pull", "-q", repository.path().to_str().unwrap(), "main"]);
    std::fs::write(other.path().join("../").join(format!("{base}.patch")), &patch).unwrap();
    other.git(&["apply", &format!("../{base}.patch")]);
    std::fs::remove_file(other.path().join("../").join(format!("{base}.patch"))).unwrap();
    assert_eq!(
        other.changes(Some("HEAD")).await,
        paths(&[(Deleted, "gone.txt"), (Updated, "kept.txt"), (Added, "new.bin")])
    );

    let delta = Delta { directory: repository.path(), base: None, pathspecs: &[], limit: 10 };
    assert!(matches!(GitReader::default().delta(delta, &mut Vec::new()).await, Err(GitError::TooLarge { .. })));
}

fn snapshot(directory: &Path) -> Vec<(PathBuf, std::time::SystemTime)> {
    let mut all: Vec<_> = ignore::WalkBuilder::new(directory)
        .standard_filters(false)
        .build()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.path().to_owned(), entry.metadata().unwrap().modified().unwrap()))
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn a_huge_answer_and_a_slow_git_are_cut_off() {
    let repository = Repository::new();
    repository.write("a", "0123456789");
    repository.commit("a");
    let git = Git::at(repository.path(), &ToolEnvironment::default());
    let error =
        git.run_within(["cat-file", "blob", "HEAD:a"], std::time::Duration::from_secs(10), 9).await.unwrap_err();
    assert!(matches!(error, GitError::TooLarge { limit: 9, .. }), "{error}");
    let error = git
        .run_within(["-c", "alias.nap=!sleep 300", "nap"], std::time::Duration::from_millis(200), 9)
        .await
        .unwrap_err();
    assert!(matches!(error, GitError::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn a_link_is_followed_to_the_file_it_names() {
    let repository = Repository::new();
    repository.write("real.txt", "1\n");
    repository.commit("a");
    repository.write("real.txt", "2\n");
    std::os::unix::fs::symlink("real.txt", repository.path().join("link")).unwrap();
    assert_eq!(repository.diff("link", None).await.unwrap(), ("1".to_owned(), "2".to_owned()));
}
