//! A WarmPool as the operator needs it.

use std::sync::Arc;

use openhands_crds::{WarmPool, WarmPoolSpec, WarmPoolStatus};

use super::key::{Key, version_number};
use crate::pod;

/// A WarmPool as the operator needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Where it is.
    pub key: Key,
    /// Its uid.
    pub uid: Arc<str>,
    /// Its resource version.
    pub version: Arc<str>,
    /// Its generation.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What the user wants.
    pub spec: Arc<WarmPoolSpec>,
    /// Hash of the template.
    pub template_hash: Arc<str>,
    /// The status as it was written last.
    pub status: Arc<WarmPoolStatus>,
}

impl PoolView {
    /// The version as a number.
    #[must_use]
    pub fn version_number(&self) -> u64 {
        version_number(&self.version)
    }
}

impl From<WarmPool> for PoolView {
    fn from(pool: WarmPool) -> Self {
        let WarmPool { metadata, spec, status } = pool;
        Self {
            key: Key::of(&metadata),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            version: metadata.resource_version.as_deref().unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            template_hash: pod::template_hash(&spec.template).into(),
            spec: Arc::new(spec),
            status: Arc::new(status.unwrap_or_default()),
        }
    }
}
