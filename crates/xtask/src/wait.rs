//! Waiting for a condition with a bound. Knows nothing of what is waited for.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Asks `ready` again and again, with growing pauses up to a quarter of a second, until it gives a value.
///
/// # Errors
/// The error of `ready`, or that `what` did not come within `limit`.
pub(crate) fn until<T>(limit: Duration, what: &str, mut ready: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(10);
    loop {
        if let Some(value) = ready()? {
            return Ok(value);
        }
        if started.elapsed() >= limit {
            bail!("{what}: not within {} s", limit.as_secs());
        }
        nap(pause);
        pause = (pause * 3 / 2).min(Duration::from_millis(250));
    }
}

/// One pause inside a bounded loop.
pub(crate) fn nap(pause: Duration) {
    std::thread::park_timeout(pause);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_value_and_names_what_did_not_come() {
        let mut left = 3;
        let value = until(Duration::from_secs(5), "a count", || {
            left -= 1;
            Ok((left == 0).then_some("done"))
        });
        assert_eq!(value.unwrap(), "done");
        let error = until(Duration::ZERO, "the moon", || Ok(None::<()>)).unwrap_err();
        assert_eq!(error.to_string(), "the moon: not within 0 s");
    }
}
