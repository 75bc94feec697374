//! What a user keeps on a server: model profiles, settings, secrets and provider connections.
//!
//! The files are the reference's (protocol section 6): either server reads what the other wrote, with the same secret key. Every
//! file is written with mode 0600 into folders of mode 0700, whole or not at all, under the lock that the reference takes; reading
//! takes no lock, because a file is always whole. Stored keys are bound to their destination (decision 0011). Calls block: they are
//! made where that is allowed. Knows nothing of HTTP, conversations or how a model is asked.

pub mod agent;
pub mod connections;
pub mod conversation;
pub mod error;
mod folder;
mod lenient;
pub mod llm;
mod merge;
mod name;
mod places;
pub mod profiles;
pub mod schema;
pub mod secrets;
pub mod settings;
mod stores;

pub use connections::{Connection, ConnectionChange, ConnectionStore, NewConnection};
pub use error::{Invalid, SettingsError};
pub use llm::Show;
pub use name::{canonical_profile_name, is_profile_name, is_secret_name};
pub use profiles::{AtRest, MAX_PROFILES, ProfileStore, ProfileSummary};
pub use secrets::{SecretItem, SecretStore};
pub use settings::{Settings, SettingsChange, SettingsStore};
pub use stores::{Activated, Stores, persistence_dir};
