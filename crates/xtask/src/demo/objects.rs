//! The objects that the demo applies.

use serde_json::{Value, json};

use super::NAMESPACE;
use super::model::Model;

/// The warm pool.
pub(crate) const POOL: &str = "demo";
/// The conversation.
pub(crate) const CONVERSATION: &str = "hello";

/// A namespace that refuses pods which are not restricted.
pub(crate) fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    })
}

/// Two dormant pods. They may reach the demo's own model beside the open internet.
pub(crate) fn warm_pool() -> Value {
    json!({
        "apiVersion": "openhands.dev/v1alpha1", "kind": "WarmPool", "metadata": {"name": POOL, "namespace": NAMESPACE},
        "spec": {
            "replicas": 2,
            "maxPods": 6,
            "template": {
                "image": crate::image::AGENT,
                "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            },
        },
    })
}

/// The conversation: make a file, and say so.
pub(crate) fn conversation(model: &Model, address: Option<&str>, file: &str) -> Value {
    let mut llm = json!({"model": model.name(), "apiKeySecretRef": {"name": "llm", "key": "api-key"}});
    if let (Some(address), Some(fields)) = (address, llm.as_object_mut()) {
        fields.insert("baseUrl".into(), address.into());
    }
    let task = format!(
        "Run a shell command that writes the words 'hello from the pod' and the host's name into {file}, look at the file, and finish with one sentence."
    );
    json!({
        "apiVersion": "openhands.dev/v1alpha1", "kind": "Conversation", "metadata": {"name": CONVERSATION, "namespace": NAMESPACE},
        "spec": {
            "sandbox": {"poolRef": {"name": POOL}, "policy": "WarmOnly"},
            "agent": {"llm": llm},
            "initialMessage": {"text": task},
        },
    })
}
