//! Writes a file as it arrives: into a temporary file beside the target, renamed when it is whole. A broken upload leaves the
//! target as it was.

use std::{
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tempfile::TempPath;
use tokio::{
    fs::File,
    io::{AsyncWriteExt as _, BufWriter},
};

use super::{FileError, absolute};

const BUFFER_BYTES: usize = 256 * 1024;

/// An upload in progress. Dropping it forgets what was written.
#[derive(Debug)]
pub struct Upload {
    to: BufWriter<File>,
    target: PathBuf,
    /// `None` when the target is written in place, because its directory is closed to us.
    temporary: Option<TempPath>,
    written: u64,
    limit: u64,
}

impl Upload {
    /// Begins an upload to an absolute path, at most `limit` bytes. Missing directories are made; a link is followed to the file
    /// it names; a file that is there keeps its mode.
    ///
    /// # Errors
    /// When the path is not absolute, names a directory or something that is no file, or cannot be written.
    pub async fn begin(path: &str, limit: u64) -> Result<Self, FileError> {
        let path = absolute(path)?;
        let opened = tokio::task::spawn_blocking(move || open(path)).await;
        let (file, target, temporary) =
            opened.map_err(|error| FileError::failed("upload file", io::Error::other(error)))??;
        Ok(Self {
            to: BufWriter::with_capacity(BUFFER_BYTES, File::from_std(file)),
            target,
            temporary,
            written: 0,
            limit,
        })
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// When the limit is crossed or the disk refuses.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.written += bytes.len() as u64;
        if self.written > self.limit {
            return Err(FileError::TooLarge { limit: self.limit });
        }
        self.to.write_all(bytes).await.map_err(failed)
    }

    /// Puts the file in its place and says how many bytes it has.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn finish(mut self) -> Result<u64, FileError> {
        self.to.flush().await.map_err(failed)?;
        let file = self.to.into_inner().into_std().await;
        let (target, temporary) = (self.target, self.temporary);
        let moved = tokio::task::spawn_blocking(move || {
            drop(file);
            temporary.map_or(Ok(()), |temporary| temporary.persist(&target).map_err(|error| error.error))
        });
        moved.await.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(failed)?;
        Ok(self.written)
    }
}

fn failed(source: io::Error) -> FileError {
    FileError::failed("upload file", source)
}

type Opened = (std::fs::File, PathBuf, Option<TempPath>);

fn open(path: PathBuf) -> Result<Opened, FileError> {
    let Some(parent) = path.parent() else { return Err(FileError::IsADirectory) };
    std::fs::create_dir_all(parent).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => FileError::ParentNotADirectory,
        _ => failed(error),
    })?;
    // A rename would replace the link instead of the file it names.
    let target = path.canonicalize().unwrap_or(path);
    let existing = match std::fs::metadata(&target) {
        Ok(metadata) if metadata.is_dir() => return Err(FileError::IsADirectory),
        Ok(metadata) if !metadata.is_file() => return Err(FileError::NotAFile),
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(FileError::ParentNotADirectory),
        Err(_) => None,
    };
    let directory = target.parent().unwrap_or(Path::new("/"));
    let temporary =
        tempfile::Builder::new().prefix(".upload-").permissions(Permissions::from_mode(0o666)).tempfile_in(directory);
    match temporary {
        Ok(temporary) => {
            let (file, temporary) = temporary.into_parts();
            if let Some(existing) = existing {
                file.set_permissions(existing.permissions()).map_err(failed)?;
            }
            Ok((file, target, Some(temporary)))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && existing.is_some() => {
            let file = std::fs::OpenOptions::new().write(true).truncate(true).open(&target).map_err(failed)?;
            Ok((file, target, None))
        }
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    async fn upload(path: &Path, bytes: &[u8], limit: u64) -> Result<u64, FileError> {
        let mut upload = Upload::begin(path.to_str().unwrap(), limit).await?;
        for part in bytes.chunks(7) {
            upload.write(part).await?;
        }
        upload.finish().await
    }

    fn names(directory: &TempDir) -> Vec<String> {
        std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[tokio::test]
    async fn a_file_and_its_directories_are_made() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("deep/er/up.bin");
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        assert_eq!(upload(&path, &bytes, 100_000).await.unwrap(), 100_000);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o600, 0o600);
        assert_ne!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o044,
            0,
            "others may read what the mask allows"
        );
    }

    #[tokio::test]
    async fn a_broken_or_too_large_upload_leaves_the_target_alone() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "before").unwrap();
        let error = upload(&path, &[b'x'; 20], 19).await.unwrap_err();
        assert!(matches!(error, FileError::TooLarge { limit: 19 }), "{error}");
        let mut broken = Upload::begin(path.to_str().unwrap(), 100).await.unwrap();
        broken.write(b"half").await.unwrap();
        drop(broken);
        assert_eq!(
            (std::fs::read_to_string(&path).unwrap(), names(&directory)),
            ("before".to_owned(), vec!["file".to_owned()])
        );
    }

    #[tokio::test]
    async fn modes_and_links_are_kept() {
        let directory = TempDir::new().unwrap();
        let (script, link) = (directory.path().join("run.sh"), directory.path().join("link"));
        std::fs::write(&script, "before").unwrap();
        std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("run.sh", &link).unwrap();
        upload(&link, b"after", 100).await.unwrap();
        assert_eq!(std::fs::read_to_string(&script).unwrap(), "after");
        assert_eq!(std::fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[tokio::test]
    async fn wrong_paths_are_told_apart() {
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("file"), "x").unwrap();
        let begin = async |path: &str| Upload::begin(path, 1).await.unwrap_err().to_string();
        let below = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        assert_eq!(begin("relative").await, "Path must be absolute");
        assert_eq!(begin(directory.path().to_str().unwrap()).await, "Path is a directory");
        assert_eq!(begin(&below("file/x")).await, "A parent of the path is not a directory");
        assert_eq!(begin(&below("file/x/y")).await, "A parent of the path is not a directory");
        assert_eq!(begin("/dev/null").await, "Path is not a file");
        assert_eq!(begin("/").await, "Path is a directory");
    }
}
