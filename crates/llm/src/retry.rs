//! How often and after what waits a call is made again (F1-LLM-07, F1-LLM-09, F2-ERR-24r).

use std::time::Duration;

use openhands_protocol::LlmConfig;
use rand::RngExt as _;

use crate::{LlmError, failure::Hint};

/// An allowance that is used up comes back with money or the next month, not with another attempt.
const USED_UP: [&str; 5] = [
    "insufficient_quota",
    "usage_limit_reached",
    "budget_exceeded",
    "budget has been exceeded",
    "usage limit has been reached",
];

/// The plan of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    attempts: u32,
    multiplier: f64,
    shortest: f64,
    longest: f64,
}

impl Retry {
    pub(crate) fn of(config: &LlmConfig) -> Self {
        // Whole seconds; nobody waits for 2^53 of them.
        #[expect(clippy::cast_precision_loss, reason = "waits stay far below 2^52 seconds")]
        let seconds = |value: u64| value.min(24 * 3600) as f64;
        Self {
            attempts: config.num_retries.max(1),
            multiplier: config.retry_multiplier.max(0.0),
            shortest: seconds(config.retry_min_wait),
            longest: seconds(config.retry_max_wait),
        }
    }

    /// Most attempts of a call.
    pub(crate) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long to wait before the next attempt; `None` when there is none. `attempt` counts from 1.
    pub(crate) fn wait_after(&self, attempt: u32, error: &LlmError, hint: Hint) -> Option<Duration> {
        if attempt >= self.attempts || !error.is_retryable() || is_used_up(error) || hint.again == Some(false) {
            return None;
        }
        let asked = match error {
            LlmError::RateLimit { retry_after: Some(asked), .. } => Some(*asked),
            _ => hint.after,
        };
        let seconds = match asked {
            Some(asked) => asked.as_secs_f64().min(self.longest),
            None => self.backoff(attempt, rand::rng().random_range(0.75..=1.0)),
        };
        Some(Duration::from_secs_f64(seconds))
    }

    /// Doubling waits between the bounds; spread, so that many conversations do not come back at the same moment.
    fn backoff(&self, attempt: u32, spread: f64) -> f64 {
        let grown = self.multiplier * 2f64.powi(i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX));
        let bounded = grown.min(self.longest).max(self.shortest);
        (bounded * spread).max(self.shortest.min(bounded))
    }
}

fn is_used_up(error: &LlmError) -> bool {
    let text = error.to_string().to_ascii_lowercase();
    USED_UP.iter().any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(attempts: u32, shortest: u64, longest: u64) -> Retry {
        Retry::of(&LlmConfig {
            num_retries: attempts,
            retry_min_wait: shortest,
            retry_max_wait: longest,
            retry_multiplier: 8.0,
            ..LlmConfig::default()
        })
    }

    fn rate_limit(message: &str, retry_after: Option<u64>) -> LlmError {
        LlmError::RateLimit { message: message.to_owned(), retry_after: retry_after.map(Duration::from_secs) }
    }

    #[test]
    fn attempts_are_counted_in_all() {
        let error = rate_limit("slow", None);
        assert!(retry(3, 0, 0).wait_after(2, &error, Hint::default()).is_some());
        assert_eq!(retry(3, 0, 0).wait_after(3, &error, Hint::default()), None);
        assert_eq!(retry(0, 0, 0).wait_after(1, &error, Hint::default()), None);
        assert_eq!(retry(1, 0, 0).wait_after(1, &error, Hint::default()), None);
    }

    #[test]
    fn only_what_may_heal_is_tried_again() {
        for (error, again) in [
            (LlmError::Timeout(String::new()), true),
            (LlmError::NoResponse(String::new()), true),
            (LlmError::BadRequest(String::new()), false),
            (LlmError::Cancelled, false),
            (rate_limit("You exceeded ... insufficient_quota", None), false),
        ] {
            assert_eq!(retry(5, 0, 0).wait_after(1, &error, Hint::default()).is_some(), again, "{error:?}");
        }
    }

    #[test]
    fn waits_grow_between_their_bounds() {
        let retry = retry(9, 8, 64);
        for (attempt, spread, expected) in [
            (1, 1.0, 8.0),
            (1, 0.75, 8.0),
            (2, 1.0, 16.0),
            (2, 0.75, 12.0),
            (4, 1.0, 64.0),
            (200, 0.75, 48.0),
            (5000, 1.0, 64.0),
        ] {
            assert!((retry.backoff(attempt, spread) - expected).abs() < 1e-9, "attempt {attempt}");
        }
    }

    #[test]
    fn a_hint_counts_for_every_failure() {
        let down = LlmError::ServiceUnavailable(String::new());
        let hint = |after: Option<u64>, again| Hint { after: after.map(Duration::from_secs), again };
        assert_eq!(retry(9, 8, 64).wait_after(1, &down, hint(Some(3), None)), Some(Duration::from_secs(3)));
        assert_eq!(retry(9, 8, 64).wait_after(1, &down, hint(Some(300), Some(true))), Some(Duration::from_secs(64)));
        assert_eq!(retry(9, 8, 64).wait_after(1, &down, hint(Some(3), Some(false))), None);
        let wrong = LlmError::BadRequest(String::new());
        assert_eq!(retry(9, 8, 64).wait_after(1, &wrong, hint(Some(3), Some(true))), None);
    }

    proptest::proptest! {
        #[test]
        fn no_wait_leaves_its_bounds(
            multiplier in -1.0f64..1e9, shortest in 0u64..200, longest in 0u64..200, attempt in 1u32..10_000, spread in 0.75f64..=1.0,
        ) {
            let config = LlmConfig {
                num_retries: u32::MAX, retry_multiplier: multiplier, retry_min_wait: shortest, retry_max_wait: longest,
                ..LlmConfig::default()
            };
            let wait = Retry::of(&config).backoff(attempt, spread);
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let (shortest, longest) = (shortest as f64, longest as f64);
            proptest::prop_assert!(wait >= shortest.min(longest) * 0.75 && wait <= shortest.max(longest), "{wait}");
            let random = Retry::of(&config).wait_after(attempt, &LlmError::Timeout(String::new()), Hint::default()).unwrap();
            proptest::prop_assert!(random.as_secs_f64() <= shortest.max(longest));
        }
    }

    #[test]
    fn the_provider_is_obeyed_up_to_the_longest_wait() {
        assert_eq!(
            retry(9, 8, 64).wait_after(1, &rate_limit("", Some(2)), Hint::default()),
            Some(Duration::from_secs(2))
        );
        assert_eq!(
            retry(9, 8, 64).wait_after(1, &rate_limit("", Some(9999)), Hint::default()),
            Some(Duration::from_secs(64))
        );
        assert_eq!(retry(9, 0, 0).wait_after(1, &rate_limit("", Some(2)), Hint::default()), Some(Duration::ZERO));
    }
}
