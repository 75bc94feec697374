//! Tokens on disk (F1-REG-07): one file a vendor, as the reference writes and reads it, private to the user. Files are whole or
//! absent; what is no credentials file is removed.
//!
//! Everything here blocks; asynchronous callers use a blocking thread.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use openhands_protocol::secret::SecretText;

use crate::{OAuthCredentials, SubscriptionError, Vendor, credentials::end_of_life, lock::Lock};

/// Larger files are no credentials, bytes.
const MAX_FILE: u64 = 256 * 1024;
/// The reference writes in place: a file that cannot be read may be half written.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// A directory with credentials; clones mean the same one.
#[derive(Clone, Debug)]
pub struct CredentialStore {
    dir: PathBuf,
}

impl CredentialStore {
    /// A store in `dir`, which is made when something is stored. The reference's is `auth` in the user's persistence folder,
    /// `~/.openhands/auth` as a rule.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The stored credentials; `None` without a file. A file that is none of ours is removed.
    ///
    /// # Errors
    /// [`SubscriptionError::Storage`] when the file is there and cannot be read.
    pub fn get(&self, vendor: Vendor) -> Result<Option<OAuthCredentials>, SubscriptionError> {
        #[expect(clippy::disallowed_methods, reason = "the writer that is waited for gives no sign of its end")]
        self.get_after(vendor, || std::thread::sleep(SECOND_LOOK))
    }

    /// Waits so between a first and a second look.
    fn get_after(&self, vendor: Vendor, pause: impl FnOnce()) -> Result<Option<OAuthCredentials>, SubscriptionError> {
        let path = self.file(vendor);
        let Some(first) = read(&path)? else { return Ok(None) };
        if let Some(credentials) = OAuthCredentials::from_json(&first, vendor) {
            return Ok(Some(credentials));
        }
        pause();
        let Some(second) = read(&path)? else { return Ok(None) };
        if let Some(credentials) = OAuthCredentials::from_json(&second, vendor) {
            return Ok(Some(credentials));
        }
        if first == second {
            tracing::warn!(path = %path.display(), "removed a file that holds no credentials");
            remove(&path)?;
        }
        Ok(None)
    }

    /// Stores credentials in place of what is there.
    ///
    /// # Errors
    /// [`SubscriptionError::Storage`]; what was there is still there.
    pub fn save(&self, credentials: &OAuthCredentials) -> Result<(), SubscriptionError> {
        self.prepare()?;
        let path = self.file(credentials.vendor);
        let failed = || SubscriptionError::storage("write", &path);
        // Made with mode 0600.
        let mut file = tempfile::Builder::new().prefix(".oauth-").tempfile_in(&self.dir).map_err(failed())?;
        let text = serde_json::to_vec_pretty(&credentials.to_json()).map_err(|error| failed()(error.into()))?;
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(failed())?;
        file.persist(&path).map_err(|error| failed()(error.error))?;
        // A rotated refresh token must outlive the machine: the old one is void.
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(failed())
    }

    /// Removes what is stored; whether there was something.
    ///
    /// # Errors
    /// [`SubscriptionError::Storage`].
    pub fn delete(&self, vendor: Vendor) -> Result<bool, SubscriptionError> {
        remove(&self.file(vendor))
    }

    /// Puts new tokens in place of the stored ones; without a new refresh token the old one stays. `None` when nothing is
    /// stored, and then nothing is written.
    ///
    /// # Errors
    /// [`SubscriptionError::Storage`].
    pub fn update_tokens(
        &self,
        vendor: Vendor,
        access_token: &str,
        refresh_token: Option<&str>,
        expires_in: Option<i64>,
    ) -> Result<Option<OAuthCredentials>, SubscriptionError> {
        let Some(stored) = self.get(vendor)? else { return Ok(None) };
        let updated = with_tokens(stored, access_token, refresh_token, expires_in);
        self.save(&updated)?;
        Ok(Some(updated))
    }

    /// The right to change what is stored, shared with other processes on this directory.
    pub(crate) fn lock(&self, vendor: Vendor) -> Result<Lock, SubscriptionError> {
        self.prepare()?;
        Lock::take(self.dir.join(format!(".{}_oauth.lock", vendor.name())))
    }

    /// Makes the directory, private.
    pub(crate) fn prepare(&self) -> Result<(), SubscriptionError> {
        fs::create_dir_all(&self.dir).map_err(SubscriptionError::storage("make", &self.dir))?;
        let mode = fs::metadata(&self.dir).map_err(SubscriptionError::storage("read", &self.dir))?.permissions().mode();
        if mode & 0o777 != 0o700 {
            fs::set_permissions(&self.dir, Permissions::from_mode(0o700))
                .map_err(SubscriptionError::storage("protect", &self.dir))?;
        }
        Ok(())
    }

    fn file(&self, vendor: Vendor) -> PathBuf {
        self.dir.join(format!("{}_oauth.json", vendor.name()))
    }
}

/// Credentials with new tokens.
pub(crate) fn with_tokens(
    stored: OAuthCredentials,
    access_token: &str,
    refresh_token: Option<&str>,
    expires_in: Option<i64>,
) -> OAuthCredentials {
    let refresh = refresh_token.filter(|token| !token.is_empty()).map(SecretText::new);
    OAuthCredentials {
        access_token: SecretText::new(access_token),
        refresh_token: refresh.unwrap_or(stored.refresh_token),
        expires_at: end_of_life(expires_in),
        vendor: stored.vendor,
        account_id: stored.account_id,
        issuer: stored.issuer,
    }
}

/// The bytes of a file; `None` when there is none. What is no file of sensible size reads as empty: opening a pipe would hang.
fn read(path: &Path) -> Result<Option<Vec<u8>>, SubscriptionError> {
    let absent = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(None),
        _ => Err(SubscriptionError::storage("read", path)(error)),
    };
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) => return absent(error),
    };
    if !about.is_file() || about.len() > MAX_FILE {
        return Ok(Some(Vec::new()));
    }
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) => absent(error),
    }
}

fn remove(path: &Path) -> Result<bool, SubscriptionError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(SubscriptionError::storage("remove", path)(error)),
    }
}

#[cfg(test)]
mod tests;
