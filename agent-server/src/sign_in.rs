//! Sign-ins to a vendor's plan that wait for their codes to be entered. Tokens go into the user's store and nowhere else: no
//! caller ever sees one, nor what the issuer calls the sign-in.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use openhands_subscription::{
    BACKEND_VARIABLE, CredentialStore, DeviceLogin, DevicePoll, ISSUER_VARIABLE, Service, Status, Subscription,
    SubscriptionError,
};

use crate::config::Config;

/// How many may wait at once.
const MAX_WAITING: usize = 16;

/// A plan's sign-ins; clones mean the same.
#[derive(Clone)]
pub struct SignIns {
    subscription: Subscription,
    waiting: Arc<Mutex<Waiting>>,
    /// Held while tokens are stored or forgotten, so that what was signed out stays out.
    storing: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Waiting {
    /// Rises with every sign-out: what began before it comes to nothing.
    era: u64,
    /// By the secret that only the one who started knows; empty while the issuer is being asked.
    logins: HashMap<String, Option<DeviceLogin>>,
}

/// A sign-in that has begun.
pub struct Started {
    /// Names it to us.
    pub secret: String,
    /// What the person enters.
    pub user_code: String,
    /// Where.
    pub verification_url: String,
    /// How long the person has.
    pub remaining: Duration,
    /// How often it is worth asking.
    pub interval: Duration,
}

/// A sign-in that cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// Too many wait.
    #[error("{MAX_WAITING} sign-ins wait for their codes already; finish one, or sign out to give them all up")]
    TooMany,
    /// There is none of this name, or its time is over.
    #[error("there is no such sign-in, or it has expired; start again")]
    Unknown,
    /// What the sign-in itself says.
    #[error(transparent)]
    Failed(#[from] SubscriptionError),
}

impl SignIns {
    /// Sign-ins whose tokens are kept below `folder`, the user's. The issuer is the vendor, or what the configuration of the start says;
    /// no initialisation and no conversation changes that.
    ///
    /// # Errors
    /// [`SubscriptionError::Setting`].
    pub fn new(folder: &Path, config: &Config) -> Result<Self, SubscriptionError> {
        let service = Service::openai(|name| match name {
            ISSUER_VARIABLE => config.subscription_issuer_url.clone(),
            BACKEND_VARIABLE => config.subscription_backend_url.clone(),
            _ => None,
        })?;
        Ok(Self::with(Subscription::new(CredentialStore::new(folder.join("auth")), service)))
    }

    fn with(subscription: Subscription) -> Self {
        Self { subscription, waiting: Arc::default(), storing: Arc::default() }
    }

    /// The plan itself.
    #[must_use]
    pub const fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// Begins a sign-in by code.
    ///
    /// # Errors
    /// [`SignInError::TooMany`], [`SignInError::Failed`].
    pub async fn start(&self) -> Result<Started, SignInError> {
        let secret = hex::encode([uuid::Uuid::new_v4(), uuid::Uuid::new_v4()].map(uuid::Uuid::into_bytes).concat());
        let era = {
            let mut waiting = self.waiting();
            waiting.logins.retain(|_, login| login.as_ref().is_none_or(|login| !login.remaining().is_zero()));
            if waiting.logins.len() >= MAX_WAITING {
                return Err(SignInError::TooMany);
            }
            // Takes its place before the issuer is asked.
            waiting.logins.insert(secret.clone(), None);
            waiting.era
        };
        let place = Place { sign_ins: self.clone(), secret, era };
        let login = self.subscription.start_device().await?;
        let started = Started {
            secret: place.secret.clone(),
            user_code: login.user_code().to_owned(),
            verification_url: login.verification_url().to_owned(),
            remaining: login.remaining(),
            interval: login.interval(),
        };
        place.put_back(login);
        Ok(started)
    }

    /// Asks whether the code was entered; `None` while it was not. Tokens are stored before this returns, also when the caller
    /// has gone.
    ///
    /// # Errors
    /// [`SignInError::Unknown`], [`SignInError::Failed`]; after a failure that time may heal it can be asked again.
    pub async fn poll(&self, secret: &str) -> Result<Option<Status>, SignInError> {
        let (mut login, place) = {
            let mut waiting = self.waiting();
            let era = waiting.era;
            let slot = waiting.logins.get_mut(secret).ok_or(SignInError::Unknown)?;
            // Somebody else asks just now.
            let Some(login) = slot.take() else { return Ok(None) };
            (login, Place { sign_ins: self.clone(), secret: secret.to_owned(), era })
        };
        let this = self.clone();
        let asking = tokio::spawn(async move {
            match this.subscription.poll_device(&mut login).await {
                Ok(DevicePoll::Pending(_)) => {
                    place.put_back(login);
                    Ok(None)
                }
                Ok(DevicePoll::Done(credentials)) => {
                    let _storing = this.storing.lock().await;
                    if !place.counts() {
                        return Ok(None);
                    }
                    let status = Status { expires_at: credentials.expires_at, account_email: credentials.email() };
                    this.subscription.save(credentials).await?;
                    Ok(Some(status))
                }
                Err(SubscriptionError::Expired) => Err(SignInError::Unknown),
                Err(error) => {
                    if error.is_transient() {
                        place.put_back(login);
                    }
                    Err(error.into())
                }
            }
        });
        match asking.await {
            Ok(result) => result,
            Err(error) => Err(SubscriptionError::Unreachable(format!("a task broke off: {error}")).into()),
        }
    }

    /// Signs out, and gives up the sign-ins that wait.
    ///
    /// # Errors
    /// [`SubscriptionError::Storage`].
    pub async fn end(&self) -> Result<(), SubscriptionError> {
        let _storing = self.storing.lock().await;
        {
            let mut waiting = self.waiting();
            waiting.era += 1;
            waiting.logins.clear();
        }
        self.subscription.logout().await.map(drop)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a sign-in about which the issuer is being asked. Dropped, the sign-in is over.
struct Place {
    sign_ins: SignIns,
    secret: String,
    era: u64,
}

impl Place {
    /// Whether nobody has signed out meanwhile.
    fn counts(&self) -> bool {
        self.sign_ins.waiting().era == self.era
    }

    fn put_back(&self, login: DeviceLogin) {
        let mut waiting = self.sign_ins.waiting();
        if waiting.era == self.era {
            waiting.logins.insert(self.secret.clone(), Some(login));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.sign_ins.waiting();
        if waiting.era == self.era && waiting.logins.get(&self.secret).is_some_and(Option::is_none) {
            waiting.logins.remove(&self.secret);
        }
    }
}

#[cfg(test)]
mod tests;
