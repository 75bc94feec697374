//! One layer of an image: a sorted, timeless tar, so that equal content gives equal bytes. Knows no image format.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

/// A tar file on disk with its digest; OCI calls the digest of an uncompressed layer its diff id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layer {
    /// Where the tar lies.
    pub(crate) file: PathBuf,
    /// Hexadecimal SHA-256 of the tar.
    pub(crate) digest: String,
    /// Size in bytes.
    pub(crate) size: u64,
}

/// The content of a layer before it is written, by path without a leading slash.
#[derive(Debug, Default)]
pub(crate) struct Tree(BTreeMap<String, Entry>);

#[derive(Debug)]
struct Entry {
    mode: u32,
    owner: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Folder,
    Text(Vec<u8>),
    Copy(PathBuf),
}

impl Tree {
    /// A folder. Parents have to be named too where their owner or mode matters.
    pub(crate) fn folder(mut self, path: &str, mode: u32, owner: u64) -> Self {
        self.0.insert(path.to_owned(), Entry { mode, owner, kind: Kind::Folder });
        self
    }

    /// A file with the given bytes, owned by root.
    pub(crate) fn text(mut self, path: &str, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.insert(path.to_owned(), Entry { mode, owner: 0, kind: Kind::Text(bytes.into()) });
        self
    }

    /// An executable copied from this machine, owned by root.
    pub(crate) fn program(mut self, path: &str, source: &Path) -> Self {
        self.0.insert(path.to_owned(), Entry { mode: 0o755, owner: 0, kind: Kind::Copy(source.to_owned()) });
        self
    }

    /// Writes the layer to `file`.
    ///
    /// # Errors
    /// A source cannot be read or the file cannot be written.
    pub(crate) fn write(self, file: &Path) -> Result<Layer> {
        let out = File::create(file).with_context(|| file.display().to_string())?;
        let mut tar = tar::Builder::new(out);
        for (path, entry) in self.0 {
            let mut header = tar::Header::new_ustar();
            header.set_mode(entry.mode);
            header.set_uid(entry.owner);
            header.set_gid(entry.owner);
            header.set_mtime(0);
            let bytes = match entry.kind {
                Kind::Folder => {
                    header.set_entry_type(tar::EntryType::Directory);
                    Vec::new()
                }
                Kind::Text(bytes) => bytes,
                Kind::Copy(source) => std::fs::read(&source).with_context(|| source.display().to_string())?,
            };
            header.set_size(bytes.len() as u64);
            let path = if header.entry_type().is_dir() { format!("{path}/") } else { path };
            tar.append_data(&mut header, path, bytes.as_slice())?;
        }
        tar.into_inner()?.flush()?;
        Layer::of(file)
    }
}

impl Layer {
    /// The layer that a tar on disk is.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn of(file: &Path) -> Result<Self> {
        let (digest, size) = file_digest(file)?;
        Ok(Self { file: file.to_owned(), digest, size })
    }
}

/// Hexadecimal SHA-256 and size of a file.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn file_digest(file: &Path) -> Result<(String, u64)> {
    let mut reader = File::open(file).with_context(|| file.display().to_string())?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 20];
    let mut size = 0_u64;
    loop {
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            return Ok((hex::encode(hash.finalize()), size));
        }
        hash.update(buffer.get(..read).unwrap_or_default());
        size += read as u64;
    }
}

/// Hexadecimal SHA-256 of bytes.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, name: &str, reverse: bool) -> Layer {
        let tree = if reverse {
            Tree::default().text("etc/passwd", 0o644, "x").folder("etc", 0o755, 0).folder("work", 0o750, 10001)
        } else {
            Tree::default().folder("work", 0o750, 10001).folder("etc", 0o755, 0).text("etc/passwd", 0o644, "x")
        };
        tree.write(&folder.join(name)).unwrap()
    }

    #[test]
    fn equal_content_gives_equal_bytes_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (written(folder.path(), "one", false), written(folder.path(), "two", true));
        assert_eq!((one.digest, one.size), (two.digest, two.size));
    }

    #[test]
    fn entries_keep_owner_mode_and_no_time() {
        let folder = tempfile::tempdir().unwrap();
        let layer = written(folder.path(), "layer", false);
        let mut archive = tar::Archive::new(File::open(layer.file).unwrap());
        let seen: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let path = entry.path().unwrap().display().to_string();
                (path, header.mode().unwrap(), header.uid().unwrap(), header.mtime().unwrap())
            })
            .collect();
        let expected = [("etc/", 0o755, 0, 0), ("etc/passwd", 0o644, 0, 0), ("work/", 0o750, 10001, 0)];
        assert_eq!(seen, expected.map(|(path, mode, uid, time)| (path.to_owned(), mode, uid, time)));
    }
}
