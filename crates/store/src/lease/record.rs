//! `owner_lease.json` itself.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::LeaseOwner;
use crate::{atomic, error::StoreError, state_file::read_json};

/// The file's members; host and pid are absent in files of older servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) owner_instance_id: String,
    pub(super) generation: u64,
    /// Unix seconds.
    pub(super) expires_at: f64,
    #[serde(default)]
    pub(super) owner_host: Option<String>,
    #[serde(default)]
    pub(super) owner_pid: Option<u32>,
}

impl Record {
    pub(super) fn of(owner: &LeaseOwner, generation: u64, expires_at: f64) -> Self {
        Self {
            owner_instance_id: owner.id().to_owned(),
            generation,
            expires_at,
            owner_host: Some(owner.host().to_owned()),
            owner_pid: Some(owner.pid()),
        }
    }

    /// A lease that cannot be read is no lease, as in the reference.
    pub(super) fn read(path: &Path) -> Option<Self> {
        read_json(path).unwrap_or_else(|error| {
            tracing::warn!(%error, "lease is unreadable and counts as free");
            None
        })
    }

    /// Not synced: after a crash of the machine nobody is the owner anyway.
    pub(super) fn write(&self, path: &Path) -> Result<(), StoreError> {
        let json = serde_json::to_vec(self).map_err(|source| StoreError::Encode {
            what: "the lease".to_owned(),
            source: std::sync::Arc::new(source),
        })?;
        atomic::replace(path, &json, false)
    }
}
