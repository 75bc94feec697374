//! Files and directories that clients reach by absolute path. It does not know HTTP, and it does not fence a workspace off:
//! whoever may call it may run commands as the same user anyway.

mod directory;
mod download;
mod upload;

use std::{
    io,
    path::{Path, PathBuf},
};

pub use self::{
    directory::{SubdirectorySearch, create_directory, home, search_subdirectories},
    download::Download,
    upload::Upload,
};

/// Why a file request failed. The texts go to the client.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path does not start at the root.
    #[error("Path must be absolute")]
    NotAbsolute,
    /// There is no such file.
    #[error("File not found")]
    FileNotFound,
    /// There is no such directory.
    #[error("Directory not found")]
    DirectoryNotFound,
    /// A directory, device or pipe where a file is needed.
    #[error("Path is not a file")]
    NotAFile,
    /// A file where a directory is needed.
    #[error("Path is not a directory")]
    NotADirectory,
    /// A directory where a file is to be written.
    #[error("Path is a directory")]
    IsADirectory,
    /// A file in the middle of a path.
    #[error("A parent of the path is not a directory")]
    ParentNotADirectory,
    /// A file where a directory is to be made.
    #[error("Path exists and is not a directory")]
    ExistsNotADirectory,
    /// The server's user may not.
    #[error("Permission denied: {0}")]
    PermissionDenied(String),
    /// More bytes than are taken.
    #[error("larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The disk refused.
    #[error("Failed to {action}: {source}")]
    Failed {
        /// What was being tried.
        action: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl FileError {
    pub(crate) fn failed(action: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::PermissionDenied(format!("cannot {action}")),
            _ => Self::Failed { action, source },
        }
    }
}

/// The path, when it starts at the root and can be one.
pub(crate) fn absolute(path: &str) -> Result<PathBuf, FileError> {
    let absolute = Path::new(path).is_absolute() && !path.contains('\0');
    if absolute { Ok(path.into()) } else { Err(FileError::NotAbsolute) }
}
