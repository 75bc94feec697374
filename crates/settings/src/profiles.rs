//! Model profiles: one file `<name>.json` each, in the reference's layout (F1-REG-03, F2-PROF-01 to -07, -12r).

use openhands_protocol::{LlmConfig, secret::MASK};
use openhands_secrets::{Binding, Cipher, keep_secrets};
use serde_json::Value;

use crate::{
    connections::ConnectionStore,
    error::SettingsError,
    folder::Folder,
    llm::{self, Show},
    name::{canonical_profile_name, is_profile_name},
};

/// Most profiles of a server (F1-REG-04).
pub const MAX_PROFILES: usize = 50;

/// What becomes of a profile's secrets when it is saved.
#[derive(Clone, Copy, Debug)]
pub enum AtRest<'a> {
    /// Written as `**********`: they are gone when it is loaded.
    Masked,
    /// Written as tokens that only the configuration's own destination opens.
    Encrypted(&'a Cipher),
    /// Written in clear; for programs without a secret key, never the server.
    Plain,
}

impl<'a> AtRest<'a> {
    /// What a server does: encrypted with a cipher, and masked without one or when secrets shall not be kept.
    #[must_use]
    pub fn of_server(cipher: Option<&'a Cipher>, include_secrets: bool) -> Self {
        match cipher.filter(|_| include_secrets) {
            Some(cipher) => Self::Encrypted(cipher),
            None => Self::Masked,
        }
    }

    fn show(self) -> Show<'a> {
        match self {
            Self::Masked => Show::Masked,
            Self::Encrypted(cipher) => Show::Encrypted(cipher),
            Self::Plain => Show::Plain,
        }
    }
}

/// A profile at a glance, read without opening its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileSummary {
    /// The name.
    pub name: String,
    /// The model.
    pub model: Option<String>,
    /// The address.
    pub base_url: Option<String>,
    /// The provider connection that holds the key.
    pub provider_connection_id: Option<String>,
    /// Whether that connection is gone.
    pub provider_connection_broken: bool,
    /// Whether there is a key, here or in the connection.
    pub api_key_set: bool,
}

/// The profiles of a folder.
#[derive(Clone, Debug)]
pub struct ProfileStore {
    folder: Folder,
    connections: ConnectionStore,
}

impl ProfileStore {
    /// The profiles in `folder` (`<persistence dir>/profiles`), whose keys may be in `connections`.
    #[must_use]
    pub fn new(folder: std::path::PathBuf, connections: ConnectionStore) -> Self {
        Self { folder: Folder::new(folder, ".profiles.lock"), connections }
    }

    /// The names, sorted. Files whose names no profile can have are left out.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn names(&self) -> Result<Vec<String>, SettingsError> {
        let mut names = self.folder.stems()?;
        names.retain(|name| is_profile_name(name));
        Ok(names)
    }

    /// A profile ready for use: secrets in clear, key and address of its provider connection filled in.
    ///
    /// # Errors
    /// [`SettingsError::InvalidName`], [`SettingsError::NotFound`] with the names there are, [`SettingsError::Damaged`],
    /// [`SettingsError::NoConnection`], [`SettingsError::KeyElsewhere`].
    pub fn load(&self, name: &str, cipher: Option<&Cipher>) -> Result<LlmConfig, SettingsError> {
        let (mut config, binding) = self.opened(name, cipher)?;
        if binding == Binding::Dropped {
            return Err(SettingsError::KeyElsewhere(format!("profile {name:?}")));
        }
        self.connections.resolve(&format!("profile {name:?}"), &mut config, cipher)?;
        Ok(config)
    }

    /// A profile as it is stored, secrets in clear.
    ///
    /// # Errors
    /// As [`ProfileStore::load`], but the connection is not looked at, and a key that was stored for another address is only left out.
    pub fn read(&self, name: &str, cipher: Option<&Cipher>) -> Result<LlmConfig, SettingsError> {
        Ok(self.opened(name, cipher)?.0)
    }

    fn opened(&self, name: &str, cipher: Option<&Cipher>) -> Result<(LlmConfig, Binding), SettingsError> {
        let file = file_of(name)?;
        let Some(stored) = self.folder.read(&file)? else { return Err(self.not_found(name)) };
        llm::from_stored(stored, cipher)
            .map_err(|error| SettingsError::Damaged { path: self.folder.file(&file), reason: error.to_string() })
    }

    /// Saves a profile, over an older one of that name. A secret that stands as `**********` is kept from the older one, if that
    /// had the same destination. `limit` bounds the number of profiles.
    ///
    /// # Errors
    /// [`SettingsError::InvalidName`], [`SettingsError::Full`], [`SettingsError::Busy`].
    pub fn save(
        &self,
        name: &str,
        config: &LlmConfig,
        at_rest: AtRest<'_>,
        limit: Option<usize>,
    ) -> Result<(), SettingsError> {
        let file = file_of(name)?;
        let lock = self.folder.lock()?;
        let is_new = !self.folder.has(&file);
        if let Some(limit) = limit
            && is_new
            && self.names()?.len() >= limit
        {
            return Err(SettingsError::Full { what: "profiles", limit });
        }
        let mut config = config.clone();
        let cipher = if let AtRest::Encrypted(cipher) = at_rest { Some(cipher) } else { None };
        let old = self.read(name, cipher).unwrap_or_default();
        if keep_secrets(&old, &mut config) == Binding::Dropped {
            tracing::warn!(profile = name, "its address has changed, the stored key is not kept: enter it again");
        }
        self.folder.write(&lock, &file, &llm::to_stored(&config, at_rest.show()))
    }

    /// Removes a profile; none of that name is as good.
    ///
    /// # Errors
    /// [`SettingsError::InvalidName`], [`SettingsError::Busy`].
    pub fn delete(&self, name: &str) -> Result<(), SettingsError> {
        let file = file_of(name)?;
        if !self.folder.has(&file) {
            return Ok(());
        }
        let lock = self.folder.lock()?;
        self.folder.remove(&lock, &file).map(drop)
    }

    /// Renames a profile; to its own name nothing happens.
    ///
    /// # Errors
    /// [`SettingsError::NotFound`], [`SettingsError::Exists`] when the new name is taken.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), SettingsError> {
        let (old, new) = (file_of(from)?, file_of(to)?);
        if !self.folder.has(&old) {
            return Err(self.not_found(from));
        }
        if old == new {
            return Ok(());
        }
        let lock = self.folder.lock()?;
        if self.folder.has(&new) {
            return Err(SettingsError::Exists { what: "profile", name: to.to_owned() });
        }
        self.folder.rename(&lock, &old, &new)
    }

    /// All profiles at a glance, by name. Files that cannot be read are left out with a warning.
    ///
    /// # Errors
    /// When the folder or the connections cannot be read.
    pub fn summaries(&self) -> Result<Vec<ProfileSummary>, SettingsError> {
        let connections = self.connections.list(None)?;
        let mut summaries = Vec::new();
        for name in self.names()? {
            let members = match self.folder.read(&format!("{name}.json")) {
                Ok(Some(Value::Object(members))) => members,
                Ok(Some(_)) => {
                    tracing::warn!(profile = name, "the file holds no profile, it is left out");
                    continue;
                }
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(profile = name, %error, "left out");
                    continue;
                }
            };
            let text = |member: &str| members.get(member).and_then(Value::as_str).map(str::to_owned);
            let connection_id = text("provider_connection_id").filter(|id| !id.is_empty());
            let connection = connection_id.as_ref().map(|id| connections.iter().find(|known| known.id == *id));
            let own_key = text("api_key").is_some_and(|key| !key.trim().is_empty() && key != MASK);
            summaries.push(ProfileSummary {
                model: text("model"),
                base_url: text("base_url"),
                provider_connection_broken: matches!(connection, Some(None)),
                api_key_set: own_key || connection_id.as_ref().is_some_and(|id| self.connections.holds_key(id)),
                provider_connection_id: connection_id,
                name,
            });
        }
        Ok(summaries)
    }

    fn not_found(&self, name: &str) -> SettingsError {
        SettingsError::NotFound { what: "profile", name: name.to_owned(), known: self.names().unwrap_or_default() }
    }
}

fn file_of(name: &str) -> Result<String, SettingsError> {
    let name = canonical_profile_name(name);
    if is_profile_name(name) { Ok(format!("{name}.json")) } else { Err(SettingsError::InvalidName(name.to_owned())) }
}

#[cfg(test)]
mod tests;
