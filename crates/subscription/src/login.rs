//! From nothing to a model slot that a plan pays for: stored tokens first, a sign-in only without them (F1-REG-05, F2-SUBS-01).

use openhands_protocol::LlmConfig;
use tokio_util::sync::CancellationToken;

use crate::{
    DEFAULT_MODEL, OAuthCredentials, Person, Subscription, SubscriptionError, Vendor, consent, tokens::blocking,
};

/// How somebody signs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoginMethod {
    /// In a browser on this machine.
    #[default]
    Browser,
    /// With a code that is entered in any browser.
    DeviceCode,
}

/// What [`subscription_login`] is asked for.
#[derive(Clone, Debug)]
pub struct LoginOptions {
    /// `openai`.
    pub vendor: String,
    /// One of the plan's models.
    pub model: String,
    /// Signs in anew even with good tokens (F2-SUBS-07).
    pub force_login: bool,
    /// Whether a browser is opened; otherwise its address is shown (F2-SUBS-08).
    pub open_browser: bool,
    /// How.
    pub method: LoginMethod,
    /// Leaves the notice out, where consent was obtained in another way.
    pub skip_consent: bool,
}

impl Default for LoginOptions {
    fn default() -> Self {
        Self {
            vendor: Vendor::OpenAi.name().to_owned(),
            model: DEFAULT_MODEL.to_owned(),
            force_login: false,
            open_browser: true,
            method: LoginMethod::Browser,
            skip_consent: false,
        }
    }
}

/// A model slot that the plan pays for; signs in if need be.
///
/// # Errors
/// [`SubscriptionError::UnsupportedVendor`] and [`SubscriptionError::UnsupportedModel`] before anything is asked; then whatever
/// keeps the sign-in from coming true.
pub async fn subscription_login(
    subscription: &Subscription,
    person: std::sync::Arc<dyn Person>,
    options: LoginOptions,
    cancel: &CancellationToken,
) -> Result<LlmConfig, SubscriptionError> {
    let vendor = Vendor::named(Some(&options.vendor))?;
    let model = vendor.model(&options.model)?.to_owned();
    if !options.force_login {
        match subscription.renewed_if_needed().await {
            Ok(Some(_)) => return subscription.llm(&model, None),
            // Tokens that are void are as good as none.
            Ok(None) | Err(SubscriptionError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    if !options.skip_consent {
        let (store, person) = (subscription.store().clone(), std::sync::Arc::clone(&person));
        blocking(move || consent::ask(&store, person.as_ref())).await?;
    }
    let credentials = match options.method {
        LoginMethod::Browser => in_browser(subscription, person.as_ref(), options.open_browser, cancel).await?,
        LoginMethod::DeviceCode => by_code(subscription, person.as_ref(), cancel).await?,
    };
    subscription.save(credentials).await?;
    subscription.llm(&model, None)
}

async fn in_browser(
    subscription: &Subscription,
    person: &dyn Person,
    open: bool,
    cancel: &CancellationToken,
) -> Result<OAuthCredentials, SubscriptionError> {
    let login = subscription.login_in_browser().await?;
    if open && person.open(login.address()) {
        person.tell("Go on in the browser that has just been opened. If none has, open this address yourself:");
    } else {
        person.tell("Open this address in a browser on this machine:");
    }
    person.tell(login.address().as_str());
    login.finish(cancel).await
}

async fn by_code(
    subscription: &Subscription,
    person: &dyn Person,
    cancel: &CancellationToken,
) -> Result<OAuthCredentials, SubscriptionError> {
    let login = subscription.start_device().await?;
    person.tell(&format!(
        "Open {} in any browser, sign in, and enter this code: {}\n\
         Enter it only because you started this sign-in yourself, and give it to nobody.",
        login.verification_url(),
        login.user_code()
    ));
    subscription.finish_device(login, cancel).await
}
