//! Credentials kept until they end: one renewal for all who wait, ahead of time, and never on behalf of a call that can do without.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Credentials, LlmError, TokenSource};

/// From then on a renewal is tried, and the old ones serve until it works.
const EARLY: Duration = Duration::from_secs(300);
/// From then on the old ones are not used: a call takes time to arrive.
const LATE: Duration = Duration::from_secs(20);
/// A renewal that failed, or brought nothing newer, is not tried again before.
const PAUSE: Duration = Duration::from_secs(30);
/// No renewal takes longer.
const PATIENCE: Duration = Duration::from_secs(40);

/// What an issuer gave.
#[derive(Clone, Debug)]
pub(super) struct Issued {
    pub(super) credentials: Credentials,
    /// `None` for those that do not end.
    pub(super) expires: Option<Timestamp>,
}

/// Somebody who hands out credentials.
#[async_trait]
pub(super) trait Issuer: Send + Sync {
    /// New ones.
    async fn issue(&self) -> Result<Issued, LlmError>;
}

/// An issuer whose credentials are kept.
pub(super) struct Kept<I> {
    issuer: I,
    held: Mutex<Option<Held>>,
    /// Held while a renewal is under way.
    gate: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Held {
    issued: Issued,
    tried: Instant,
}

enum State {
    Good(Credentials),
    /// Usable, but a renewal is due.
    Due(Credentials),
    Gone,
}

impl<I: Issuer> Kept<I> {
    pub(super) const fn new(issuer: I) -> Self {
        Self { issuer, held: Mutex::new(None), gate: tokio::sync::Mutex::const_new(()) }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> State {
        let held = self.held();
        let Some(Held { issued, tried }) = held.as_ref() else { return State::Gone };
        let credentials = issued.credentials.clone();
        let Some(expires) = issued.expires else { return State::Good(credentials) };
        let left = Duration::try_from(expires.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO);
        if left > EARLY {
            State::Good(credentials)
        } else if left <= LATE {
            State::Gone
        } else if tried.elapsed() < PAUSE {
            State::Good(credentials)
        } else {
            State::Due(credentials)
        }
    }

    async fn renew(&self) -> Result<Credentials, LlmError> {
        let issued = tokio::time::timeout(PATIENCE, self.issuer.issue()).await.unwrap_or_else(|_| {
            Err(LlmError::Timeout(format!("no credentials were issued within {} s", PATIENCE.as_secs())))
        });
        let tried = Instant::now();
        let mut held = self.held();
        match issued {
            Ok(issued) => {
                let credentials = issued.credentials.clone();
                *held = Some(Held { issued, tried });
                Ok(credentials)
            }
            Err(error) => {
                if let Some(held) = held.as_mut() {
                    held.tried = tried;
                }
                Err(error)
            }
        }
    }
}

#[async_trait]
impl<I: Issuer> TokenSource for Kept<I> {
    async fn current(&self) -> Result<Credentials, LlmError> {
        match self.state() {
            State::Good(credentials) => return Ok(credentials),
            State::Due(credentials) => {
                let Ok(_gate) = self.gate.try_lock() else { return Ok(credentials) };
                return Ok(self.renew().await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "credentials could not be renewed ahead of time");
                    credentials
                }));
            }
            State::Gone => {}
        }
        let _gate = self.gate.lock().await;
        // Somebody else may have renewed them meanwhile.
        match self.state() {
            State::Good(credentials) | State::Due(credentials) => Ok(credentials),
            State::Gone => self.renew().await,
        }
    }

    async fn renewed(&self, refused: &Credentials) -> Result<Credentials, LlmError> {
        let _gate = self.gate.lock().await;
        match self.state() {
            State::Good(credentials) | State::Due(credentials) if credentials != *refused => Ok(credentials),
            _ => self.renew().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Issues numbered tokens that live so long; the third and later ones fail when `fails` is set.
    struct Numbered {
        lives: Option<Duration>,
        issued: AtomicUsize,
        fails: bool,
    }

    #[async_trait]
    impl Issuer for Numbered {
        async fn issue(&self) -> Result<Issued, LlmError> {
            let number = self.issued.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            if self.fails && number > 0 {
                return Err(LlmError::ServiceUnavailable("down".to_owned()));
            }
            let expires = self.lives.map(|lives| Timestamp::now() + lives);
            Ok(Issued { credentials: Credentials::bearer(number.to_string()), expires })
        }
    }

    fn kept(lives: Option<u64>, fails: bool) -> Kept<Numbered> {
        Kept::new(Numbered { lives: lives.map(Duration::from_secs), issued: AtomicUsize::new(0), fails })
    }

    fn issued(kept: &Kept<Numbered>) -> usize {
        kept.issuer.issued.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn many_who_wait_cause_one_renewal() {
        for lives in [None, Some(3600)] {
            let kept = kept(lives, false);
            let all = futures::future::join_all((0..50).map(|_| kept.current())).await;
            assert!(all.into_iter().all(|credentials| credentials.unwrap() == Credentials::bearer("0")));
            assert_eq!(kept.current().await.unwrap(), Credentials::bearer("0"));
            assert_eq!(issued(&kept), 1);
        }
    }

    #[tokio::test]
    async fn what_is_about_to_end_is_renewed() {
        let kept = kept(Some(10), false);
        assert_eq!(kept.current().await.unwrap(), Credentials::bearer("0"));
        assert_eq!(kept.current().await.unwrap(), Credentials::bearer("1"));
    }

    #[tokio::test]
    async fn what_ends_soon_serves_until_a_renewal_works() {
        let kept = kept(Some(100), true);
        assert_eq!(kept.current().await.unwrap(), Credentials::bearer("0"));
        assert_eq!(kept.current().await.unwrap(), Credentials::bearer("0"));
        assert_eq!(issued(&kept), 1, "it was issued a moment ago");
        let Some(long_ago) = Instant::now().checked_sub(PAUSE) else { return };
        kept.held().as_mut().unwrap().tried = long_ago;
        assert_eq!(kept.current().await.unwrap(), Credentials::bearer("0"));
        assert_eq!(kept.current().await.unwrap(), Credentials::bearer("0"));
        assert_eq!(issued(&kept), 2, "one failed, the next is not tried at once");
    }

    #[tokio::test]
    async fn refused_ones_are_replaced_once() {
        let kept = kept(None, false);
        let first = kept.current().await.unwrap();
        let all = futures::future::join_all((0..50).map(|_| kept.renewed(&first))).await;
        assert!(all.into_iter().all(|credentials| credentials.unwrap() == Credentials::bearer("1")));
        assert_eq!(issued(&kept), 2);
    }

    #[tokio::test]
    async fn failures_are_told() {
        let kept = kept(Some(1), true);
        kept.current().await.unwrap();
        assert_eq!(kept.current().await.unwrap_err().code(), "LLMServiceUnavailableError");
    }
}
