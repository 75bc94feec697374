//! Signing in and staying signed in, against a vendor that is as strict as the public flow.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod browser;
mod device;
mod login;
mod renewal;
mod stage;
