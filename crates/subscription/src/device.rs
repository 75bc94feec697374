//! Signing in with a code that the person enters in a browser elsewhere.

use std::time::Duration;

use openhands_protocol::secret::SecretText;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    OAuthCredentials, SubscriptionError,
    issuer::{CodeAnswer, Issuer},
};

/// How long the person may take (F2-SUBS-11r).
const LIMIT: Duration = Duration::from_secs(900);
/// What the issuer's wish for slowness adds (RFC 8628, 3.5).
const SLOWER: Duration = Duration::from_secs(5);
const SLOWEST: Duration = Duration::from_secs(60);

/// A sign-in that waits for its code to be entered.
#[derive(Debug)]
pub struct DeviceLogin {
    device_auth_id: SecretText,
    user_code: String,
    verification_url: String,
    interval: Duration,
    not_before: Instant,
    end: Instant,
}

/// Where it stands.
#[derive(Debug)]
pub enum DevicePoll {
    /// The code has not been entered. Ask again after this.
    Pending(Duration),
    /// It has, and these are the tokens; nothing is stored yet.
    Done(OAuthCredentials),
}

impl DeviceLogin {
    pub(crate) async fn begin(issuer: &Issuer) -> Result<Self, SubscriptionError> {
        let code = issuer.user_code().await?;
        let now = Instant::now();
        Ok(Self {
            device_auth_id: SecretText::new(code.device_auth_id),
            user_code: code.user_code,
            verification_url: issuer.service().at("codex/device").into(),
            interval: Duration::from_secs(code.interval),
            not_before: now,
            end: now + LIMIT,
        })
    }

    /// Where the person goes.
    #[must_use]
    pub fn verification_url(&self) -> &str {
        &self.verification_url
    }

    /// What the person enters there. Whoever enters it signs this server in with their account: it is only for the one who asked.
    #[must_use]
    pub fn user_code(&self) -> &str {
        &self.user_code
    }

    /// How long to wait between two questions.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// How long the person still has.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Asks the issuer once, at most as often as it wants to be asked: questions that come too early are answered with what is
    /// known.
    ///
    /// # Errors
    /// [`SubscriptionError::Expired`] and [`SubscriptionError::Denied`] end the sign-in; after [`SubscriptionError::Unreachable`]
    /// it may be asked again.
    pub(crate) async fn poll(&mut self, issuer: &Issuer) -> Result<DevicePoll, SubscriptionError> {
        let now = Instant::now();
        if now >= self.end {
            return Err(SubscriptionError::Expired);
        }
        if now < self.not_before {
            return Ok(DevicePoll::Pending(self.not_before - now));
        }
        self.not_before = now + self.interval;
        match issuer.code_entered(self.device_auth_id.expose(), &self.user_code).await? {
            CodeAnswer::Entered { code, verifier } => {
                let redirect = String::from(issuer.service().at("deviceauth/callback"));
                issuer.exchange(&code, &redirect, &verifier).await.map(DevicePoll::Done)
            }
            CodeAnswer::Pending => Ok(DevicePoll::Pending(self.interval)),
            CodeAnswer::SlowDown => {
                self.interval = (self.interval + SLOWER).min(SLOWEST);
                self.not_before = Instant::now() + self.interval;
                Ok(DevicePoll::Pending(self.interval))
            }
        }
    }

    /// Asks until the code has been entered. An issuer that cannot be reached is asked again.
    pub(crate) async fn finish(
        mut self,
        issuer: &Issuer,
        cancel: &CancellationToken,
    ) -> Result<OAuthCredentials, SubscriptionError> {
        loop {
            let polled = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(SubscriptionError::Cancelled),
                polled = self.poll(issuer) => polled,
            };
            let wait = match polled {
                Ok(DevicePoll::Done(credentials)) => return Ok(credentials),
                Ok(DevicePoll::Pending(wait)) => wait,
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "asking again");
                    self.interval
                }
                Err(SubscriptionError::Expired) if self.remaining().is_zero() => {
                    return Err(SubscriptionError::TimedOut(LIMIT.as_secs()));
                }
                Err(error) => return Err(error),
            };
            tokio::select! {
                () = cancel.cancelled() => return Err(SubscriptionError::Cancelled),
                () = tokio::time::sleep(wait.min(self.remaining())) => {}
            }
        }
    }
}
