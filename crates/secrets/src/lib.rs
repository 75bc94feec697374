//! Registry, masking and cipher of secrets.
//!
//! Knows the values and keeps them out of texts; reads no network: a secret that must be looked up is described by a
//! [`Lookup`], which the caller answers. Values never appear in `Debug` output.

mod binding;
mod cipher;
mod mask;
mod registry;
mod source;
mod token;

pub use binding::{Binding, Destination, keep_secrets, open_llms, seal_llms};
pub use cipher::{Cipher, Opened, is_token};
pub use mask::{HIDDEN, StreamMask};
pub use registry::{Lookup, SecretRegistry};
pub use source::{Exposure, InvalidSecret, is_secret_name};
