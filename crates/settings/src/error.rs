//! Why something kept by a user cannot be read or changed. Texts name the thing and the fix and never hold a secret.

use std::path::PathBuf;

use openhands_protocol::expected::expected;
use openhands_store::StoreError;

/// A value that is not what its member takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", member.join("."))]
pub struct Invalid {
    /// The way to the member, from the outside in.
    pub member: Vec<String>,
    /// What is expected.
    pub reason: String,
}

impl Invalid {
    /// A problem of the member with this dotted name.
    pub fn new(member: &str, reason: impl Into<String>) -> Self {
        let member = member.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Self { member, reason: reason.into() }
    }

    /// The same problem one level further in.
    #[must_use]
    pub fn below(mut self, member: &str) -> Self {
        self.member.insert(0, member.to_owned());
        self
    }

    pub(crate) fn of(error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        let mut member: Vec<String> = error.path().iter().map(ToString::to_string).collect();
        let text = error.inner().to_string();
        if let Some(name) = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
            member.push(name.to_owned());
        }
        let reason = match expected(&text) {
            Some(expected) => format!("expected {expected}"),
            None => text.split(" at line ").next().unwrap_or_default().to_owned(),
        };
        Self { member, reason }
    }
}

/// A failed act on what a user keeps.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A name that cannot be a profile's.
    #[error(
        "{0:?} cannot be a profile's name: use 1 to 64 letters, digits, dots, dashes and underscores, a letter or digit first"
    )]
    InvalidName(String),
    /// There is no such thing.
    #[error("{what} {name:?} does not exist; there are: {}", listed(known))]
    NotFound {
        /// Its kind in a word or two, such as `profile`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The name is taken.
    #[error("{what} {name:?} already exists")]
    Exists {
        /// Its kind.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// As many as may be are there.
    #[error("at most {limit} {what} are kept: delete one first")]
    Full {
        /// What, in the plural.
        what: &'static str,
        /// How many.
        limit: usize,
    },
    /// The file cannot be understood; nothing was changed.
    #[error("{} cannot be read: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why, without contents.
        reason: String,
    },
    /// The file holds secrets that no configured key opens, and a change would lose them.
    #[error(
        "{} holds secrets of another key: set that key as OH_SECRET_KEY or add it to OH_PREVIOUS_SECRET_KEYS",
        .0.display()
    )]
    LostKey(PathBuf),
    /// A value was refused.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A model's configuration points at a provider connection that is gone.
    #[error("{owner} uses provider connection {connection:?}, which does not exist: choose another or create it again")]
    NoConnection {
        /// Who points there.
        owner: String,
        /// The connection's id.
        connection: String,
    },
    /// A stored configuration's key belongs to another address. It must not be used without its key either: another key, such as one of
    /// the environment, would go there instead.
    #[error("the key of {0} was stored for another address than it has now: enter it again")]
    KeyElsewhere(String),
    /// A provider connection without a key that could be used.
    #[error("provider connection {0:?} has no key for its address: enter it again")]
    NoKey(String),
    /// Something is still needed.
    #[error("{0}")]
    InUse(String),
    /// A secret would have to be stored in clear.
    #[error("secrets cannot be stored: OH_SECRET_KEY is not configured")]
    NoCipher,
    /// Another kind of agent than this server runs.
    #[error("{0}")]
    NotSupported(String),
    /// Somebody held the lock all the time.
    #[error("{} is in use by another process: try again", .0.display())]
    Busy(PathBuf),
    /// The disk.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for SettingsError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Locked { path, .. } => Self::Busy(path),
            other => Self::Store(other),
        }
    }
}

/// serde's name of a type, in words.
fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
