//! A private folder of JSON files: whole reads, whole writes, one lock for those who change.

use std::{
    ffi::OsStr,
    fs,
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use openhands_store::{FileLock, StoreError, create_private_dir, read_bounded, replace};
use serde_json::Value;

use crate::error::SettingsError;

/// How long a change waits for another process's.
const PATIENCE: Duration = Duration::from_secs(30);
/// Largest file, bytes: more than any user keeps, less than a server has.
const LIMIT: usize = 8 * 1024 * 1024;
/// Most files of a folder that are looked at.
const MOST_FILES: usize = 1000;

#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: Arc<PathBuf>,
    lock: &'static str,
    patience: Duration,
}

impl Folder {
    /// The folder at `path`, whose changes are locked with the file `lock`. Nothing is touched yet.
    pub(crate) fn new(path: PathBuf, lock: &'static str) -> Self {
        Self { path: Arc::new(path), lock, patience: PATIENCE }
    }

    #[cfg(test)]
    pub(crate) fn impatient(mut self) -> Self {
        self.patience = Duration::from_millis(20);
        self
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Takes the lock and makes the folder, if need be, for its owner only.
    pub(crate) fn lock(&self) -> Result<FileLock, SettingsError> {
        create_private_dir(&self.path)?;
        self.close_to_others();
        Ok(FileLock::take(&self.file(self.lock), self.patience)?)
    }

    fn close_to_others(&self) {
        let open = fs::metadata(&*self.path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
        if open && let Err(error) = fs::set_permissions(&*self.path, fs::Permissions::from_mode(0o700)) {
            tracing::warn!(folder = %self.path.display(), %error, "others can look into a folder that holds secrets");
        }
    }

    /// Reads a file; `None` when there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Value>, SettingsError> {
        let path = self.file(name);
        let Some(bytes) = read_bounded(&path, LIMIT as u64)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            // The parser's text may hold a piece of the file; its place does not.
            let reason = format!("it is no JSON (line {}, column {})", error.line(), error.column());
            SettingsError::Damaged { path, reason }
        })
    }

    /// Replaces a file. The caller holds the lock.
    pub(crate) fn write(&self, _: &FileLock, name: &str, value: &Value) -> Result<(), SettingsError> {
        let path = self.file(name);
        let bytes = serde_json::to_vec_pretty(value)
            .map_err(|source| StoreError::Encode { what: path.display().to_string(), source: Arc::new(source) })?;
        if bytes.len() > LIMIT {
            return Err(SettingsError::Full { what: "bytes of one file", limit: LIMIT });
        }
        Ok(replace(&path, &bytes, true)?)
    }

    /// Removes a file; whether there was one.
    pub(crate) fn remove(&self, _: &FileLock, name: &str) -> Result<bool, SettingsError> {
        let path = self.file(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io_error("remove", &path, error)),
        }
    }

    pub(crate) fn rename(&self, _: &FileLock, from: &str, to: &str) -> Result<(), SettingsError> {
        let path = self.file(from);
        fs::rename(&path, self.file(to)).map_err(|error| io_error("rename", &path, error))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// The names, without `.json`, of the JSON files, sorted.
    pub(crate) fn stems(&self) -> Result<Vec<String>, SettingsError> {
        let entries = match fs::read_dir(&*self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error("list", &self.path, error)),
        };
        let mut stems = Vec::new();
        for entry in entries.take(MOST_FILES) {
            let path = entry.map_err(|error| io_error("list", &self.path, error))?.path();
            if path.extension() == Some(OsStr::new("json")) {
                stems.extend(path.file_stem().and_then(OsStr::to_str).map(str::to_owned));
            }
        }
        stems.sort();
        Ok(stems)
    }
}

fn io_error(doing: &'static str, path: &Path, source: io::Error) -> SettingsError {
    SettingsError::Store(StoreError::Io { doing, path: path.to_owned(), source: Arc::new(source) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_and_folders_are_private_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let folder = Folder::new(path.clone(), ".lock");
        assert_eq!(folder.read("x.json").unwrap(), None);
        let lock = folder.lock().unwrap();
        folder.write(&lock, "x.json", &json!({"a": 1})).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("x.json")), mode(&path.join(".lock"))), (0o700, 0o600, 0o600));
        assert_eq!(folder.read("x.json").unwrap(), Some(json!({"a": 1})));
        assert_eq!(folder.stems().unwrap(), ["x"]);
        fs::write(path.join("y.json"), "{\"api_key\": \"sk-1\"").unwrap();
        let error = folder.read("y.json").unwrap_err().to_string();
        assert!(error.contains("y.json") && !error.contains("sk-1"), "{error}");
    }

    #[test]
    fn a_change_waits_for_the_lock_within_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().to_owned(), ".lock").impatient();
        let held = folder.lock().unwrap();
        assert!(matches!(folder.lock(), Err(SettingsError::Busy(_))));
        drop(held);
        folder.lock().unwrap();
    }
}
