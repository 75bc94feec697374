//! The message a Conversation starts with.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::reference::SecretKeyRef;

/// The first message of the user; the agent runs when it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.text) != has(self.secretRef)")
    .message("exactly one of initialMessage.text and initialMessage.secretRef must be set"))]
pub struct InitialMessage {
    /// The text, at most 32 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32_768))]
    pub text: Option<String>,
    /// The text, kept in a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretKeyRef>,
}
