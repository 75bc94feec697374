//! The stored tokens in use: read for every attempt, renewed in time, by one for all.
//!
//! Files are read anew each time, so a sign-out, or a renewal by another process, counts at once.

use std::sync::Arc;

use async_trait::async_trait;
use openhands_llm::{Credentials, LlmError, TokenSource};
use openhands_protocol::{LlmConfig, secret::SecretText};
use reqwest::header::{HeaderName, HeaderValue};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    BrowserLogin, CredentialStore, DeviceLogin, DevicePoll, OAuthCredentials, Service, SubscriptionError, Vendor,
    issuer::Issuer, store::with_tokens,
};

/// Names the account that pays.
const ACCOUNT: HeaderName = HeaderName::from_static("chatgpt-account-id");

/// Signing in to one vendor's plan, and what came of it; clones mean the same.
#[derive(Clone, Debug)]
pub struct Subscription {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    vendor: Vendor,
    store: CredentialStore,
    issuer: Issuer,
    /// Held while tokens are renewed. Keeps those that could not be written, which the issuer knows alone then.
    unsaved: Mutex<Option<Unsaved>>,
}

/// Tokens that only this process has.
#[derive(Debug)]
struct Unsaved {
    /// What the file held when they were bought; another content is newer.
    instead_of: OAuthCredentials,
    tokens: OAuthCredentials,
}

/// Which tokens need no renewal.
enum Wanted {
    /// Those that are good for a minute at least.
    Good,
    /// Those besides, with another access token than the one that was refused.
    OtherThan(Option<SecretText>),
}

impl Wanted {
    fn is(&self, tokens: &OAuthCredentials) -> bool {
        let is_other = match self {
            Self::Good => true,
            Self::OtherThan(refused) => refused.as_ref() != Some(&tokens.access_token),
        };
        is_other && !tokens.is_expired()
    }
}

/// What may be shown about a sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Unix milliseconds.
    pub expires_at: i64,
    /// If the tokens say so.
    pub account_email: Option<String>,
}

impl Subscription {
    /// With tokens in `store`. Touches neither disk nor network yet.
    #[must_use]
    pub fn new(store: CredentialStore, service: Service) -> Self {
        let inner = Inner { vendor: Vendor::OpenAi, store, issuer: Issuer::new(service), unsaved: Mutex::new(None) };
        Self { inner: Arc::new(inner) }
    }

    /// Where tokens are kept.
    #[must_use]
    pub fn store(&self) -> &CredentialStore {
        &self.inner.store
    }

    /// Whose plan.
    #[must_use]
    pub fn vendor(&self) -> Vendor {
        self.inner.vendor
    }

    /// The slot of a model (F1-REG-06 `create_llm`). `instructions` stand in place of our own short ones; the backend refuses long
    /// ones, and the system text goes before the first message in any case.
    ///
    /// # Errors
    /// [`SubscriptionError::UnsupportedModel`].
    pub fn llm(&self, model: &str, instructions: Option<&str>) -> Result<LlmConfig, SubscriptionError> {
        let model = self.inner.vendor.model(model)?;
        let mut llm = self.inner.vendor.llm(model, self.inner.issuer.service().backend());
        if let Some(instructions) = instructions {
            llm.litellm_extra_body.insert("instructions".to_owned(), instructions.into());
        }
        Ok(llm)
    }

    /// Whether tokens are stored that are good for a minute at least. Asks nobody.
    ///
    /// # Errors
    /// [`SubscriptionError::Storage`].
    pub async fn has_valid_credentials(&self) -> Result<bool, SubscriptionError> {
        Ok(self.stored().await?.is_some_and(|stored| !stored.is_expired()))
    }

    /// What goes into a model's client.
    #[must_use]
    pub fn tokens(&self) -> Arc<dyn TokenSource> {
        Arc::new(PlanTokens { subscription: self.clone() })
    }

    /// Begins a sign-in in a browser on this machine.
    ///
    /// # Errors
    /// [`SubscriptionError::PortInUse`].
    pub async fn login_in_browser(&self) -> Result<BrowserLogin, SubscriptionError> {
        BrowserLogin::begin(self.inner.issuer.clone()).await
    }

    /// Begins a sign-in by code.
    ///
    /// # Errors
    /// [`SubscriptionError::NoDeviceLogin`], and what can happen with the issuer.
    pub async fn start_device(&self) -> Result<DeviceLogin, SubscriptionError> {
        DeviceLogin::begin(&self.inner.issuer).await
    }

    /// Asks once whether the code was entered.
    ///
    /// # Errors
    /// [`SubscriptionError::Expired`] and [`SubscriptionError::Denied`] are final.
    pub async fn poll_device(&self, login: &mut DeviceLogin) -> Result<DevicePoll, SubscriptionError> {
        login.poll(&self.inner.issuer).await
    }

    /// Waits until the code was entered, at most 900 s.
    ///
    /// # Errors
    /// [`SubscriptionError::TimedOut`], [`SubscriptionError::Cancelled`], and those of [`Subscription::poll_device`].
    pub async fn finish_device(
        &self,
        login: DeviceLogin,
        cancel: &CancellationToken,
    ) -> Result<OAuthCredentials, SubscriptionError> {
        login.finish(&self.inner.issuer, cancel).await
    }

    /// Stores what a sign-in gave.
    ///
    /// # Errors
    /// [`SubscriptionError::Storage`].
    pub async fn save(&self, credentials: OAuthCredentials) -> Result<(), SubscriptionError> {
        let mut unsaved = self.inner.unsaved.lock().await;
        let store = self.inner.store.clone();
        blocking(move || {
            let _lock = store.lock(credentials.vendor)?;
            store.save(&credentials)
        })
        .await?;
        *unsaved = None;
        Ok(())
    }

    /// Removes the stored tokens; whether there were any.
    ///
    /// # Errors
    /// [`SubscriptionError::Storage`].
    pub async fn logout(&self) -> Result<bool, SubscriptionError> {
        let mut unsaved = self.inner.unsaved.lock().await;
        let (store, vendor) = (self.inner.store.clone(), self.inner.vendor);
        // Without the lock a renewal of another process could put its tokens back.
        let deleted = blocking(move || {
            if !store.dir().exists() {
                return Ok(false);
            }
            let _lock = store.lock(vendor)?;
            store.delete(vendor)
        })
        .await?;
        *unsaved = None;
        Ok(deleted)
    }

    /// The stored tokens, of the issuer in use.
    ///
    /// # Errors
    /// [`SubscriptionError::Storage`].
    pub async fn stored(&self) -> Result<Option<OAuthCredentials>, SubscriptionError> {
        let (store, vendor) = (self.inner.store.clone(), self.inner.vendor);
        let stored = blocking(move || store.get(vendor)).await?;
        // Tokens of one issuer never go to another.
        Ok(stored.filter(|stored| stored.issuer.as_deref() == self.inner.issuer.service().foreign_issuer()))
    }

    /// Whether somebody is signed in, after renewing if need be.
    ///
    /// # Errors
    /// As [`Subscription::renewed_if_needed`].
    pub async fn status(&self) -> Result<Option<Status>, SubscriptionError> {
        let credentials = self.renewed_if_needed().await?;
        Ok(credentials
            .map(|credentials| Status { expires_at: credentials.expires_at, account_email: credentials.email() }))
    }

    /// Tokens that are good for a minute at least; `None` when nobody is signed in.
    ///
    /// # Errors
    /// [`SubscriptionError::Refused`] when somebody must sign in again, [`SubscriptionError::Unreachable`],
    /// [`SubscriptionError::Storage`].
    pub async fn renewed_if_needed(&self) -> Result<Option<OAuthCredentials>, SubscriptionError> {
        match self.stored().await? {
            Some(stored) if stored.is_expired() => self.renew(Wanted::Good).await,
            other => Ok(other),
        }
    }

    /// Renews, in a task of its own: a caller that goes away must not take rotated tokens with it before they are stored.
    async fn renew(&self, wanted: Wanted) -> Result<Option<OAuthCredentials>, SubscriptionError> {
        let renewal = tokio::spawn({
            let this = self.clone();
            async move { this.renew_now(&wanted).await }
        });
        renewal.await.unwrap_or_else(|error| Err(broken_off(&error)))
    }

    /// Renews unless what is stored by the time it is our turn is what is wanted.
    async fn renew_now(&self, wanted: &Wanted) -> Result<Option<OAuthCredentials>, SubscriptionError> {
        let mut unsaved = self.inner.unsaved.lock().await;
        let (store, vendor) = (self.inner.store.clone(), self.inner.vendor);
        let lock = blocking({
            let store = store.clone();
            move || store.lock(vendor)
        })
        .await?;
        let Some(stored) = self.stored().await? else {
            *unsaved = None;
            return Ok(None);
        };
        if unsaved.as_ref().is_some_and(|kept| kept.instead_of != stored) {
            *unsaved = None;
        }
        let current = unsaved.as_ref().map_or_else(|| stored.clone(), |kept| kept.tokens.clone());
        if wanted.is(&current) {
            return Ok(Some(current));
        }
        tracing::info!("renewing the access token of the subscription");
        let bought = match self.inner.issuer.refresh(current.refresh_token.expose()).await {
            // The reference takes no lock: it may have been quicker, and then its tokens are the good ones.
            Err(SubscriptionError::Refused(text)) => match self.stored().await? {
                Some(other) if other.refresh_token != current.refresh_token => {
                    return if wanted.is(&other) { Ok(Some(other)) } else { Err(SubscriptionError::Refused(text)) };
                }
                _ => return Err(SubscriptionError::Refused(text)),
            },
            other => other?,
        };
        let renewed = with_tokens(current, &bought.access_token, bought.refresh_token.as_deref(), bought.expires_in);
        let saved = blocking({
            let (store, renewed) = (store, renewed.clone());
            move || {
                let saved = store.save(&renewed);
                drop(lock);
                saved
            }
        })
        .await;
        *unsaved = match saved {
            Ok(()) => None,
            Err(error) => {
                tracing::error!(%error, "renewed tokens could not be stored; they are lost when this process ends");
                Some(Unsaved { instead_of: stored, tokens: renewed.clone() })
            }
        };
        Ok(Some(renewed))
    }
}

/// The tokens of a plan, as model clients ask for them.
#[derive(Debug)]
pub struct PlanTokens {
    subscription: Subscription,
}

impl PlanTokens {
    fn credentials(tokens: &OAuthCredentials) -> Credentials {
        let account = tokens.account().and_then(|account| HeaderValue::from_str(&account).ok());
        if account.is_none() {
            tracing::warn!("the tokens do not say which account pays; the backend may refuse them");
        }
        Credentials::Bearer {
            token: SecretText::new(tokens.access_token.expose()),
            headers: account.map(|account| (ACCOUNT, account)).into_iter().collect(),
        }
    }
}

#[async_trait]
impl TokenSource for PlanTokens {
    fn base_url(&self) -> Option<Url> {
        Some(self.subscription.inner.issuer.service().backend().clone())
    }

    async fn current(&self) -> Result<Credentials, LlmError> {
        let stored = self.subscription.stored().await?.ok_or(SubscriptionError::NotSignedIn)?;
        if !stored.is_expired() {
            return Ok(Self::credentials(&stored));
        }
        match self.subscription.renew(Wanted::Good).await {
            Ok(Some(tokens)) => Ok(Self::credentials(&tokens)),
            Ok(None) => Err(SubscriptionError::NotSignedIn.into()),
            // Its last minute may be enough.
            Err(error) if error.is_transient() && stored.is_alive() => Ok(Self::credentials(&stored)),
            Err(error) => Err(error.into()),
        }
    }

    async fn renewed(&self, refused: &Credentials) -> Result<Credentials, LlmError> {
        let refused = match refused {
            Credentials::Bearer { token, .. } => Some(token.clone()),
            Credentials::Aws { .. } => None,
        };
        let tokens = self.subscription.renew(Wanted::OtherThan(refused)).await?;
        let tokens = tokens.ok_or(SubscriptionError::NotSignedIn)?;
        Ok(Self::credentials(&tokens))
    }
}

/// Runs what blocks on a thread for it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SubscriptionError> + Send + 'static,
) -> Result<T, SubscriptionError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(broken_off(&error)))
}

fn broken_off(error: &tokio::task::JoinError) -> SubscriptionError {
    SubscriptionError::Unreachable(format!("a task of this process broke off: {error}"))
}
