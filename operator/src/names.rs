//! Names that other parties see: labels, annotations, ports, paths and the names of objects the operator makes.

use sha2::{Digest, Sha256};

/// Who manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const MANAGER: &str = "openhands-operator";
/// Label: the pool a pod came from or was built after.
pub const POOL: &str = "openhands.dev/pool";
/// Label: `idle` or `claimed`.
pub const STATE: &str = "openhands.dev/state";
/// [`STATE`] of a member nobody claimed.
pub const IDLE: &str = "idle";
/// [`STATE`] of a pod that belongs to a Conversation.
pub const CLAIMED: &str = "claimed";
/// Label: uid of the Conversation a pod belongs to.
pub const CONVERSATION_UID: &str = "openhands.dev/conversation-uid";
/// Label: name of the Conversation a pod belongs to.
pub const CONVERSATION: &str = "openhands.dev/conversation";
/// Label: hash of the template a pod was built from.
pub const TEMPLATE_HASH: &str = "openhands.dev/template-hash";
/// Annotation: what makes a pod's init key its own.
pub const INIT_NONCE: &str = "openhands.dev/init-nonce";
/// Annotation: which key of the keyring a pod's init key comes from.
pub const KEY_ID: &str = "openhands.dev/key-id";
/// Annotation: when the pod was claimed.
pub const CLAIMED_AT: &str = "openhands.dev/claimed-at";
/// Annotation that keeps the cluster autoscaler away.
pub const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// Annotation that keeps Karpenter away.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Port of the agent-server in its pod.
pub const SERVER_PORT: u16 = 8000;
/// Name of the container that runs the agent-server.
pub const SERVER_CONTAINER: &str = "agent-server";
/// Where the agent-server lies in its container.
pub const SERVER_BINARY: &str = "/usr/local/bin/openhands-agent-server";
/// Key of the session Secret: opens the API.
pub const SESSION_API_KEY: &str = "session-api-key";
/// Key of the session Secret: encrypts what the server stores.
pub const SECRET_KEY: &str = "secret-key";
/// Path of the report endpoint.
pub const REPORT_PATH: &str = "/reports/v1";

/// Name of a pool's member.
#[must_use]
pub fn member(pool: &str, slot: u32) -> String {
    format!("{pool}-{slot}")
}

/// Name of the pod that is made for one Conversation: fixed, so that a second writer finds it taken.
#[must_use]
pub fn cold_pod(conversation: &str, uid: &str, incarnation: u32) -> String {
    let short: String = conversation.chars().take(40).collect();
    let digest = hex::encode(Sha256::digest(uid.as_bytes()));
    let digest = digest.get(..10).unwrap_or(&digest);
    format!("{}-{digest}-{incarnation}", short.trim_end_matches(['-', '.']))
}

/// Name of a Conversation's session Secret.
#[must_use]
pub fn session_secret(conversation: &str) -> String {
    format!("{conversation}-session")
}

/// Selector of a pool's unclaimed members.
#[must_use]
pub fn idle_selector(pool: &str) -> String {
    format!("{POOL}={pool},{STATE}={IDLE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_fixed_and_short_enough_for_labels() {
        let name = cold_pod(&"a".repeat(63), "3f1e", 0);
        assert!(name.len() <= 63, "{name}");
        assert_eq!(name, cold_pod(&"a".repeat(63), "3f1e", 0));
        assert_ne!(name, cold_pod(&"a".repeat(63), "3f1f", 0));
        assert_eq!(member("pool", 3), "pool-3");
    }
}
