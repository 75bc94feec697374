//! What files were before they were edited, so that edits can be taken back.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
};

/// Versions kept of one file.
const MOST_OF_ONE: usize = 10;
/// Bytes kept of all files together; the oldest go first.
const MOST_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct History {
    versions: VecDeque<Version>,
    bytes: usize,
}

/// A file before an edit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Version {
    path: PathBuf,
    pub(super) before: Vec<u8>,
    after: u64,
}

impl Version {
    /// Whether `bytes` are what the edit left behind.
    pub(super) fn left(&self, bytes: &[u8]) -> bool {
        fingerprint(bytes) == self.after
    }
}

impl History {
    /// Remembers that an edit turned `before` into `after`.
    pub(super) fn push(&mut self, path: &Path, before: Vec<u8>, after: &[u8]) {
        self.bytes += before.len();
        self.versions.push_back(Version { path: path.to_owned(), before, after: fingerprint(after) });
        if self.versions.iter().filter(|version| version.path == path).count() > MOST_OF_ONE {
            self.forget(self.versions.iter().position(|version| version.path == path));
        }
        while self.bytes > MOST_BYTES && self.versions.len() > 1 {
            self.forget(Some(0));
        }
    }

    /// The last version of a file, which is then forgotten.
    pub(super) fn pop(&mut self, path: &Path) -> Option<Version> {
        let at = self.versions.iter().rposition(|version| version.path == path)?;
        self.forget(Some(at))
    }

    fn forget(&mut self, at: Option<usize>) -> Option<Version> {
        let version = self.versions.remove(at?)?;
        self.bytes -= version.before.len();
        Some(version)
    }
}

fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_ten_of_a_file() {
        let mut history = History::default();
        for version in 0..12_u8 {
            history.push(Path::new("/a"), vec![version], &[version + 1]);
            history.push(Path::new("/b"), vec![version], b"");
        }
        let kept: Vec<u8> =
            std::iter::from_fn(|| history.pop(Path::new("/a"))).flat_map(|version| version.before).collect();
        assert_eq!(kept, [11, 10, 9, 8, 7, 6, 5, 4, 3, 2]);
        assert_eq!(history.bytes, 10);
    }

    #[test]
    fn is_bounded_in_bytes() {
        let mut history = History::default();
        for version in 0..8_u8 {
            history.push(Path::new(&format!("/{version}")), vec![version; MOST_BYTES / 4], b"");
        }
        assert_eq!(history.versions.len(), 4);
        assert_eq!(history.pop(Path::new("/3")), None);
    }
}
