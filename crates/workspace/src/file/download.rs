//! Opens a file for reading.

use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::fs::OFlags;

use super::{FileError, absolute};

/// An open regular file.
#[derive(Debug)]
pub struct Download {
    /// At its beginning.
    pub file: File,
    /// Its size in bytes when it was opened.
    pub size: u64,
    /// When it was last written.
    pub modified: SystemTime,
    /// Its name for whoever stores it.
    pub name: String,
}

impl Download {
    /// Opens the regular file of an absolute path.
    ///
    /// # Errors
    /// When the path is not absolute, does not exist, is no regular file or cannot be read.
    pub async fn open(path: &str) -> Result<Self, FileError> {
        let path = absolute(path)?;
        let opened = tokio::task::spawn_blocking(move || open(&path)).await;
        opened.unwrap_or_else(|error| Err(FileError::failed("download file", io::Error::other(error))))
    }

    /// What `file` holds, under a name of the caller's choice.
    pub(crate) fn of(file: File, name: String) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { size: metadata.len(), modified: modified(&metadata), name, file })
    }

    /// A tag that changes with the content: from size and time, quoted as HTTP wants it.
    #[must_use]
    pub fn tag(&self) -> String {
        let nanos = self.modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        format!("\"{nanos:x}-{:x}\"", self.size)
    }
}

fn modified(metadata: &Metadata) -> SystemTime {
    metadata.modified().unwrap_or(UNIX_EPOCH)
}

fn open(path: &Path) -> Result<Download, FileError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FileError::FileNotFound,
        io::ErrorKind::PermissionDenied => FileError::PermissionDenied(path.display().to_string()),
        _ => FileError::failed("download file", error),
    };
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(FileError::NotAFile);
    }
    // A pipe that took the file's place must not hold us.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(FileError::NotAFile);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Download::of(file, name).map_err(failed)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[tokio::test]
    async fn a_regular_file_is_opened() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("a b.txt");
        std::fs::write(&path, "hello").unwrap();
        let first = Download::open(path.to_str().unwrap()).await.unwrap();
        assert_eq!((first.size, first.name.as_str()), (5, "a b.txt"));
        std::fs::write(&path, "hello!").unwrap();
        assert_ne!(Download::open(path.to_str().unwrap()).await.unwrap().tag(), first.tag());
    }

    #[tokio::test]
    async fn everything_else_is_told_apart() {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let pipe = directory.path().join("pipe");
        std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        let open = async |path: &Path| Download::open(path.to_str().unwrap()).await.unwrap_err().to_string();
        assert_eq!(open(Path::new("relative")).await, "Path must be absolute");
        assert_eq!(open(Path::new("/no/where")).await, "File not found");
        assert_eq!(open(&file.join("below")).await, "File not found");
        assert_eq!(open(directory.path()).await, "Path is not a file");
        assert_eq!(open(&pipe).await, "Path is not a file");
        assert_eq!(open(Path::new("/dev/null")).await, "Path is not a file");
    }
}
