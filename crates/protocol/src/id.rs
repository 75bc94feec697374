//! Identifiers: conversations are UUIDs with two spellings, events are opaque strings.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A conversation. Written with dashes in the API and as 32 hex digits in directory names, webhook addresses and page tokens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConversationId(pub Uuid);

impl ConversationId {
    /// A random (version 4) id.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The 32 hex digits used on disk.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.simple().to_string()
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ConversationId {
    type Err = uuid::Error;

    /// Takes both spellings.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

/// An event. UUID version 4 with dashes when made here; foreign ids are kept as they are.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(Arc<str>);

impl EventId {
    /// A random (version 4) id.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4().hyphenated().to_string().into())
    }

    /// The same id for the same conversation and name, for ever (UUID version 5): how a repeated request stores a message once.
    #[must_use]
    pub fn derived(conversation: ConversationId, name: &str) -> Self {
        Self(Uuid::new_v5(&conversation.0, name.as_bytes()).hyphenated().to_string().into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for EventId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for EventId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
