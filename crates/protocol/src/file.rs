//! Bodies of the file routes. It does not know the disk.

use serde::{Deserialize, Serialize};

/// Answer to an upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileUploadResult {
    /// Always true; failures are HTTP errors.
    pub success: bool,
    /// Bytes written.
    pub file_size: u64,
}

/// A directory in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubdirectoryEntry {
    /// Its last component.
    pub name: String,
    /// Its absolute path.
    pub path: String,
}

/// One page of a directory's subdirectories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubdirectoryPage {
    /// The directories, by name without regard to case.
    pub items: Vec<SubdirectoryEntry>,
    /// The name of the first entry of the next page; null at the end.
    pub next_page_id: Option<String>,
}

/// A place offered by a file browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBrowserEntry {
    /// What to show.
    pub label: String,
    /// Its absolute path.
    pub path: String,
}

/// The home directory and where to go from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeResponse {
    /// The home directory of the server's user.
    pub home: String,
    /// Its top-level directories.
    pub favorites: Vec<FileBrowserEntry>,
    /// The roots of the file system.
    pub locations: Vec<FileBrowserEntry>,
}

/// What an archive holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArchiveFormat {
    /// A git patch of the working tree against a base.
    #[serde(rename = "git-delta")]
    GitDelta,
    /// A gzip tarball of the files.
    #[serde(rename = "tar.gz")]
    TarGz,
}

impl ArchiveFormat {
    /// What the archive's file name ends with.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::GitDelta => ".patch",
            Self::TarGz => ".tar.gz",
        }
    }

    /// The archive's media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::GitDelta => "text/x-patch",
            Self::TarGz => "application/gzip",
        }
    }
}
