//! The session Secret: the truth for a Conversation's session key and secret key, made once, off the claim path.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::ObjectMeta;
use openhands_protocol::secret::SecretText;

use crate::{
    api::CallError, context::Context, keyring::random_hex, names, pod::conversation_owner, view::ConversationView,
};

/// The keys of a Conversation's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionKeys {
    /// Opens the API.
    pub(crate) api_key: SecretText,
    /// Encrypts what the server stores.
    pub(crate) secret_key: SecretText,
}

/// Why there are no keys.
#[derive(Debug)]
pub(crate) enum NoKeys {
    /// A Secret of that name belongs to somebody else, or is damaged.
    Unusable(String),
    /// See [`CallError`].
    Call(CallError),
}

/// Reads the session Secret, or makes it.
pub(crate) async fn ensure(cx: &Context, view: &ConversationView) -> Result<SessionKeys, NoKeys> {
    let name = names::session_secret(&view.key.name);
    let namespace = &view.key.namespace;
    // The status names it once it was made; before that the first call makes it.
    let mut expected = view.status.session_key_secret_ref.is_some();
    for _ in 0..3 {
        if expected {
            match cx.kube.get::<Secret>(namespace, &name).await {
                Ok(secret) => return read(&secret, view),
                Err(CallError::NotFound) => {}
                Err(error) => return Err(NoKeys::Call(error)),
            }
        }
        match cx.kube.create::<_, Secret>(namespace, &fresh(&name, view)).await {
            Ok(secret) => return read(&secret, view),
            Err(CallError::AlreadyExists) => expected = true,
            Err(CallError::Refused(message)) => return Err(NoKeys::Unusable(format!("Secret {name:?}: {message}"))),
            Err(error) => return Err(NoKeys::Call(error)),
        }
    }
    Err(NoKeys::Call(CallError::Conflict("the session Secret comes and goes".to_owned())))
}

fn fresh(name: &str, view: &ConversationView) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(view.key.namespace.to_string()),
            labels: Some(BTreeMap::from([
                (names::MANAGED_BY.to_owned(), names::MANAGER.to_owned()),
                (names::CONVERSATION.to_owned(), view.key.name.to_string()),
            ])),
            owner_references: Some(vec![conversation_owner(&view.key.name, &view.uid)]),
            ..ObjectMeta::default()
        },
        immutable: None,
        string_data: Some(BTreeMap::from([
            (names::SESSION_API_KEY.to_owned(), random_hex::<32>()),
            (names::SECRET_KEY.to_owned(), random_hex::<32>()),
        ])),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

fn read(secret: &Secret, view: &ConversationView) -> Result<SessionKeys, NoKeys> {
    let name = secret.metadata.name.clone().unwrap_or_default();
    let owners = secret.metadata.owner_references.as_deref().unwrap_or_default();
    // Otherwise a Secret that somebody laid out beforehand would decide the keys.
    if !owners.iter().any(|owner| owner.uid == *view.uid && owner.controller == Some(true)) {
        return Err(NoKeys::Unusable(format!(
            "the Secret {name:?} exists and does not belong to this Conversation: delete it or rename the Conversation"
        )));
    }
    let key = |name: &str| {
        let ByteString(bytes) = secret.data.as_ref()?.get(name)?;
        let text = std::str::from_utf8(bytes).ok()?.trim();
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| SecretText::new(text))
    };
    match (key(names::SESSION_API_KEY), key(names::SECRET_KEY)) {
        (Some(api_key), Some(secret_key)) => Ok(SessionKeys { api_key, secret_key }),
        _ => Err(NoKeys::Unusable(format!(
            "the Secret {name:?} lacks {:?} or {:?}: delete the Secret and the Conversation",
            names::SESSION_API_KEY,
            names::SECRET_KEY
        ))),
    }
}
