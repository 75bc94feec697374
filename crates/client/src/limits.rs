//! How long and how large an exchange may be.

use std::time::Duration;

/// Bounds of a [`crate::Connection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For the TCP connection.
    pub connect: Duration,
    /// For one exchange, from the request's first byte to the answer's last.
    pub exchange: Duration,
    /// For an answer's body, bytes.
    pub body: usize,
}

impl Default for Limits {
    /// 1 s to connect, 10 s for an exchange, 1 MiB for a body.
    fn default() -> Self {
        Self { connect: Duration::from_secs(1), exchange: Duration::from_secs(10), body: 1024 * 1024 }
    }
}
