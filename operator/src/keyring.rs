//! The operator's own keys: the root of init keys and report tokens.
//!
//! They live in one Secret of the operator's namespace, made on first use: `current` names the key for new pods, `key-<id>`
//! holds 32 random bytes in hex. Old keys stay, so that pods of before a rotation can still be initialised.

use std::{collections::BTreeMap, sync::Arc};

use hmac::{Hmac, KeyInit, Mac};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::ObjectMeta;
use openhands_protocol::{init::key_digest, secret::SecretText};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::{
    api::{CallError, Kube},
    names,
};

const CURRENT: &str = "current";
const KEY_PREFIX: &str = "key-";

/// The keys.
#[derive(Clone)]
pub struct Keyring {
    current: Arc<str>,
    keys: Arc<BTreeMap<String, Vec<u8>>>,
}

/// A keyring that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// The Secret can neither be read nor made.
    #[error("the keyring Secret {namespace}/{name} cannot be read or made: {source}")]
    Call {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What happened.
        source: CallError,
    },
    /// The Secret does not hold what it should.
    #[error("the keyring Secret {0} is damaged: {1}")]
    Damaged(String, &'static str),
}

/// An init key and what is public of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitKey {
    /// The key.
    pub key: SecretText,
    /// Its SHA-256 in hex, which goes into the pod's environment.
    pub digest: String,
}

impl Keyring {
    /// Reads the keyring, or makes it.
    ///
    /// # Errors
    /// When it cannot be read or made, or is damaged.
    pub async fn load(kube: &Kube, namespace: &str, name: &str) -> Result<Self, KeyringError> {
        let failed = |source| KeyringError::Call { namespace: namespace.to_owned(), name: name.to_owned(), source };
        // A few rounds: somebody else may make or delete it between two calls.
        for _ in 0..3 {
            match kube.get::<Secret>(namespace, name).await {
                Ok(secret) => return Self::read(&secret),
                Err(CallError::NotFound) => {}
                Err(error) => return Err(failed(error)),
            }
            match kube.create::<_, Secret>(namespace, &fresh(namespace, name)).await {
                Ok(secret) => return Self::read(&secret),
                Err(CallError::AlreadyExists) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(CallError::Conflict("it comes and goes".to_owned())))
    }

    fn read(secret: &Secret) -> Result<Self, KeyringError> {
        let name = secret.metadata.name.clone().unwrap_or_default();
        let data = secret.data.clone().unwrap_or_default();
        let text = |value: &ByteString| String::from_utf8(value.0.clone()).ok();
        let current = data
            .get(CURRENT)
            .and_then(text)
            .ok_or_else(|| KeyringError::Damaged(name.clone(), "`current` is missing"))?;
        let keys: BTreeMap<String, Vec<u8>> = data
            .iter()
            .filter_map(|(key, value)| {
                let id = key.strip_prefix(KEY_PREFIX)?;
                let bytes = hex::decode(text(value)?.trim()).ok().filter(|bytes| bytes.len() >= 32)?;
                Some((id.to_owned(), bytes))
            })
            .collect();
        let current = current.trim();
        if !keys.contains_key(current) {
            return Err(KeyringError::Damaged(name, "`current` names no key of at least 32 bytes in hex"));
        }
        Ok(Self { current: current.into(), keys: Arc::new(keys) })
    }

    /// Id of the key for new pods.
    #[must_use]
    pub fn current(&self) -> &str {
        &self.current
    }

    /// The init key of a pod; `None` when the key id is unknown.
    #[must_use]
    pub fn init_key(&self, key_id: &str, namespace: &str, pod: &str, nonce: &str) -> Option<InitKey> {
        let key = self.mac(key_id, &["init", namespace, pod, nonce])?;
        Some(InitKey { digest: key_digest(&key), key: SecretText::new(key) })
    }

    /// The token with which the server of a pod reports on a Conversation.
    #[must_use]
    pub fn report_token(&self, conversation_uid: &str, pod_uid: &str) -> SecretText {
        let mac = self.mac(&self.current, &["report", conversation_uid, pod_uid]).unwrap_or_default();
        SecretText::new(format!("{}.{conversation_uid}.{mac}", self.current))
    }

    /// The uid of the Conversation that a token speaks for, when it was made for that pod.
    #[must_use]
    pub fn verify_report_token(&self, token: &str, pod_uid: &str) -> Option<String> {
        let mut parts = token.splitn(3, '.');
        let (key_id, uid, given) = (parts.next()?, parts.next()?, parts.next()?);
        let expected = self.mac(key_id, &["report", uid, pod_uid])?;
        bool::from(expected.as_bytes().ct_eq(given.as_bytes())).then(|| uid.to_owned())
    }

    /// Hex of the HMAC over the parts, each with its length, so that no two lists of parts look the same.
    fn mac(&self, key_id: &str, parts: &[&str]) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.keys.get(key_id)?).ok()?;
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        Some(hex::encode(mac.finalize().into_bytes()))
    }
}

/// A random string of `bytes` bytes in hex.
#[must_use]
pub fn random_hex<const BYTES: usize>() -> String {
    hex::encode(rand::random::<[u8; BYTES]>())
}

fn fresh(namespace: &str, name: &str) -> Secret {
    let id = random_hex::<4>();
    let data = BTreeMap::from([(CURRENT.to_owned(), id.clone()), (format!("{KEY_PREFIX}{id}"), random_hex::<32>())]);
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(names::MANAGED_BY.to_owned(), names::MANAGER.to_owned())])),
            ..ObjectMeta::default()
        },
        string_data: Some(data),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

#[cfg(test)]
pub(crate) fn for_tests() -> Keyring {
    Keyring { current: "a".into(), keys: Arc::new(BTreeMap::from([("a".to_owned(), vec![7; 32])])) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_each_part_and_tokens_hold_for_their_pod_only() {
        let keyring = for_tests();
        let key = keyring.init_key("a", "n", "p", "o").unwrap();
        for (namespace, pod, nonce) in [("m", "p", "o"), ("n", "q", "o"), ("n", "p", "x"), ("np", "", "o")] {
            assert_ne!(keyring.init_key("a", namespace, pod, nonce).unwrap(), key);
        }
        assert_eq!(keyring.init_key("b", "n", "p", "o"), None);
        let token = keyring.report_token("conversation", "pod");
        assert_eq!(keyring.verify_report_token(token.expose(), "pod").as_deref(), Some("conversation"));
        assert_eq!(keyring.verify_report_token(token.expose(), "other"), None);
        assert_eq!(keyring.verify_report_token("a.conversation.00", "pod"), None);
    }
}
