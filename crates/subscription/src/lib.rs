//! Signs in with a model vendor's plan instead of a key, and keeps the tokens that come of it.
//!
//! Two ways to sign in: in a browser on the same machine ([`Subscription::login_in_browser`]) and with a code that is entered
//! elsewhere ([`Subscription::start_device`]). [`PlanTokens`] gives the tokens to model clients and renews them. The stored file
//! is the reference's, so both may use one. Knows nothing of conversations and routes; asks nobody but a [`Person`].

mod browser;
mod callback;
mod claims;
mod consent;
mod credentials;
mod device;
mod error;
mod issuer;
mod lock;
mod login;
mod person;
mod pkce;
mod plan;
mod service;
mod store;
mod tokens;

pub use browser::BrowserLogin;
pub use credentials::OAuthCredentials;
pub use device::{DeviceLogin, DevicePoll};
pub use error::SubscriptionError;
pub use login::{LoginMethod, LoginOptions, subscription_login};
pub use person::{Person, Terminal};
pub use plan::{DEFAULT_MODEL, Vendor};
pub use service::{BACKEND_VARIABLE, ISSUER_VARIABLE, PORT_VARIABLE, Service};
pub use store::CredentialStore;
pub use tokens::{PlanTokens, Status, Subscription};
