//! Which files an archive leaves out. Both formats follow the same rules: as pathspecs for git, as a matcher for the tarball.

use std::path::{Component, Path};

/// Heavy directories that can be made again, and git's own.
pub(super) const DEFAULT_EXCLUDES: &[&str] = &[
    ".git/",
    "node_modules/",
    ".venv/",
    "venv/",
    "__pycache__/",
    ".mypy_cache/",
    ".pytest_cache/",
    ".ruff_cache/",
    "dist/",
    "build/",
    ".next/",
    "target/",
    "*.pyc",
];

/// Files of a `.git` directory that may hold credentials. They never leave the pod, whatever is asked for.
const GIT_SECRETS: &[&str] = &["config", "config.worktree", "credentials", ".git-credentials", "FETCH_HEAD"];

/// Glob patterns. A trailing slash means directories only; a slash inside anchors the pattern at the root; otherwise a name
/// matches at any depth. `*` does not cross a slash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Excludes(Vec<String>);

impl Excludes {
    pub(super) fn new(defaults: bool, more: &[String]) -> Self {
        let defaults = if defaults { DEFAULT_EXCLUDES } else { &[] };
        Self(defaults.iter().map(|pattern| (*pattern).to_owned()).chain(more.iter().cloned()).collect())
    }

    pub(super) fn patterns(&self) -> &[String] {
        &self.0
    }

    /// Pathspecs that make git leave the same files out.
    pub(super) fn pathspecs(&self) -> Vec<String> {
        let mut specs = Vec::new();
        for raw in &self.0 {
            let pattern = raw.trim_end_matches('/');
            if pattern.is_empty() {
                continue;
            }
            let place = if pattern.contains('/') { "" } else { "**/" };
            // Without the bare form a file of a directory's name stays.
            if !raw.ends_with('/') {
                specs.push(format!(":(glob,exclude){place}{pattern}"));
            }
            specs.push(format!(":(glob,exclude){place}{pattern}/**"));
        }
        specs
    }

    /// Whether the entry at `relative` is left out.
    pub(super) fn matches(&self, relative: &Path, is_directory: bool) -> bool {
        let names = names(relative);
        self.0.iter().any(|raw| matches(raw, &names, is_directory)) || is_git_secret(&names)
    }
}

fn names(relative: &Path) -> Vec<String> {
    let name = |component| match component {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    };
    relative.components().filter_map(name).collect()
}

fn matches(raw: &str, names: &[String], is_directory: bool) -> bool {
    let pattern = raw.trim_end_matches('/');
    let directories_only = raw.ends_with('/') && !is_directory;
    if pattern.is_empty() {
        return false;
    }
    if pattern.contains('/') {
        let parts: Vec<&str> = pattern.split('/').collect();
        let below = names.len() >= parts.len() && parts.iter().zip(names).all(|(part, name)| glob(part, name));
        return below && !(directories_only && names.len() == parts.len());
    }
    let candidates = if directories_only { names.split_last().map_or(&[][..], |(_, parents)| parents) } else { names };
    candidates.iter().any(|name| glob(pattern, name))
}

fn is_git_secret(names: &[String]) -> bool {
    let Some(at) = names.iter().position(|name| name == ".git") else { return false };
    let inside = names.get(at + 1..).unwrap_or_default();
    inside.iter().any(|name| name == "logs") || inside.last().is_some_and(|name| GIT_SECRETS.contains(&name.as_str()))
}

/// Whether a name matches a shell pattern: `*`, `?`, `[a-z]`, `[!a-z]`. Without back-tracking beyond the last star, so its time
/// is at most the product of both lengths.
fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    loop {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some(_) if n < name.len() => {
                if let Some(next) = name.get(n).and_then(|letter| one(&pattern, p, *letter)) {
                    (p, n) = (next, n + 1);
                    continue;
                }
            }
            None if n == name.len() => return true,
            _ => {}
        }
        match star {
            Some((after, from)) if from < name.len() => {
                star = Some((after, from + 1));
                (p, n) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// Where the pattern goes on when its part at `at` takes the letter.
fn one(pattern: &[char], at: usize, letter: char) -> Option<usize> {
    match pattern.get(at)? {
        '?' => Some(at + 1),
        '[' => {
            let negated = pattern.get(at + 1) == Some(&'!');
            let from = at + 1 + usize::from(negated);
            // A bracket that comes first stands for itself.
            let Some(length) = pattern.get(from + 1..).and_then(|rest| rest.iter().position(|c| *c == ']')) else {
                return (letter == '[').then_some(at + 1);
            };
            let end = from + 1 + length;
            let set = pattern.get(from..end)?;
            (in_set(set, letter) != negated).then_some(end + 1)
        }
        plain => (*plain == letter).then_some(at + 1),
    }
}

fn in_set(set: &[char], letter: char) -> bool {
    let mut rest = set;
    while let Some((first, after)) = rest.split_first() {
        match after {
            ['-', last, tail @ ..] => {
                if (*first..=*last).contains(&letter) {
                    return true;
                }
                rest = tail;
            }
            _ => {
                if *first == letter {
                    return true;
                }
                rest = after;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_like_a_shell() {
        for (pattern, name, expected) in [
            ("*.pyc", "a.pyc", true),
            ("*.pyc", "a.py", false),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
            ("?", "é", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("*", ".hidden", true),
            ("", "", true),
            ("**", "x", true),
        ] {
            assert_eq!(glob(pattern, name), expected, "{pattern} {name}");
        }
        let slow = "a".repeat(2000);
        assert!(!glob(&format!("{}b", "a*".repeat(500)), &slow));
    }

    #[test]
    fn patterns_follow_the_rules_of_ignore_files() {
        for (pattern, path, is_directory, expected) in [
            ("build/", "build", true, true),
            ("build/", "build", false, false),
            ("build/", "a/build/x", false, true),
            ("secrets/prod", "secrets/prod/key", false, true),
            ("secrets/prod", "a/secrets/prod", false, false),
            ("*/test", "a/test", false, true),
            ("*/test", "a/b/test", false, false),
            ("a/*/c/", "a/x/c", false, false),
            ("a/*/c/", "a/x/c", true, true),
            ("*.bin", "deep/x.bin", false, true),
            ("", "x", false, false),
        ] {
            let excludes = Excludes::new(false, &[pattern.to_owned()]);
            assert_eq!(excludes.matches(Path::new(path), is_directory), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn credentials_of_git_never_leave() {
        let everything = Excludes::new(false, &[]);
        for (path, expected) in [
            (".git", false),
            (".git/HEAD", false),
            (".git/config", true),
            (".git/modules/sub/config", true),
            ("sub/.git/logs/HEAD", true),
            (".git/FETCH_HEAD", true),
            ("config", false),
            ("logs/x", false),
        ] {
            assert_eq!(everything.matches(Path::new(path), false), expected, "{path}");
        }
    }

    #[test]
    fn pathspecs_say_the_same() {
        let excludes =
            Excludes::new(false, &["build/".to_owned(), "*.pyc".to_owned(), "a/b".to_owned(), "/".to_owned()]);
        assert_eq!(
            excludes.pathspecs(),
            [
                ":(glob,exclude)**/build/**",
                ":(glob,exclude)**/*.pyc",
                ":(glob,exclude)**/*.pyc/**",
                ":(glob,exclude)a/b",
                ":(glob,exclude)a/b/**"
            ]
        );
    }
}
