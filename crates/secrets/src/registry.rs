//! The secrets of one conversation, by name (F1-SCR rows).

use std::{
    collections::VecDeque,
    fmt,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::{Duration, Instant},
};

use openhands_protocol::secret::SecretText;
use serde_json::{Map, Value, json};

use crate::{
    cipher::Cipher,
    mask::{Mask, StreamMask},
    source::{Exposure, InvalidSecret, Kind, Source},
};

/// A failed look-up is not tried again before this time is over (F1-SCR-04).
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// How long a looked-up value serves further commands.
const FRESH: Duration = Duration::from_secs(5);
/// A conversation holds at most this many secrets.
const SECRETS_LIMIT: usize = 1000;
/// Replaced values that are still hidden in outputs.
const RETIRED_LIMIT: usize = 256;
/// Keys shorter than this are no keys but place-holders (`EMPTY`, `sk-none`): hiding them would spoil ordinary text.
const SHORTEST_KEY: usize = 12;

/// A secret whose value has to be fetched: GET `url` with `headers`, within 30 s; the body is the value.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The secret's name, to report the answer under.
    pub name: String,
    /// Where; may be relative to the server itself.
    pub url: String,
    /// Headers to send.
    pub headers: Vec<(String, SecretText)>,
}

impl Lookup {
    /// The address, with a relative one resolved on the server's own (`OH_INTERNAL_SERVER_URL`).
    #[must_use]
    pub fn absolute_url(&self, server: &str) -> String {
        if self.url.contains("://") {
            return self.url.clone();
        }
        format!("{}/{}", server.trim_end_matches('/'), self.url.trim_start_matches('/'))
    }
}

/// The secrets of a conversation. Shared by reference between the conversation and its tools.
#[derive(Default)]
pub struct SecretRegistry {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    secrets: Vec<Secret>,
    /// Values that were replaced; outputs may still hold them.
    retired: VecDeque<SecretText>,
    /// Keys that nobody may use by name, hidden all the same.
    keys: Vec<SecretText>,
    mask: Mask,
    /// Without the keys: a stream would be held back by the length of the longest one, and what the model writes cannot
    /// hold a key that was hidden in all it read.
    stream_mask: Mask,
}

struct Secret {
    name: String,
    source: Source,
    /// The latest answer to a look-up.
    looked_up: Option<(SecretText, Instant)>,
    failed: Option<Instant>,
}

impl fmt::Debug for SecretRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.read().secrets.iter().map(|secret| &secret.name)).finish()
    }
}

impl SecretRegistry {
    /// Reads the stored form `{"secret_sources": {name: source}}`. Entries that are not understood and values of lost keys are
    /// left out with a warning: a conversation must load without them.
    #[must_use]
    pub fn from_json(stored: &Value, cipher: Option<&Cipher>) -> Self {
        let registry = Self::default();
        if let Some(sources) = stored.get("secret_sources").and_then(Value::as_object) {
            for (name, source) in sources {
                if let Err(error) = registry.put(name, source, cipher) {
                    tracing::warn!(%error, "stored secret left out");
                }
            }
        }
        registry.write().renew_mask();
        registry
    }

    /// The form of [`SecretRegistry::from_json`].
    #[must_use]
    pub fn to_json(&self, exposure: Exposure<'_>) -> Value {
        let state = self.read();
        let sources: Map<String, Value> =
            state.secrets.iter().map(|secret| (secret.name.clone(), secret.source.write(exposure))).collect();
        json!({"secret_sources": sources})
    }

    /// Adds and replaces secrets: plain strings, `{value}`, or tagged sources. All or none.
    ///
    /// # Errors
    /// [`InvalidSecret`] names the first one that was not understood.
    pub fn update(&self, secrets: &Map<String, Value>, cipher: Option<&Cipher>) -> Result<(), InvalidSecret> {
        for (name, source) in secrets {
            Source::read(name, source, cipher)?;
        }
        let (known, new) = {
            let state = self.read();
            (state.secrets.len(), secrets.keys().filter(|name| state.find(name).is_none()).count())
        };
        if let Some(name) = secrets.keys().next_back().filter(|_| known + new > SECRETS_LIMIT) {
            let problem = format!("a conversation holds at most {SECRETS_LIMIT} secrets");
            return Err(InvalidSecret { name: name.clone(), problem });
        }
        for (name, source) in secrets {
            self.put(name, source, cipher)?;
        }
        self.write().renew_mask();
        Ok(())
    }

    /// Hides these values in outputs, too: keys of the server and of its models. Short ones, which are place-holders, are not.
    pub fn hide(&self, keys: impl IntoIterator<Item = SecretText>) {
        let mut state = self.write();
        let known = state.keys.len();
        for key in keys.into_iter().filter(|key| key.expose().len() >= SHORTEST_KEY) {
            if !state.keys.contains(&key) {
                state.keys.push(key);
            }
        }
        if state.keys.len() > known {
            state.renew_mask();
        }
    }

    fn put(&self, name: &str, source: &Value, cipher: Option<&Cipher>) -> Result<(), InvalidSecret> {
        let source = Source::read(name, source, cipher)?;
        let mut state = self.write();
        let new = Secret { name: name.to_owned(), source, looked_up: None, failed: None };
        match state.secrets.iter_mut().find(|secret| secret.name == name) {
            Some(secret) => {
                let old = std::mem::replace(secret, new);
                let value = old.value().cloned();
                state.retire(value);
            }
            None => state.secrets.push(new),
        }
        Ok(())
    }

    /// Names and descriptions, in the order they were added; for the prompt.
    #[must_use]
    pub fn names(&self) -> Vec<(String, Option<String>)> {
        self.read().secrets.iter().map(|secret| (secret.name.clone(), secret.source.description.clone())).collect()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read().secrets.is_empty()
    }

    /// The value of one secret, as far as it is known.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<SecretText> {
        self.read().find(name)?.value().cloned()
    }

    /// The secrets whose names occur in a command (in any case of letters), as environment variables for it. Those without a
    /// known value, and names no shell takes, are left out (F2-SECR-08r).
    #[must_use]
    pub fn mentioned(&self, text: &str) -> Vec<(String, String)> {
        let text = text.to_lowercase();
        let state = self.read();
        let named = state.secrets.iter().filter(|secret| secret.is_named_in(&text) && is_variable(&secret.name));
        named.filter_map(|secret| Some((secret.name.clone(), secret.value()?.expose().to_owned()))).collect()
    }

    /// What to fetch before a command runs: look-ups it mentions, unless just fetched, and those whose value is not
    /// known yet, so that it can be hidden. Failed ones wait a minute.
    #[must_use]
    pub fn lookups_for(&self, text: &str, now: Instant) -> Vec<Lookup> {
        let text = text.to_lowercase();
        let state = self.read();
        let due = state.secrets.iter().filter(|secret| {
            let waits = secret.failed.is_some_and(|at| now.saturating_duration_since(at) < RETRY_AFTER);
            let stale = secret.looked_up.as_ref().is_none_or(|(_, at)| now.saturating_duration_since(*at) >= FRESH);
            !waits && stale && (secret.looked_up.is_none() || secret.is_named_in(&text))
        });
        due.filter_map(|secret| match &secret.source.kind {
            Kind::Static(_) => None,
            Kind::Lookup { url, headers } => {
                Some(Lookup { name: secret.name.clone(), url: url.clone(), headers: headers.clone() })
            }
        })
        .collect()
    }

    /// Reports what a look-up gave; `None` when it failed.
    pub fn looked_up(&self, name: &str, value: Option<SecretText>, now: Instant) {
        let mut state = self.write();
        let Some(secret) = state.secrets.iter_mut().find(|secret| secret.name == name) else { return };
        let value = value.filter(|value| !value.expose().is_empty());
        secret.failed = value.is_none().then_some(now);
        // After a failure the old value stays known, and hidden.
        if let Some(value) = value {
            let old = secret.looked_up.replace((value.clone(), now)).map(|(old, _)| old).filter(|old| *old != value);
            state.retire(old);
            state.renew_mask();
        }
    }

    /// `text` with every value that was ever known replaced by `<secret-hidden>`.
    #[must_use]
    pub fn mask(&self, text: &str) -> String {
        let mask = self.read().mask.clone();
        mask.apply(text)
    }

    /// Masks all strings of a JSON value but its tags (`kind`, `type`) and inline images.
    pub fn mask_json(&self, json: &mut Value) {
        let mask = self.read().mask.clone();
        mask.apply_json(json);
    }

    /// A mask for a text that comes in pieces, with the values known now.
    #[must_use]
    pub fn stream_mask(&self) -> StreamMask {
        self.read().stream_mask.stream()
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(&self, name: &str) -> Option<&Secret> {
        self.secrets.iter().find(|secret| secret.name == name)
    }

    fn retire(&mut self, value: Option<SecretText>) {
        self.retired.extend(value);
        while self.retired.len() > RETIRED_LIMIT {
            self.retired.pop_front();
        }
    }

    fn renew_mask(&mut self) {
        let known = || self.secrets.iter().filter_map(Secret::value).chain(&self.retired).map(SecretText::expose);
        let mask = Mask::new(known().chain(self.keys.iter().map(SecretText::expose)));
        self.stream_mask = if self.keys.is_empty() { mask.clone() } else { Mask::new(known()) };
        self.mask = mask;
    }
}

impl Secret {
    fn value(&self) -> Option<&SecretText> {
        match &self.source.kind {
            Kind::Static(value) => value.as_ref(),
            Kind::Lookup { .. } => self.looked_up.as_ref().map(|(value, _)| value),
        }
    }

    /// `text` in lower case.
    fn is_named_in(&self, text: &str) -> bool {
        text.contains(&self.name.to_lowercase())
    }
}

fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests;
