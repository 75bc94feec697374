//! The user's own secrets, such as tokens for his tools: names, descriptions and values in `secrets.json`.

use openhands_protocol::secret::SecretText;
use openhands_secrets::Cipher;
use serde_json::{Map, Value, json};

use crate::{
    error::{Invalid, SettingsError},
    folder::Folder,
    name::is_secret_name,
};

const FILE: &str = "secrets.json";
const SECRETS: &str = "custom_secrets";
/// Most secrets of a user.
pub const MAX_SECRETS: usize = 1000;
/// Longest value, bytes.
pub const MAX_VALUE: usize = 1024 * 1024;

/// A secret without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretItem {
    /// The name, which is also the variable's.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
}

/// The secrets of a folder.
#[derive(Clone, Debug)]
pub struct SecretStore {
    folder: Folder,
}

impl SecretStore {
    /// The store in the persistence folder.
    #[must_use]
    pub fn new(folder: std::path::PathBuf) -> Self {
        Self { folder: Folder::new(folder, ".secrets.lock") }
    }

    /// All secrets in the order they were added.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn list(&self) -> Result<Vec<SecretItem>, SettingsError> {
        let file = self.read()?;
        let items = secrets_of(&file).map(|(name, secret)| SecretItem {
            name: name.clone(),
            description: secret.get("description").and_then(Value::as_str).map(str::to_owned),
        });
        Ok(items.collect())
    }

    /// One value; `None` when there is no such secret, or it was written under a key that is not configured.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn value(&self, name: &str, cipher: Option<&Cipher>) -> Result<Option<SecretText>, SettingsError> {
        let file = self.read()?;
        let secret = secrets_of(&file).find(|(known, _)| *known == name).map(|(_, secret)| secret);
        let stored = secret.and_then(|secret| match secret {
            Value::String(text) => Some(text.as_str()),
            other => other.get("secret").and_then(Value::as_str),
        });
        Ok(stored.and_then(|stored| Cipher::open(cipher, stored)))
    }

    /// Adds or replaces a secret. The others are not touched, whether or not they can be read.
    ///
    /// # Errors
    /// [`SettingsError::NoCipher`] without a cipher; [`SettingsError::Invalid`] for a name or value that cannot be one.
    pub fn put(
        &self,
        name: &str,
        value: &str,
        description: Option<&str>,
        cipher: Option<&Cipher>,
    ) -> Result<(), SettingsError> {
        if !is_secret_name(name) {
            let reason = "use 1 to 64 letters, digits and underscores, a letter first";
            return Err(Invalid::new("name", reason).into());
        }
        if value.len() > MAX_VALUE {
            return Err(Invalid::new("value", format!("must have at most {MAX_VALUE} bytes")).into());
        }
        let cipher = cipher.ok_or(SettingsError::NoCipher)?;
        self.change(|secrets| {
            if secrets.len() >= MAX_SECRETS && !secrets.contains_key(name) {
                return Err(SettingsError::Full { what: "secrets", limit: MAX_SECRETS });
            }
            let secret = json!({"name": name, "secret": cipher.encrypt(value), "description": description});
            secrets.insert(name.to_owned(), secret);
            Ok(())
        })
    }

    /// Removes a secret; whether there was one.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn delete(&self, name: &str) -> Result<bool, SettingsError> {
        if !secrets_of(&self.read()?).any(|(known, _)| known == name) {
            return Ok(false);
        }
        self.change(|secrets| {
            secrets.shift_remove(name);
            Ok(())
        })?;
        Ok(true)
    }

    fn read(&self) -> Result<Value, SettingsError> {
        let file = self.folder.read(FILE)?.unwrap_or_else(|| json!({}));
        let secrets = file.get(SECRETS).unwrap_or(&Value::Null);
        if file.is_object() && (secrets.is_object() || secrets.is_null()) {
            return Ok(file);
        }
        let reason = format!("{SECRETS} must be an object");
        Err(SettingsError::Damaged { path: self.folder.file(FILE), reason })
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Map<String, Value>) -> Result<(), SettingsError>,
    ) -> Result<(), SettingsError> {
        let lock = self.folder.lock()?;
        let mut file = self.read()?;
        if let Some(members) = file.as_object_mut() {
            let secrets = members.entry(SECRETS).or_insert_with(|| json!({}));
            if secrets.is_null() {
                *secrets = json!({});
            }
            if let Some(secrets) = secrets.as_object_mut() {
                change(secrets)?;
            }
            // Versions of credentials that the reference hands out: those of values that changed must not be met again.
            if let Some(versions) = members.get_mut("_credential_versions").and_then(Value::as_object_mut) {
                versions.clear();
            }
        }
        self.folder.write(&lock, FILE, &file)
    }
}

fn secrets_of(file: &Value) -> impl Iterator<Item = (&String, &Value)> {
    file.get(SECRETS).and_then(Value::as_object).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, SecretStore, Cipher) {
        let dir = tempfile::tempdir().unwrap();
        let store = SecretStore::new(dir.path().to_owned());
        (dir, store, Cipher::new(&SecretText::new("k"), &[]))
    }

    fn value(store: &SecretStore, name: &str, cipher: &Cipher) -> Option<String> {
        store.value(name, Some(cipher)).unwrap().map(|value| value.expose().to_owned())
    }

    #[test]
    fn secrets_are_kept_listed_and_deleted() {
        let (dir, store, cipher) = store();
        assert_eq!(store.list().unwrap(), []);
        store.put("B", "v-1", Some("what"), Some(&cipher)).unwrap();
        store.put("A", "v-2", None, Some(&cipher)).unwrap();
        store.put("B", "v-3", Some("what"), Some(&cipher)).unwrap();
        let item = |name: &str, description: Option<&str>| SecretItem {
            name: name.to_owned(),
            description: description.map(str::to_owned),
        };
        assert_eq!(store.list().unwrap(), [item("B", Some("what")), item("A", None)]);
        assert_eq!(value(&store, "B", &cipher).as_deref(), Some("v-3"));
        assert_eq!(value(&store, "C", &cipher), None);
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert!(!text.contains("v-2") && !text.contains("v-3"), "{text}");
        assert_eq!((store.delete("B").unwrap(), store.delete("B").unwrap()), (true, false));
    }

    #[test]
    fn names_and_values_are_checked_and_nothing_is_stored_in_clear() {
        let (_dir, store, cipher) = store();
        assert!(matches!(store.put("a b", "v", None, Some(&cipher)), Err(SettingsError::Invalid(_))));
        assert!(matches!(
            store.put("A", &"v".repeat(MAX_VALUE + 1), None, Some(&cipher)),
            Err(SettingsError::Invalid(_))
        ));
        assert!(matches!(store.put("A", "v", None, None), Err(SettingsError::NoCipher)));
    }

    #[test]
    fn what_others_wrote_is_read_and_kept() {
        let (dir, store, cipher) = store();
        let other = Cipher::new(&SecretText::new("other"), &[]);
        let llm_key = openhands_secrets::Destination::of(&openhands_protocol::LlmConfig::default()).seal(&cipher, "sk");
        let file = json!({"custom_secrets": {
            "OLD": "plain", "LOST": {"name": "LOST", "secret": other.encrypt("v"), "description": null},
            "MOVED": {"name": "MOVED", "secret": llm_key},
        }, "_credential_versions": {"OLD": "1"}, "new": 1});
        std::fs::write(dir.path().join(FILE), file.to_string()).unwrap();
        assert_eq!((value(&store, "OLD", &cipher).as_deref(), value(&store, "LOST", &cipher)), (Some("plain"), None));
        assert_eq!(value(&store, "MOVED", &cipher), None, "a model's key is not given out as a secret");
        store.put("A", "v", None, Some(&cipher)).unwrap();
        assert_eq!(value(&store, "LOST", &other).as_deref(), Some("v"));
        let after: Value = serde_json::from_slice(&std::fs::read(dir.path().join(FILE)).unwrap()).unwrap();
        assert_eq!((&after["new"], &after["_credential_versions"]), (&json!(1), &json!({})));
        std::fs::write(dir.path().join(FILE), "[]").unwrap();
        assert!(matches!(store.put("A", "v", None, Some(&cipher)), Err(SettingsError::Damaged { .. })));
    }
}
