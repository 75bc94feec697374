//! Which conversations a directory holds, without opening any of them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use openhands_protocol::{ConversationId, ExecutionStatus};
use serde::Deserialize;
use serde_json::Value;

use crate::{error::StoreError, state_file::read_json};

/// A conversation as `meta.json` and `base_state.json` tell of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogEntry {
    /// Its id, from the directory's name.
    pub id: ConversationId,
    /// Its directory.
    pub dir: PathBuf,
    /// The whole of `meta.json`.
    pub meta: Value,
    /// The status it had when it was last written; `running` means that a server died.
    pub status: ExecutionStatus,
    /// UTC with `Z`; empty when `meta.json` has none.
    pub created_at: String,
    /// UTC with `Z`; that of the creation when `meta.json` has none.
    pub updated_at: String,
}

/// The index of a conversations directory.
#[derive(Debug)]
pub struct Catalog;

impl Catalog {
    /// Lists the conversations, oldest first, blocking. Directories that are no conversation or cannot be read are skipped
    /// with a warning; a missing directory is an empty catalog.
    #[must_use]
    pub fn scan(conversations_path: &Path) -> Vec<CatalogEntry> {
        let listing = match fs::read_dir(conversations_path) {
            Ok(listing) => listing,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                tracing::warn!(path = %conversations_path.display(), %error, "cannot list conversations");
                return Vec::new();
            }
        };
        let mut entries: Vec<CatalogEntry> = listing.filter_map(|item| Self::look_at(&item.ok()?.path())).collect();
        entries.sort_by(|left, right| (&left.created_at, left.id).cmp(&(&right.created_at, right.id)));
        entries
    }

    /// One conversation's directory, blocking; `None` (with a warning) when it is no conversation that can be loaded.
    #[must_use]
    pub fn look_at(dir: &Path) -> Option<CatalogEntry> {
        let name = dir.file_name()?.to_str()?;
        let id = (name.len() == 32).then(|| name.parse::<ConversationId>().ok()).flatten()?;
        match Self::read(id, dir) {
            Ok(Some(entry)) => Some(entry),
            // A server died before the creation was complete; whoever asked for it was never answered.
            Ok(None) => {
                tracing::warn!(conversation = %id, "conversation directory is incomplete, skipped");
                None
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(conversation = %id, %error, cause, "conversation cannot be read, skipped");
                None
            }
        }
    }

    fn read(id: ConversationId, dir: &Path) -> Result<Option<CatalogEntry>, StoreError> {
        /// The state is large; only this member is kept while it is read.
        #[derive(Deserialize)]
        struct State {
            #[serde(default)]
            execution_status: ExecutionStatus,
        }
        let Some(meta) = read_json::<Value>(&dir.join("meta.json"))? else { return Ok(None) };
        let Some(state) = read_json::<State>(&dir.join("base_state.json"))? else { return Ok(None) };
        if !meta.is_object() {
            return Ok(None);
        }
        let text = |name: &str| meta.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let created_at = text("created_at").unwrap_or_default();
        let updated_at = text("updated_at").unwrap_or_else(|| created_at.clone());
        Ok(Some(CatalogEntry { id, dir: dir.to_owned(), status: state.execution_status, created_at, updated_at, meta }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, name: &str, meta: Option<&str>, state: Option<&str>) {
        let dir = root.join(name);
        fs::create_dir_all(&dir).unwrap();
        meta.inspect(|text| fs::write(dir.join("meta.json"), text).unwrap());
        state.inspect(|text| fs::write(dir.join("base_state.json"), text).unwrap());
    }

    #[test]
    fn broken_and_foreign_directories_are_skipped() {
        let root = tempfile::tempdir().unwrap();
        let hex = |digit: char| digit.to_string().repeat(32);
        put(
            root.path(),
            &hex('b'),
            Some(r#"{"created_at":"2026-01-02T00:00:00Z"}"#),
            Some(r#"{"execution_status":"running"}"#),
        );
        put(
            root.path(),
            &hex('a'),
            Some(r#"{"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-03T00:00:00Z"}"#),
            Some(r#"{"agent":{"llm":{}},"execution_status":"finished"}"#),
        );
        put(root.path(), &hex('c'), Some("{"), Some("{}"));
        put(root.path(), &hex('d'), Some("{}"), None);
        put(root.path(), &hex('e'), Some("[]"), Some("{}"));
        put(root.path(), &hex('f'), Some("{}"), Some(r#"{"execution_status":7}"#));
        put(root.path(), "lost+found", Some("{}"), Some("{}"));
        fs::write(root.path().join(hex('0')), "a file").unwrap();
        let found: Vec<_> = Catalog::scan(root.path())
            .into_iter()
            .map(|entry| (entry.id.hex(), entry.status, entry.created_at, entry.updated_at))
            .collect();
        let [first, second] = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"].map(ToOwned::to_owned);
        assert_eq!(
            found,
            [
                (hex('a'), ExecutionStatus::Finished, first, "2026-01-03T00:00:00Z".to_owned()),
                (hex('b'), ExecutionStatus::Running, second.clone(), second),
            ]
        );
        assert_eq!(Catalog::scan(&root.path().join("absent")), []);
    }
}
