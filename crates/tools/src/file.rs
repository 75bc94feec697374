//! Files as tools read and write them: whatever the encoding, and never half written.

pub(crate) mod text;
pub(crate) mod write;

/// Larger files are refused, bytes.
pub(crate) const LARGEST_FILE: u64 = 10 * 1024 * 1024;

/// Larger contents are left out of observations, bytes: every client would get both versions with every edit.
pub(crate) const LARGEST_CONTENT: usize = 512 * 1024;

/// Why nothing was done; the model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);
