//! The hash that tells members of the current template from older ones.

use openhands_crds::template::SandboxTemplate;
use sha2::{Digest, Sha256};

/// Hash of what the user wrote, ten hex digits. Defaults of the operator are not part of it, so that a new version of the
/// operator does not call every member outdated.
#[must_use]
pub fn template_hash(template: &SandboxTemplate) -> String {
    // Members are written in the order of their declaration and maps are sorted, so equal templates give equal text.
    let text = serde_json::to_string(template).unwrap_or_default();
    hex::encode(Sha256::digest(text.as_bytes())).chars().take(10).collect()
}
