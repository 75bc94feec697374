//! When a crashed child is started again: at once the first time, then with growing waits, and at some point not at all, so
//! that whoever watches the container sees it fail.

use std::time::Duration;

/// A child that lived this long was healthy.
const HEALTHY: Duration = Duration::from_secs(10);
/// The wait after the second crash in a row.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Crashes in a row after which the parent gives up.
const MOST_CRASHES: u32 = 20;

/// Counts crashes in a row.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    crashes: u32,
}

impl Restarts {
    /// A child crashed after having lived for `age`; how long to wait before the next one, `None` to give up.
    pub(super) fn after(&mut self, age: Duration) -> Option<Duration> {
        if age >= HEALTHY {
            self.crashes = 0;
        }
        self.crashes = self.crashes.saturating_add(1);
        match self.crashes {
            1 => Some(Duration::ZERO),
            crashes if crashes <= MOST_CRASHES => {
                let doublings = (crashes - 2).min(10);
                Some(FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_are_bounded_and_end() {
        let mut restarts = Restarts::default();
        let waits: Vec<_> = std::iter::from_fn(|| restarts.after(Duration::from_secs(1))).collect();
        assert_eq!(waits.len(), 20);
        assert_eq!(waits[..4].iter().map(Duration::as_millis).collect::<Vec<_>>(), [0, 50, 100, 200]);
        assert_eq!(waits.last(), Some(&LONGEST_WAIT));
        let mut restarts = Restarts::default();
        restarts.after(Duration::ZERO);
        restarts.after(Duration::ZERO);
        assert_eq!(restarts.after(HEALTHY), Some(Duration::ZERO), "a healthy life starts the count anew");
    }
}
