//! The settings of a server's user: one file, read and changed as a whole (F1-REG-09).

use std::collections::HashMap;

use openhands_protocol::{LlmConfig, secret::MASK};
use openhands_secrets::{Cipher, Destination, Opened, is_token};
use serde_json::{Map, Value, json};

use crate::{
    agent::AgentSettings,
    conversation::ConversationSettings,
    error::{Invalid, SettingsError},
    folder::Folder,
    llm::Show,
    merge::{merge_members, merge_patch},
    places,
};

const FILE: &str = "settings.json";
const VERSION: u64 = 6;
const READ: [&str; 7] = [
    "schema_version",
    "agent_settings",
    "conversation_settings",
    "active_profile",
    "active_agent_profile_id",
    "active_meta_profile",
    "misc_settings",
];

/// Tokens by their place, with the destination beside which they stood.
type Tokens = HashMap<String, (Destination, String)>;

/// All settings, secrets in clear.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Of agents.
    pub agent: AgentSettings,
    /// Of conversations.
    pub conversation: ConversationSettings,
    /// The profile that was activated last.
    pub active_profile: Option<String>,
    /// The agent profile that was activated last.
    pub active_agent_profile_id: Option<String>,
    /// The meta-profile that routes tasks.
    pub active_meta_profile: Option<String>,
    /// What clients keep here for themselves, unread.
    pub misc: Map<String, Value>,
    /// Members of the file that this version does not know.
    extra: Map<String, Value>,
    /// Tokens of secret keys that are not configured, by their place: written back as they are.
    lost: Tokens,
    /// Tokens that were stored for another address than they have now, by their place: written back as they are, so that the address
    /// stays refused.
    elsewhere: Tokens,
}

/// What is changed; `None` keeps.
#[derive(Clone, Debug, Default)]
pub struct SettingsChange {
    /// Laid over the agent settings; a null removes a member, which then has its default.
    pub agent: Option<Map<String, Value>>,
    /// Laid over the conversation settings; a null removes a member of an inner object only.
    pub conversation: Option<Map<String, Value>>,
    /// Laid over what clients keep.
    pub misc: Option<Map<String, Value>>,
    /// Names the active profile, or none.
    pub active_profile: Option<Option<String>>,
    /// Names the active agent profile, or none.
    pub active_agent_profile_id: Option<Option<String>>,
    /// Names the active meta-profile, or none.
    pub active_meta_profile: Option<Option<String>>,
}

impl Settings {
    /// Whether there is a key for the model.
    #[must_use]
    pub fn llm_api_key_is_set(&self) -> bool {
        self.agent.llm().is_some_and(|llm| llm.api_key.as_ref().is_some_and(|key| !key.expose().trim().is_empty()))
    }

    /// The model, to be used.
    ///
    /// # Errors
    /// [`SettingsError::KeyElsewhere`] when its address was changed under it: without its key it would be asked with one of the
    /// environment.
    pub fn usable_llm(&self) -> Result<Option<&LlmConfig>, SettingsError> {
        if self.elsewhere.keys().any(|place| is_of_model(place)) {
            return Err(SettingsError::KeyElsewhere("the settings' model".to_owned()));
        }
        Ok(self.agent.llm())
    }

    /// Gives the agent another model, whole; settings without one stay as they are, and the answer is false.
    pub fn set_llm(&mut self, config: &LlmConfig) -> bool {
        self.elsewhere.retain(|place, _| !is_of_model(place));
        self.agent.set_llm(config)
    }

    /// The answer that clients get.
    #[must_use]
    pub fn answer(&self, show: Show<'_>) -> Value {
        json!({
            "agent_settings": self.agent.json(show),
            "conversation_settings": self.conversation,
            "llm_api_key_is_set": self.llm_api_key_is_set(),
            "active_profile": self.active_profile,
            "active_agent_profile_id": self.active_agent_profile_id,
            "active_meta_profile": self.active_meta_profile,
            "misc_settings": self.misc,
        })
    }

    /// Changes what `change` says, or nothing at all. Secrets that are not sent, or sent as `**********`, are kept where their
    /// destination is the same, and dropped where it is another one; tokens are opened where they belong.
    ///
    /// # Errors
    /// [`SettingsError::Invalid`] names the first member that is wrong.
    pub fn apply(&mut self, change: &SettingsChange, cipher: Option<&Cipher>) -> Result<(), SettingsError> {
        let mut new = self.clone();
        if let Some(patch) = &change.agent {
            new.agent = self.patched_agent(patch, cipher)?;
            // Somebody has spoken about the model: what it says now is meant.
            new.elsewhere.retain(|place, _| !(patch.contains_key("llm") && is_of_model(place)));
        }
        if let Some(patch) = &change.conversation {
            let mut members = json!(self.conversation).as_object().cloned().unwrap_or_default();
            merge_members(&mut members, patch);
            new.conversation = ConversationSettings::read(&Value::Object(members))
                .map_err(|error| error.below("conversation_settings_diff"))?;
        }
        if let Some(patch) = &change.misc {
            merge_members(&mut new.misc, patch);
        }
        if let Some(name) = &change.active_profile {
            new.active_profile.clone_from(name);
        }
        if let Some(id) = &change.active_agent_profile_id {
            new.active_agent_profile_id.clone_from(id);
        }
        if let Some(name) = &change.active_meta_profile {
            let routes = new.agent.set_meta_profile(name.as_deref());
            new.active_meta_profile = name.clone().filter(|_| routes);
        }
        *self = new;
        Ok(())
    }

    fn patched_agent(
        &self,
        patch: &Map<String, Value>,
        cipher: Option<&Cipher>,
    ) -> Result<AgentSettings, SettingsError> {
        let below = |error: SettingsError| match error {
            SettingsError::Invalid(invalid) => invalid.below("agent_settings_diff").into(),
            other => other,
        };
        let kind = patch.get("agent_kind").and_then(Value::as_str).unwrap_or_else(|| self.agent.kind());
        // Another kind of agent starts afresh: the members of one mean nothing to the other.
        let same_kind = kind == self.agent.kind() || (kind == "llm" && self.agent.kind() == "openhands");
        let base = if same_kind { self.agent.plain().clone() } else { json!({"agent_kind": kind}) };
        let mut merged = base.as_object().cloned().unwrap_or_default();
        merge_patch(&mut merged, patch);
        let mut merged = Value::Object(merged);
        self.settle_secrets(&mut merged, patch, cipher);
        AgentSettings::from_client(merged).map_err(below)
    }

    /// Decides about every secret of patched settings, see [`Settings::apply`].
    fn settle_secrets(&self, merged: &mut Value, patch: &Map<String, Value>, cipher: Option<&Cipher>) {
        let mut before: HashMap<String, (Destination, String)> = HashMap::new();
        places::visit(&mut self.agent.plain().clone(), &mut |place, value| {
            let text = value.as_str().unwrap_or_default().to_owned();
            before.insert(place.path.clone(), (place.destination.clone(), text));
        });
        let mut sent: HashMap<String, String> = HashMap::new();
        places::visit(&mut Value::Object(patch.clone()), &mut |place, value| {
            sent.insert(place.path.clone(), value.as_str().unwrap_or_default().to_owned());
        });
        places::visit(merged, &mut |place, value| {
            let kept = || {
                let (destination, text) = before.get(&place.path)?;
                if *destination != place.destination {
                    tracing::warn!(
                        place = place.path,
                        "its address has changed, the stored secret is not kept: enter it again"
                    );
                    return None;
                }
                Some(text.clone())
            };
            let new = match sent.get(&place.path).map(String::as_str) {
                None | Some(MASK) => kept(),
                Some(text) => place.destination.open(cipher, text).value().map(|value| value.expose().to_owned()),
            };
            *value = new.map_or(Value::Null, Value::String);
        });
        places::remove_unset(merged);
    }
}

/// The settings in a folder.
#[derive(Clone, Debug)]
pub struct SettingsStore {
    folder: Folder,
}

impl SettingsStore {
    /// The store in the persistence folder.
    #[must_use]
    pub fn new(folder: std::path::PathBuf) -> Self {
        Self { folder: Folder::new(folder, ".settings.lock") }
    }

    /// The settings, defaults where there are none yet. A file that cannot be understood reads as defaults, with a warning: it is
    /// changed by nothing until somebody repairs it.
    ///
    /// # Errors
    /// [`SettingsError::Store`] when the disk fails.
    pub fn load(&self, cipher: Option<&Cipher>) -> Result<Settings, SettingsError> {
        match self.read(cipher) {
            Err(error @ SettingsError::Damaged { .. }) => {
                tracing::warn!(%error, "defaults are used instead");
                Ok(Settings::default())
            }
            other => other,
        }
    }

    /// Changes the settings under the lock; what `change` returns goes to the caller.
    ///
    /// # Errors
    /// [`SettingsError::Damaged`] when the file cannot be understood, and what `change` gives; the file is unchanged then.
    pub fn update<T>(
        &self,
        cipher: Option<&Cipher>,
        change: impl FnOnce(&mut Settings) -> Result<T, SettingsError>,
    ) -> Result<(Settings, T), SettingsError> {
        let lock = self.folder.lock()?;
        let mut settings = self.read(cipher)?;
        let given = change(&mut settings)?;
        self.folder.write(&lock, FILE, &stored(&settings, cipher))?;
        // Without a cipher secrets did not reach the disk: the answer is what the next reading gives.
        let settings = if cipher.is_none() { self.read(cipher)? } else { settings };
        Ok((settings, given))
    }

    fn read(&self, cipher: Option<&Cipher>) -> Result<Settings, SettingsError> {
        let Some(file) = self.folder.read(FILE)? else { return Ok(Settings::default()) };
        read(file, cipher)
            .map_err(|error| SettingsError::Damaged { path: self.folder.file(FILE), reason: error.to_string() })
    }
}

fn read(file: Value, cipher: Option<&Cipher>) -> Result<Settings, Invalid> {
    let Value::Object(mut members) = file else { return Err(Invalid::new("", "expected an object")) };
    if members.get("schema_version").and_then(Value::as_u64).is_some_and(|version| version > VERSION) {
        return Err(Invalid::new("schema_version", "written by a newer version"));
    }
    let (mut lost, mut elsewhere) = (HashMap::new(), HashMap::new());
    let agent = match members.remove("agent_settings").filter(|settings| !settings.is_null()) {
        Some(mut settings) => {
            places::visit(&mut settings, &mut |place, value| {
                open(place, value, cipher, &mut lost, &mut elsewhere);
            });
            places::remove_unset(&mut settings);
            AgentSettings::from_stored(settings).map_err(|error| error.below("agent_settings"))?
        }
        None => AgentSettings::default(),
    };
    let conversation = match members.get("conversation_settings").filter(|settings| !settings.is_null()) {
        Some(settings) => ConversationSettings::read(settings).map_err(|error| error.below("conversation_settings"))?,
        None => ConversationSettings::default(),
    };
    let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
    Ok(Settings {
        agent,
        conversation,
        active_profile: text("active_profile"),
        active_agent_profile_id: text("active_agent_profile_id"),
        active_meta_profile: text("active_meta_profile"),
        misc: members.get("misc_settings").and_then(Value::as_object).cloned().unwrap_or_default(),
        extra: members.into_iter().filter(|(name, _)| !READ.contains(&name.as_str())).collect(),
        lost,
        elsewhere,
    })
}

/// Opens the secret of a place. Tokens that cannot be opened, or not here, are noted.
fn open(place: &places::Place, value: &mut Value, cipher: Option<&Cipher>, lost: &mut Tokens, elsewhere: &mut Tokens) {
    let stored = value.as_str().unwrap_or_default();
    let note = |tokens: &mut Tokens| {
        tokens.insert(place.path.clone(), (place.destination.clone(), stored.to_owned()));
    };
    let opened = match place.destination.open(cipher, stored) {
        Opened::Value(plain) => Value::String(plain.expose().to_owned()),
        Opened::Unset => {
            if is_token(stored) {
                note(lost);
            }
            Value::Null
        }
        Opened::Elsewhere => {
            note(elsewhere);
            Value::Null
        }
    };
    *value = opened;
}

/// Whether a place is in the agent's model.
fn is_of_model(place: &str) -> bool {
    place.starts_with("/llm/")
}

fn stored(settings: &Settings, cipher: Option<&Cipher>) -> Value {
    let Settings {
        agent,
        conversation,
        active_profile,
        active_agent_profile_id,
        active_meta_profile,
        misc,
        extra,
        lost,
        elsewhere,
    } = settings;
    let mut agent = agent.json(cipher.map_or(Show::Masked, Show::Encrypted));
    restore(&mut agent, lost);
    restore(&mut agent, elsewhere);
    let mut file = json!({
        "schema_version": VERSION,
        "agent_settings": agent,
        "conversation_settings": conversation,
        "active_profile": active_profile,
        "active_agent_profile_id": active_agent_profile_id,
        "active_meta_profile": active_meta_profile,
        "misc_settings": misc,
    });
    if let Some(members) = file.as_object_mut() {
        members.extend(extra.clone());
    }
    file
}

/// Writes tokens that could not be opened back to where they stood, unless somebody has put something else there.
fn restore(agent: &mut Value, lost: &Tokens) {
    if lost.is_empty() {
        return;
    }
    for (path, (_, token)) in lost {
        if let Some(place) = agent.pointer_mut(path)
            && place.is_null()
        {
            *place = token.clone().into();
        }
    }
    // A token beside another address than it stood is not even kept.
    places::visit(agent, &mut |place, value| {
        let moved = lost
            .get(&place.path)
            .is_some_and(|(destination, token)| value.as_str() == Some(token) && *destination != place.destination);
        if moved {
            *value = Value::Null;
        }
    });
}

#[cfg(test)]
mod tests;
