//! Packs a directory into a zip file, each file as a caller wants it. The directory may be changing: what is gone by the time it
//! is read is left out.

use std::{
    fs::File,
    io::{self, BufWriter, Seek as _},
    path::{Path, PathBuf},
};

use super::zip::Zip;
use crate::file::{Download, FileError};

/// Packs the regular files below `directory`, in the order of their names, as `name`. `content` gives what is packed for a path
/// relative to the directory; `None` leaves the file out. Blocking.
///
/// # Errors
/// When the directory does not exist, is too large, or the disk refuses.
pub fn zip_folder(
    directory: &Path,
    name: &str,
    limit: u64,
    content: impl Fn(&Path, Vec<u8>) -> Option<Vec<u8>>,
) -> Result<Download, FileError> {
    let failed = |source| FileError::failed("archive directory", source);
    if !directory.is_dir() {
        return Err(FileError::DirectoryNotFound);
    }
    let parent = directory.parent().and_then(|parent| tempfile::tempfile_in(parent).ok());
    let scratch = parent.map_or_else(tempfile::tempfile, Ok).map_err(failed)?;
    let mut zip = Zip::new(BufWriter::new(scratch));
    let top = directory.file_name().map(PathBuf::from).unwrap_or_default();
    let mut left = limit;
    for path in files(directory) {
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        left = left.checked_sub(bytes.len() as u64).ok_or(FileError::TooLarge { limit })?;
        let Ok(relative) = path.strip_prefix(directory) else { continue };
        if let Some(bytes) = content(relative, bytes) {
            zip.add(&top.join(relative).to_string_lossy(), &bytes).map_err(failed)?;
        }
    }
    let mut file: File = zip.finish().map_err(failed)?.into_inner().map_err(|error| failed(error.into_error()))?;
    file.rewind().map_err(failed)?;
    Download::of(file, name.to_owned()).map_err(failed)
}

/// The regular files below a directory, sorted; links are not followed.
fn files(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut waiting) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(current) = waiting.pop() {
        for child in std::fs::read_dir(current).into_iter().flatten().flatten() {
            match child.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(child.path()),
                Ok(kind) if kind.is_file() => found.push(child.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}
