//! Writes a gzip tarball of a directory that may change meanwhile. Regular files and directories only; links are not followed
//! and not kept.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use flate2::{Compression, write::GzEncoder};
use rustix::fs::OFlags;
use serde_json::json;
use tar::{Builder, EntryType, Header};

use super::exclude::Excludes;

/// The member that says what was taken.
const MANIFEST: &str = "archive_manifest.json";

/// Writes the tarball of `root` under its own name. What vanishes or cannot be read is left out.
///
/// # Errors
/// When `to` cannot be written, or the files have more than `limit` bytes ([`io::ErrorKind::FileTooLarge`]).
pub(super) fn write(root: &Path, excludes: &Excludes, limit: u64, to: &mut impl Write) -> io::Result<()> {
    let top = root.file_name().map_or_else(|| "root".into(), |name| name.to_owned());
    let top = Path::new(&top);
    let mut tar = Builder::new(GzEncoder::new(to, Compression::default()));
    let (mut files, mut bytes, mut own_manifest) = (0_u64, 0_u64, false);
    for entry in walk(root, excludes) {
        let Ok(entry) = entry else { continue };
        let Some(kind) = entry.file_type() else { continue };
        let Ok(relative) = entry.path().strip_prefix(root) else { continue };
        let name = top.join(relative);
        if kind.is_dir() {
            directory(&mut tar, entry.path(), &name)?;
        } else if kind.is_file() {
            let Some(size) = file(&mut tar, entry.path(), &name, limit.saturating_sub(bytes))? else { continue };
            files += 1;
            bytes += size;
            own_manifest |= relative == Path::new(MANIFEST);
        }
    }
    // A file of the user's with that name wins.
    if !own_manifest {
        let manifest = json!({
            "excludes": excludes.patterns(),
            "file_count": files,
            "format": "tar.gz",
            "source": top.to_string_lossy(),
            "total_bytes": bytes,
        });
        let text = serde_json::to_vec_pretty(&manifest)?;
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, top.join(MANIFEST), text.as_slice())?;
    }
    tar.into_inner()?.finish()?.flush()
}

fn walk(root: &Path, excludes: &Excludes) -> ignore::Walk {
    let (base, excludes) = (root.to_owned(), excludes.clone());
    ignore::WalkBuilder::new(root)
        .standard_filters(false)
        .follow_links(false)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .filter_entry(move |entry| {
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            entry.path().strip_prefix(&base).is_ok_and(|relative| !excludes.matches(relative, is_directory))
        })
        .build()
}

fn directory(tar: &mut Builder<impl Write>, path: &Path, name: &Path) -> io::Result<()> {
    // Gone meanwhile: so are its files.
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let mut header = Header::new_gnu();
    header.set_metadata(&metadata);
    header.set_entry_type(EntryType::Directory);
    header.set_size(0);
    tar.append_data(&mut header, name, io::empty())
}

/// Adds a file with exactly the size it had when it was opened, so that a file that changes meanwhile cannot shift what
/// follows. `None` when it was left out.
fn file(tar: &mut Builder<impl Write>, path: &Path, name: &Path, room: u64) -> io::Result<Option<u64>> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let Ok(file) = File::options().read(true).custom_flags(flags).open(path) else { return Ok(None) };
    let Ok(metadata) = file.metadata() else { return Ok(None) };
    if !metadata.is_file() {
        return Ok(None);
    }
    let size = metadata.len();
    if size > room {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut header = Header::new_gnu();
    header.set_metadata(&metadata);
    header.set_size(size);
    tar.append_data(&mut header, name, Exactly { file, left: size })?;
    Ok(Some(size))
}

/// A reader of exactly `left` bytes: zeros stand for what the file no longer has.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = buffer.get_mut(..most).unwrap_or_default();
        let mut read = self.file.read(buffer).unwrap_or(0);
        if read == 0 {
            buffer.fill(0);
            read = most;
        }
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _};

    use tempfile::TempDir;

    use super::*;

    /// Names of all members with their content; directories end with a slash.
    fn members(tarball: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(tarball));
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut name = entry.path().unwrap().display().to_string();
            if entry.header().entry_type() == EntryType::Directory && !name.ends_with('/') {
                name.push('/');
            }
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (name, content)
        });
        entries.collect()
    }

    fn tarball(root: &Path, excludes: &[&str], limit: u64) -> io::Result<Vec<u8>> {
        let excludes: Vec<String> = excludes.iter().map(|pattern| (*pattern).to_owned()).collect();
        let mut bytes = Vec::new();
        write(root, &Excludes::new(true, &excludes), limit, &mut bytes).map(|()| bytes)
    }

    fn tree() -> (TempDir, std::path::PathBuf) {
        let directory = TempDir::new().unwrap();
        let root = directory.path().join("work");
        for name in ["empty", "src", "build", ".git"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for (name, text) in
            [("src/a.txt", "a"), ("src/a.pyc", "x"), ("build/out", "x"), (".git/config", "token"), ("secret.key", "k")]
        {
            std::fs::write(root.join(name), text).unwrap();
        }
        std::fs::set_permissions(root.join("src/a.txt"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("linked")).unwrap();
        let long = "n".repeat(120);
        std::fs::create_dir(root.join(&long)).unwrap();
        std::fs::write(root.join(&long).join(&long), "long").unwrap();
        (directory, root)
    }

    #[test]
    fn files_and_directories_are_taken_links_and_excludes_are_not() {
        let (_directory, root) = tree();
        let bytes = tarball(&root, &["*.key"], 1000).unwrap();
        let mut members = members(&bytes);
        let manifest: serde_json::Value =
            serde_json::from_slice(&members.remove("work/archive_manifest.json").unwrap()).unwrap();
        assert_eq!((&manifest["file_count"], &manifest["total_bytes"]), (&json!(2), &json!(5)));
        let long = "n".repeat(120);
        let expected = [
            ("work/".to_owned(), ""),
            ("work/empty/".to_owned(), ""),
            ("work/src/".to_owned(), ""),
            ("work/src/a.txt".to_owned(), "a"),
            (format!("work/{long}/"), ""),
            (format!("work/{long}/{long}"), "long"),
        ];
        let expected: BTreeMap<_, _> =
            expected.into_iter().map(|(name, text)| (name, text.as_bytes().to_vec())).collect();
        assert_eq!(members, expected);
    }

    #[test]
    fn the_users_own_manifest_wins() {
        let (_directory, root) = tree();
        std::fs::write(root.join(MANIFEST), "mine").unwrap();
        assert_eq!(members(&tarball(&root, &[], 1000).unwrap())["work/archive_manifest.json"], b"mine");
    }

    #[test]
    fn too_many_bytes_are_refused() {
        let (_directory, root) = tree();
        assert_eq!(tarball(&root, &[], 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_file_that_shrinks_is_filled_up() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "12").unwrap();
        let mut reader = Exactly { file: File::open(&path).unwrap(), left: 5 };
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"12\0\0\0");
    }
}
