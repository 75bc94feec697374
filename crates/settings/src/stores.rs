//! Everything a user keeps on one server, and what concerns more than one store at once.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use openhands_protocol::LlmConfig;
use openhands_secrets::Cipher;

use crate::{
    connections::{Connection, ConnectionStore},
    error::SettingsError,
    name::canonical_profile_name,
    profiles::ProfileStore,
    secrets::SecretStore,
    settings::{Settings, SettingsChange, SettingsStore},
};

/// Where a user's files are: the configured folder, else `.openhands` in his home, else in the current folder.
#[must_use]
pub fn persistence_dir(configured: Option<&str>, home: Option<&Path>) -> PathBuf {
    let configured = configured.map(str::trim).filter(|path| !path.is_empty());
    match (configured, home) {
        (Some("~"), Some(home)) => home.to_owned(),
        (Some(path), Some(home)) if path.starts_with("~/") => home.join(path.trim_start_matches("~/")),
        (Some(path), _) => PathBuf::from(path),
        (None, Some(home)) => home.join(".openhands"),
        (None, None) => PathBuf::from(".openhands"),
    }
}

/// The stores of one server. Clones share nothing but the files.
#[derive(Clone, Debug)]
pub struct Stores {
    /// Model profiles.
    pub profiles: ProfileStore,
    /// Provider connections.
    pub connections: ConnectionStore,
    /// Settings.
    pub settings: SettingsStore,
    /// The user's own secrets.
    pub secrets: SecretStore,
    cipher: Option<Arc<Cipher>>,
}

/// What activating a profile did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activated {
    /// The settings have the profile's model now.
    Applied,
    /// The settings are of an agent without a model; only the name was noted.
    Noted,
}

impl Stores {
    /// The stores below `dir`. Nothing is touched yet.
    #[must_use]
    pub fn new(dir: &Path, cipher: Option<Arc<Cipher>>) -> Self {
        let connections = ConnectionStore::new(dir.join("provider-connections"));
        Self {
            profiles: ProfileStore::new(dir.join("profiles"), connections.clone()),
            connections,
            settings: SettingsStore::new(dir.to_owned()),
            secrets: SecretStore::new(dir.to_owned()),
            cipher,
        }
    }

    /// What opens and encrypts; `None` when no secret key is configured.
    #[must_use]
    pub fn cipher(&self) -> Option<&Cipher> {
        self.cipher.as_deref()
    }

    /// A profile ready for use.
    ///
    /// # Errors
    /// As [`ProfileStore::load`].
    pub fn load_profile(&self, name: &str) -> Result<LlmConfig, SettingsError> {
        self.profiles.load(name, self.cipher())
    }

    /// Puts a profile that was just loaded into the settings and notes it as the active one.
    ///
    /// # Errors
    /// As [`SettingsStore::update`].
    pub fn activate(&self, name: &str, config: &LlmConfig) -> Result<Activated, SettingsError> {
        let (_, applied) = self.settings.update(self.cipher(), |settings| {
            settings.active_profile = Some(canonical_profile_name(name).to_owned());
            Ok(settings.set_llm(config))
        })?;
        Ok(if applied { Activated::Applied } else { Activated::Noted })
    }

    /// Changes the settings. Naming an active profile loads it, unless the change brings a model of its own.
    ///
    /// # Errors
    /// As [`Settings::apply`], [`ProfileStore::load`] and [`SettingsStore::update`].
    pub fn change_settings(&self, change: &SettingsChange) -> Result<Settings, SettingsError> {
        let own_llm = change.agent.as_ref().is_some_and(|agent| agent.contains_key("llm"));
        let named = change.active_profile.as_ref().and_then(Option::as_ref).filter(|_| !own_llm);
        let config = named.map(|name| self.load_profile(name)).transpose()?;
        let (settings, ()) = self.settings.update(self.cipher(), |settings| {
            settings.apply(change, self.cipher())?;
            if let Some(config) = &config {
                settings.set_llm(config);
            }
            Ok(())
        })?;
        Ok(settings)
    }

    /// Removes a profile; if it was the active one, none is active then.
    ///
    /// # Errors
    /// As [`ProfileStore::delete`] and [`SettingsStore::update`].
    pub fn delete_profile(&self, name: &str) -> Result<(), SettingsError> {
        self.profiles.delete(name)?;
        self.follow_active(name, None)
    }

    /// Renames a profile; if it was the active one, it stays that under its new name.
    ///
    /// # Errors
    /// As [`ProfileStore::rename`] and [`SettingsStore::update`].
    pub fn rename_profile(&self, from: &str, to: &str) -> Result<(), SettingsError> {
        self.profiles.rename(from, to)?;
        self.follow_active(from, Some(to))
    }

    fn follow_active(&self, old: &str, new: Option<&str>) -> Result<(), SettingsError> {
        let is_active = |settings: &Settings| {
            settings.active_profile.as_deref().map(canonical_profile_name) == Some(canonical_profile_name(old))
        };
        if !is_active(&self.settings.load(self.cipher())?) {
            return Ok(());
        }
        self.settings.update(self.cipher(), |settings| {
            if is_active(settings) {
                settings.active_profile = new.map(|name| canonical_profile_name(name).to_owned());
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Removes a provider connection that nothing uses; gives what was removed.
    ///
    /// # Errors
    /// [`SettingsError::InUse`] names the profiles that use it; [`SettingsError::NotFound`].
    pub fn delete_connection(&self, id: &str) -> Result<Connection, SettingsError> {
        let connection = self.connections.get(id, self.cipher())?;
        let mut users: Vec<String> = self
            .profiles
            .summaries()?
            .into_iter()
            .filter(|profile| profile.provider_connection_id.as_deref() == Some(id))
            .map(|profile| format!("profile {:?}", profile.name))
            .collect();
        let settings = self.settings.load(self.cipher())?;
        if settings.agent.llm().is_some_and(|llm| llm.provider_connection_id.as_deref() == Some(id)) {
            users.push("the agent settings".to_owned());
        }
        if !users.is_empty() {
            let text = format!("provider connection {id:?} is used by {}: change that first", users.join(", "));
            return Err(SettingsError::InUse(text));
        }
        self.connections.delete(id)?;
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use openhands_protocol::secret::SecretText;
    use serde_json::json;

    use super::*;
    use crate::{connections::NewConnection, profiles::AtRest};

    fn stores(dir: &Path) -> Stores {
        Stores::new(dir, Some(Arc::new(Cipher::new(&SecretText::new("k"), &[]))))
    }

    fn save(stores: &Stores, name: &str, config: &LlmConfig) {
        stores.profiles.save(name, config, AtRest::of_server(stores.cipher(), true), None).unwrap();
    }

    fn active(stores: &Stores) -> (Option<String>, String) {
        let settings = stores.settings.load(stores.cipher()).unwrap();
        (settings.active_profile.clone(), settings.agent.llm().unwrap().model.clone())
    }

    fn llm(model: &str) -> LlmConfig {
        LlmConfig { model: model.to_owned(), api_key: Some(SecretText::new("sk")), ..LlmConfig::default() }
    }

    #[test]
    fn folders_are_found() {
        let home = Some(Path::new("/home/u"));
        for (configured, home, expected) in [
            (Some("/data"), home, "/data"),
            (Some("~/x"), home, "/home/u/x"),
            (Some(" "), home, "/home/u/.openhands"),
            (None, home, "/home/u/.openhands"),
            (None, None, ".openhands"),
        ] {
            assert_eq!(persistence_dir(configured, home), Path::new(expected));
        }
    }

    #[test]
    fn the_active_profile_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let stores = stores(dir.path());
        save(&stores, "a", &llm("model-a"));
        save(&stores, "b", &llm("model-b"));
        assert_eq!(stores.activate("a.json", &stores.load_profile("a").unwrap()).unwrap(), Activated::Applied);
        assert_eq!(active(&stores), (Some("a".to_owned()), "model-a".to_owned()));
        let key = stores.settings.load(stores.cipher()).unwrap().agent.llm().unwrap().api_key.clone();
        assert_eq!(key, Some(SecretText::new("sk")));
        stores.rename_profile("a", "c").unwrap();
        assert_eq!(active(&stores).0.as_deref(), Some("c"));
        stores.delete_profile("b").unwrap();
        assert_eq!(active(&stores).0.as_deref(), Some("c"));
        stores.delete_profile("c").unwrap();
        assert_eq!(active(&stores), (None, "model-a".to_owned()));
    }

    #[test]
    fn naming_an_active_profile_loads_it_unless_a_model_comes_along() {
        let dir = tempfile::tempdir().unwrap();
        let stores = stores(dir.path());
        save(&stores, "a", &llm("model-a"));
        let mut change = SettingsChange { active_profile: Some(Some("a".to_owned())), ..SettingsChange::default() };
        stores.change_settings(&change).unwrap();
        assert_eq!(active(&stores), (Some("a".to_owned()), "model-a".to_owned()));
        change.agent = json!({"llm": {"model": "own"}}).as_object().cloned();
        stores.change_settings(&change).unwrap();
        assert_eq!(active(&stores).1, "own");
        change.active_profile = Some(Some("gone".to_owned()));
        change.agent = None;
        assert!(matches!(stores.change_settings(&change), Err(SettingsError::NotFound { .. })));
        change.active_profile = Some(None);
        stores.change_settings(&change).unwrap();
        assert_eq!(active(&stores), (None, "own".to_owned()));
    }

    #[test]
    fn connections_in_use_are_not_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let stores = stores(dir.path());
        let new = NewConnection {
            display_name: "c".to_owned(),
            provider: "custom".to_owned(),
            api_key: SecretText::new("sk"),
            base_url: None,
        };
        let id = stores.connections.create(new, stores.cipher()).unwrap().id;
        save(&stores, "p", &LlmConfig { provider_connection_id: Some(id.clone()), ..llm("m") });
        stores.activate("p", &stores.load_profile("p").unwrap()).unwrap();
        let error = stores.delete_connection(&id).unwrap_err().to_string();
        assert!(error.contains("profile \"p\", the agent settings"), "{error}");
        stores.delete_profile("p").unwrap();
        stores
            .change_settings(&SettingsChange {
                agent: json!({"llm": null}).as_object().cloned(),
                ..SettingsChange::default()
            })
            .unwrap();
        assert_eq!(stores.delete_connection(&id).unwrap().id, id);
    }
}
