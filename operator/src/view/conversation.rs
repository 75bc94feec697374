//! A Conversation as the operator needs it.

use std::sync::Arc;

use jiff::Timestamp;
use openhands_crds::{Conversation, ConversationSpec, ConversationStatus, sandbox::StartPolicy, status::Condition};

use super::key::{Key, version_number};

/// A Conversation as the operator needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationView {
    /// Where it is.
    pub key: Key,
    /// Its uid.
    pub uid: Arc<str>,
    /// Its resource version.
    pub version: Arc<str>,
    /// Its generation.
    pub generation: i64,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Id of the conversation on the server.
    pub conversation_id: Arc<str>,
    /// The pool it names.
    pub pool: Option<Arc<str>>,
    /// Warm or cold.
    pub policy: StartPolicy,
    /// Whether there is an agent to start.
    pub wants_start: bool,
    /// The whole specification, dropped from memory once it was carried out; read again when needed.
    pub spec: Option<Arc<ConversationSpec>>,
    /// The status as it was written last.
    pub status: Arc<ConversationStatus>,
}

impl ConversationView {
    /// A condition of the status.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == kind)
    }

    /// Whether a condition is `True`.
    #[must_use]
    pub fn is(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == "True")
    }

    /// Whether everything the specification asks for was carried out.
    #[must_use]
    pub fn is_carried_out(&self) -> bool {
        self.status.sandbox.is_some() && (!self.wants_start || self.is("Started"))
    }

    /// The version as a number.
    #[must_use]
    pub fn version_number(&self) -> u64 {
        version_number(&self.version)
    }
}

impl From<Conversation> for ConversationView {
    fn from(conversation: Conversation) -> Self {
        let Conversation { metadata, spec, status } = conversation;
        let uid: Arc<str> = metadata.uid.as_deref().unwrap_or_default().into();
        let mut view = Self {
            key: Key::of(&metadata),
            version: metadata.resource_version.as_deref().unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            conversation_id: spec.conversation_id.as_deref().map_or_else(|| Arc::clone(&uid), Arc::from),
            uid,
            pool: spec.sandbox.pool_ref.as_ref().map(|pool| Arc::from(pool.name.as_str())),
            policy: if spec.sandbox.pool_ref.is_some() { spec.sandbox.policy } else { StartPolicy::ColdOnly },
            wants_start: spec.agent.is_some(),
            spec: None,
            status: Arc::new(status.unwrap_or_default()),
        };
        if !view.is_carried_out() {
            view.spec = Some(Arc::new(spec));
        }
        view
    }
}
