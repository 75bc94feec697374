//! Deferred initialisation of a warm server: `GET` and `POST /api/init` (F1-INIT rows), and the proof that comes before it.
//!
//! The operator never sends secrets to an address it has not proven: `GET /api/init?nonce=N` answers with the pod's UID and
//! HMAC-SHA-256(key = SHA-256(init key), message = pod UID, a line feed, N). The pod's specification carries only SHA-256 of
//! the key (`OH_INIT_KEY_SHA256`), so who can read pods cannot initialise them, and who answers on a recycled address cannot
//! make the proof.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{report::ReportTarget, secret::SecretText};

/// The header that carries the init key.
pub const INIT_KEY_HEADER: &str = "X-Init-API-Key";
/// Longest nonce a server signs, bytes.
pub const MAX_NONCE: usize = 128;

/// Where a deferred server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InitState {
    /// Waits for `POST /api/init`.
    Dormant,
    /// One such request is at work.
    Initializing,
    /// The API is open.
    Ready,
}

/// The answer of `GET` and `POST /api/init`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitStatus {
    /// Where the server stands.
    pub state: InitState,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// Only with a nonce: the pod this server runs in (`OPENHANDS_POD_UID`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// Only with a nonce: lower-case hex of [`proof`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
}

/// The body of `POST /api/init`. Only members that are given override the boot configuration; unknown members are refused.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InitRequest {
    /// Keys for `X-Session-API-Key`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "plain_list")]
    pub session_api_keys: Option<Vec<SecretText>>,
    /// The key that encrypts stored secrets; the first session key when neither this nor a boot key is given.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "plain")]
    pub secret_key: Option<SecretText>,
    /// Keys that still decrypt.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "plain_list")]
    pub previous_secret_keys: Option<Vec<SecretText>>,
    /// Where conversations are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversations_path: Option<String>,
    /// Where bash events are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bash_events_dir: Option<String>,
    /// Where work trees of conversations are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_worktree_root: Option<String>,
    /// Webhooks, as in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhooks: Option<Vec<Value>>,
    /// The address users reach the server at; its path becomes the root path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_url: Option<String>,
    /// More origins for CORS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_cors_origins: Option<Vec<String>>,
    /// How many conversations may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent_runs: Option<u32>,
    /// Environment of tools and look-ups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Telemetry settings, accepted and unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Value>,
    /// Ours, not the reference's: where to send the state report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<ReportTarget>,
}

fn plain<S: serde::Serializer>(secret: &Option<SecretText>, serializer: S) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(SecretText::expose).serialize(serializer)
}

fn plain_list<S: serde::Serializer>(secrets: &Option<Vec<SecretText>>, serializer: S) -> Result<S::Ok, S::Error> {
    secrets.as_ref().map(|list| list.iter().map(SecretText::expose).collect::<Vec<_>>()).serialize(serializer)
}

/// SHA-256 of an init key, lower-case hex: the value of `OH_INIT_KEY_SHA256`.
#[must_use]
pub fn key_digest(init_key: &str) -> String {
    hex::encode(Sha256::digest(init_key.as_bytes()))
}

/// Whether `init_key` is the one whose digest (hex, any case) is given; constant time.
#[must_use]
pub fn key_matches(init_key: &str, digest: &str) -> bool {
    key_digest(init_key).as_bytes().ct_eq(digest.to_ascii_lowercase().as_bytes()).into()
}

/// The proof for a nonce: lower-case hex of HMAC-SHA-256 keyed by the 32 bytes of the digest. `None` when `digest` is no
/// SHA-256 in hex or the nonce is empty or longer than [`MAX_NONCE`].
#[must_use]
pub fn proof(digest: &str, pod_uid: &str, nonce: &str) -> Option<String> {
    if nonce.is_empty() || nonce.len() > MAX_NONCE {
        return None;
    }
    let key = hex::decode(digest).ok().filter(|key| key.len() == 32)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    mac.update(pod_uid.as_bytes());
    mac.update(b"\n");
    mac.update(nonce.as_bytes());
    Some(hex::encode(mac.finalize().into_bytes()))
}

/// Whether an answer proves that its sender knows the digest and runs in that pod; constant time.
#[must_use]
pub fn proof_holds(digest: &str, pod_uid: &str, nonce: &str, answer: &InitStatus) -> bool {
    let (Some(expected), Some(given)) = (proof(digest, pod_uid, nonce), answer.proof.as_deref()) else {
        return false;
    };
    answer.pod_uid.as_deref() == Some(pod_uid) && bool::from(expected.as_bytes().ct_eq(given.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_key_pod_and_nonce_only() {
        let digest = key_digest("key");
        let answer = InitStatus {
            state: InitState::Dormant,
            error: None,
            pod_uid: Some("pod".into()),
            proof: proof(&digest, "pod", "n"),
        };
        assert!(proof_holds(&digest, "pod", "n", &answer));
        assert!(!proof_holds(&digest, "pod", "m", &answer));
        assert!(!proof_holds(&digest, "other", "n", &answer));
        assert!(!proof_holds(&key_digest("other"), "pod", "n", &answer));
        assert!(key_matches("key", &digest.to_uppercase()));
        assert!(!key_matches("Key", &digest));
        assert_eq!(proof(&digest, "pod", &"n".repeat(MAX_NONCE + 1)), None);
    }

    #[test]
    fn unknown_members_are_refused_and_secrets_travel_in_clear_but_never_in_debug() {
        assert!(serde_json::from_str::<InitRequest>(r#"{"nonsense": 1}"#).is_err());
        let request: InitRequest = serde_json::from_str(r#"{"secret_key": "s", "session_api_keys": ["k"]}"#).unwrap();
        assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"session_api_keys":["k"],"secret_key":"s"}"#);
        assert!(!format!("{request:?}").contains("\"s\""));
    }
}
