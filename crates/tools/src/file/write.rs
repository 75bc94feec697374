//! Writes files so that they are whole at every moment: a temporary file beside, then a rename.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use super::Refusal;

/// Makes a new file and the directories above it. Fails when there is something of that name.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    let write = || {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let temporary = Temporary::write(path, bytes, 0o666)?;
        // A link fails when the name is taken meanwhile, a rename would overwrite.
        match fs::hard_link(&temporary.path, path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // Not every file system has links.
            Err(_) if path.symlink_metadata().is_err() => temporary.rename(path),
            Err(error) => Err(error),
        }
    };
    write().map_err(|error: io::Error| Refusal(format!("{} cannot be created: {error}", path.display())))
}

/// Replaces the content of a file. Its permissions and owner stay; through a link the file it leads to is written.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    let write = || {
        let target = path.canonicalize()?;
        let metadata = target.metadata()?;
        if metadata.permissions().readonly() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is write-protected"));
        }
        if metadata.nlink() > 1 {
            // A rename would part the file from its other names.
            return in_place(&target, bytes);
        }
        match Temporary::write(&target, bytes, 0o600) {
            Ok(temporary) => {
                fs::set_permissions(&temporary.path, metadata.permissions())?;
                let own = temporary.path.metadata()?;
                if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid())
                    && std::os::unix::fs::chown(&temporary.path, Some(metadata.uid()), Some(metadata.gid())).is_err()
                {
                    // A file of somebody else that we may write: keep its owner, at the price of atomicity.
                    return in_place(&target, bytes);
                }
                temporary.rename(&target)
            }
            // A directory in which no file can be made, or a file that is a mount point.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) =>
            {
                in_place(&target, bytes)
            }
            Err(error) => Err(error),
        }
    };
    write().map_err(|error| Refusal(format!("{} cannot be written: {error}", path.display())))
}

fn in_place(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

/// A temporary file, removed when it is not renamed.
struct Temporary {
    path: PathBuf,
}

impl Temporary {
    fn write(beside: &Path, bytes: &[u8], mode: u32) -> io::Result<Self> {
        let directory = beside.parent().unwrap_or_else(|| Path::new("/"));
        let name = beside.file_name().unwrap_or_default().to_string_lossy();
        // A name can have 255 bytes.
        let name = name.get(..name.floor_char_boundary(100)).unwrap_or_default();
        let make = |path: &Path| OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
        let made = tempfile::Builder::new().prefix(&format!(".{name}.")).suffix(".tmp").make_in(directory, make)?;
        let (mut file, path): (File, PathBuf) = made.keep().map_err(|error| error.error)?;
        let temporary = Self { path };
        file.write_all(bytes)?;
        Ok(temporary)
    }

    fn rename(self, to: &Path) -> io::Result<()> {
        match fs::rename(&self.path, to) {
            // A mount point cannot be renamed over.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                let bytes = fs::read(&self.path)?;
                in_place(to, &bytes)
            }
            result => result,
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Gone already after a rename.
        let _ = fs::remove_file(&self.path);
    }
}
