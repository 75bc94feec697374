//! Conversations of a server: start, look, delete.

use http::{Method, StatusCode};
use openhands_protocol::{ConversationId, ExecutionStatus, metrics::ConversationStats, secret::SecretText};
use serde::Deserialize;
use serde_json::Value;

use crate::{ClientError, Connection, connection::Key};

/// What a server made of a request to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// It made the conversation.
    New,
    /// It had the conversation already and changed nothing.
    Known,
}

/// The members of a conversation that followers need; everything else of the answer is dropped while it is read.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ConversationState {
    /// Where the run stands.
    pub execution_status: ExecutionStatus,
    /// UTC time of the last change.
    #[serde(default)]
    pub updated_at: Option<String>,
    /// Sums over model calls.
    #[serde(default)]
    pub stats: Option<ConversationStats>,
}

impl Connection {
    /// Starts a conversation (`POST /api/conversations`); idempotent by the body's `conversation_id`.
    ///
    /// # Errors
    /// When the server refuses or the exchange fails; in the latter case it may have acted, and repeating is safe.
    pub async fn start_conversation(&mut self, key: &SecretText, body: &Value) -> Result<Started, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| ClientError::Unusable {
            request: "POST /api/conversations".to_owned(),
            reason: error.to_string(),
        })?;
        let answer = self.exchange(Method::POST, "/api/conversations", &Key::Session(key), Some(body)).await?.ok()?;
        Ok(if answer.status == StatusCode::CREATED { Started::New } else { Started::Known })
    }

    /// Looks at a conversation; `None` when the server does not know it.
    ///
    /// # Errors
    /// When the server refuses or the exchange fails.
    pub async fn get_conversation(
        &mut self,
        key: &SecretText,
        id: ConversationId,
    ) -> Result<Option<ConversationState>, ClientError> {
        let answer = self.exchange(Method::GET, &format!("/api/conversations/{id}"), &Key::Session(key), None).await?;
        if answer.status == StatusCode::NOT_FOUND { Ok(None) } else { answer.ok()?.json().map(Some) }
    }

    /// Whether the server takes this session key (it counts conversations, the cheapest guarded call).
    ///
    /// # Errors
    /// When the exchange fails or the server answers neither success nor 401.
    pub async fn accepts(&mut self, key: &SecretText) -> Result<bool, ClientError> {
        let answer = self.exchange(Method::GET, "/api/conversations/count", &Key::Session(key), None).await?;
        if answer.status == StatusCode::UNAUTHORIZED { Ok(false) } else { answer.ok().map(|_| true) }
    }

    /// Deletes a conversation; an unknown one is no error.
    ///
    /// # Errors
    /// When the server refuses or the exchange fails.
    pub async fn delete_conversation(&mut self, key: &SecretText, id: ConversationId) -> Result<(), ClientError> {
        let answer =
            self.exchange(Method::DELETE, &format!("/api/conversations/{id}"), &Key::Session(key), None).await?;
        if answer.status == StatusCode::NOT_FOUND { Ok(()) } else { answer.ok().map(drop) }
    }
}
