//! Provider connections: a key and an address that several profiles share, so that a key is changed in one place
//! (`provider-connections/provider_connections.json`).

use openhands_protocol::{LlmConfig, secret::SecretText};
use openhands_secrets::{Cipher, Destination};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    error::{Invalid, SettingsError},
    folder::Folder,
};

const FILE: &str = "provider_connections.json";
const VERSION: u64 = 1;
/// Most connections.
pub const MAX_CONNECTIONS: usize = 64;
const LONGEST_NAME: usize = 128;
const LONGEST_ADDRESS: usize = 2048;

/// One connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// Its id, 1 to 128 letters, digits, dots, dashes and underscores.
    pub id: String,
    /// What the user calls it.
    pub display_name: String,
    /// Whose interface it is, `custom` by default.
    pub provider: String,
    /// The key; `None` when it was dropped or is of a lost secret key.
    pub api_key: Option<SecretText>,
    /// The address; the provider's own when absent.
    pub base_url: Option<String>,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds.
    pub updated_at: i64,
}

/// What a new connection is made of.
#[derive(Clone, Debug)]
pub struct NewConnection {
    /// What the user calls it, 1 to 128 characters.
    pub display_name: String,
    /// Whose interface it is.
    pub provider: String,
    /// The key.
    pub api_key: SecretText,
    /// The address.
    pub base_url: Option<String>,
}

/// What is changed; `None` keeps.
#[derive(Clone, Debug, Default)]
pub struct ConnectionChange {
    /// A new name.
    pub display_name: Option<String>,
    /// Another interface.
    pub provider: Option<String>,
    /// A fresh key.
    pub api_key: Option<SecretText>,
    /// Another address, or none. Without a fresh key the key is dropped: it was entered for the old address.
    pub base_url: Option<Option<String>>,
}

/// The file's entry, the key as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    id: String,
    display_name: String,
    #[serde(default = "custom")]
    provider: String,
    #[serde(default)]
    api_key: Option<String>,
    #[serde(default)]
    base_url: Option<String>,
    created_at: i64,
    updated_at: i64,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

fn custom() -> String {
    "custom".to_owned()
}

impl Entry {
    fn destination(&self) -> Destination {
        let address = self.base_url.as_deref().unwrap_or_default().trim().trim_end_matches('/');
        Destination::of_place(&json!(["provider connection", address]))
    }

    fn open(self, cipher: Option<&Cipher>) -> Connection {
        let destination = self.destination();
        let api_key = self.api_key.and_then(|stored| destination.open(cipher, &stored).value());
        Connection {
            id: self.id,
            display_name: self.display_name,
            provider: self.provider,
            api_key,
            base_url: self.base_url,
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}

/// The connections of a folder.
#[derive(Clone, Debug)]
pub struct ConnectionStore {
    folder: Folder,
}

impl ConnectionStore {
    /// The store in `<persistence dir>/provider-connections`.
    #[must_use]
    pub fn new(folder: std::path::PathBuf) -> Self {
        Self { folder: Folder::new(folder, ".provider-connections.lock") }
    }

    /// All connections, the oldest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn list(&self, cipher: Option<&Cipher>) -> Result<Vec<Connection>, SettingsError> {
        Ok(self.entries()?.into_iter().map(|entry| entry.open(cipher)).collect())
    }

    /// Whether a connection has a key, whether or not a configured secret key opens it.
    pub(crate) fn holds_key(&self, id: &str) -> bool {
        let entries = self.entries().unwrap_or_default();
        entries.iter().any(|entry| entry.id == id && entry.api_key.as_ref().is_some_and(|key| !key.trim().is_empty()))
    }

    /// One connection.
    ///
    /// # Errors
    /// [`SettingsError::NotFound`], or when the file cannot be read.
    pub fn get(&self, id: &str, cipher: Option<&Cipher>) -> Result<Connection, SettingsError> {
        let entries = self.entries()?;
        let known = || entries.iter().map(|entry| entry.id.clone()).collect();
        let entry = entries.iter().find(|entry| entry.id == id).ok_or_else(|| not_found(id, known()))?;
        Ok(entry.clone().open(cipher))
    }

    /// Adds a connection.
    ///
    /// # Errors
    /// [`SettingsError::NoCipher`] without a cipher, [`SettingsError::Full`], [`SettingsError::Invalid`].
    pub fn create(&self, new: NewConnection, cipher: Option<&Cipher>) -> Result<Connection, SettingsError> {
        let cipher = cipher.ok_or(SettingsError::NoCipher)?;
        let NewConnection { display_name, provider, api_key, base_url } = new;
        let now = now();
        let mut entry = Entry {
            id: uuid::Uuid::new_v4().simple().to_string(),
            display_name,
            provider,
            api_key: None,
            base_url,
            created_at: now,
            updated_at: now,
            extra: Map::new(),
        };
        check(&entry)?;
        entry.api_key = Some(entry.destination().seal(cipher, api_key.expose()));
        self.change(|entries| {
            if entries.len() >= MAX_CONNECTIONS {
                return Err(SettingsError::Full { what: "provider connections", limit: MAX_CONNECTIONS });
            }
            entries.push(entry.clone());
            Ok(())
        })?;
        Ok(entry.open(Some(cipher)))
    }

    /// Changes a connection.
    ///
    /// # Errors
    /// [`SettingsError::NotFound`], [`SettingsError::Invalid`], [`SettingsError::NoCipher`] for a key without a cipher.
    pub fn update(
        &self,
        id: &str,
        change: ConnectionChange,
        cipher: Option<&Cipher>,
    ) -> Result<Connection, SettingsError> {
        let ConnectionChange { display_name, provider, api_key, base_url } = change;
        let mut changed = None;
        self.change(|entries| {
            let known = entries.iter().map(|entry| entry.id.clone()).collect();
            let entry = entries.iter_mut().find(|entry| entry.id == id).ok_or_else(|| not_found(id, known))?;
            let before = entry.destination();
            entry.display_name = display_name.unwrap_or_else(|| entry.display_name.clone());
            entry.provider = provider.unwrap_or_else(|| entry.provider.clone());
            entry.base_url = base_url.unwrap_or_else(|| entry.base_url.clone());
            entry.updated_at = now();
            check(entry)?;
            match (&api_key, cipher) {
                (Some(key), Some(cipher)) => entry.api_key = Some(entry.destination().seal(cipher, key.expose())),
                (Some(_), None) => return Err(SettingsError::NoCipher),
                (None, _) if entry.destination() != before => entry.api_key = None,
                (None, _) => {}
            }
            changed = Some(entry.clone());
            Ok(())
        })?;
        changed.map(|entry| entry.open(cipher)).ok_or_else(|| not_found(id, Vec::new()))
    }

    /// Removes a connection. Whether it is still used is the caller's to ask.
    ///
    /// # Errors
    /// [`SettingsError::NotFound`].
    pub fn delete(&self, id: &str) -> Result<(), SettingsError> {
        self.change(|entries| {
            let known = entries.iter().map(|entry| entry.id.clone()).collect();
            let count = entries.len();
            entries.retain(|entry| entry.id != id);
            if entries.len() == count { Err(not_found(id, known)) } else { Ok(()) }
        })
    }

    /// Gives a configuration the key and address of the connection it names, if it names one. The connection alone says where the
    /// key goes: other addresses of the configuration are taken out.
    ///
    /// # Errors
    /// [`SettingsError::NoConnection`] when it is gone and the configuration has no key of its own; [`SettingsError::NoKey`].
    pub fn resolve(&self, owner: &str, config: &mut LlmConfig, cipher: Option<&Cipher>) -> Result<(), SettingsError> {
        let Some(id) = config.provider_connection_id.clone().filter(|id| !id.is_empty()) else { return Ok(()) };
        match self.get(&id, cipher) {
            // Without its key it would be asked with one of the environment.
            Ok(connection) if connection.api_key.is_none() => Err(SettingsError::NoKey(id)),
            Ok(connection) => {
                config.base_url = connection.base_url;
                config.ollama_base_url = None;
                config.aws_bedrock_runtime_endpoint = None;
                config.api_key = connection.api_key;
                Ok(())
            }
            Err(SettingsError::NotFound { .. }) if config.api_key.is_some() => {
                tracing::warn!(
                    owner,
                    connection = id,
                    "the provider connection is gone, the configuration's own key is used"
                );
                Ok(())
            }
            Err(SettingsError::NotFound { .. }) => {
                Err(SettingsError::NoConnection { owner: owner.to_owned(), connection: id })
            }
            Err(other) => Err(other),
        }
    }

    fn entries(&self) -> Result<Vec<Entry>, SettingsError> {
        let Some(file) = self.folder.read(FILE)? else { return Ok(Vec::new()) };
        let damaged = |reason: String| SettingsError::Damaged { path: self.folder.file(FILE), reason };
        if file.get("schema_version").and_then(Value::as_u64).is_some_and(|version| version > VERSION) {
            return Err(damaged("it was written by a newer version".to_owned()));
        }
        let entries = file.get("connections").unwrap_or(&Value::Null);
        if entries.is_null() {
            return Ok(Vec::new());
        }
        serde_path_to_error::deserialize(entries)
            .map_err(|error| damaged(Invalid::of(&error).below("connections").to_string()))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Entry>) -> Result<(), SettingsError>) -> Result<(), SettingsError> {
        let lock = self.folder.lock()?;
        let mut entries = self.entries()?;
        change(&mut entries)?;
        self.folder.write(&lock, FILE, &json!({"schema_version": VERSION, "connections": entries}))
    }
}

fn not_found(id: &str, known: Vec<String>) -> SettingsError {
    SettingsError::NotFound { what: "provider connection", name: id.to_owned(), known }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn check(entry: &Entry) -> Result<(), Invalid> {
    for (member, text) in [("display_name", &entry.display_name), ("provider", &entry.provider)] {
        if text.is_empty() || text.chars().count() > LONGEST_NAME {
            return Err(Invalid::new(member, format!("must have 1 to {LONGEST_NAME} characters")));
        }
    }
    if entry.base_url.as_ref().is_some_and(|url| url.chars().count() > LONGEST_ADDRESS) {
        return Err(Invalid::new("base_url", format!("must have at most {LONGEST_ADDRESS} characters")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
