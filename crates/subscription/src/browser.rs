//! Signing in with a browser on this machine: authorisation code with proof key, back to a local address.

use std::time::Duration;

use tokio::{
    sync::oneshot,
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    OAuthCredentials, SubscriptionError,
    callback::{Arrival, Callback},
    issuer::Issuer,
    pkce::{self, Pkce},
};

/// How long the person may take (F2-SUBS-11r).
const LIMIT: Duration = Duration::from_secs(300);
/// Lets the last page reach the browser.
const GOODBYE: Duration = Duration::from_millis(500);
const SCOPE: &str = "openid profile email offline_access";

/// A sign-in that waits for the browser. Dropping it gives it up and frees the port.
pub struct BrowserLogin {
    issuer: Issuer,
    address: Url,
    redirect: String,
    verifier: String,
    arrival: oneshot::Receiver<Arrival>,
    servers: JoinSet<()>,
    end: Instant,
}

impl BrowserLogin {
    /// Listens, and makes the address to open.
    pub(crate) async fn begin(issuer: Issuer) -> Result<Self, SubscriptionError> {
        let callback = Callback::listen(issuer.service().port()).await?;
        let (pkce, state) = (Pkce::random(), pkce::random_text());
        let redirect = callback.address();
        let mut address = issuer.service().at("oauth/authorize");
        address
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", issuer.service().client_id())
            .append_pair("redirect_uri", &redirect)
            .append_pair("scope", SCOPE)
            .append_pair("code_challenge", &pkce.challenge)
            .append_pair("code_challenge_method", "S256")
            // The vendor's own: puts the account into the tokens, and skips a page of choices.
            .append_pair("id_token_add_organizations", "true")
            .append_pair("codex_cli_simplified_flow", "true")
            .append_pair("state", &state)
            .append_pair("originator", "openhands");
        let (arrival, servers) = callback.serve(state);
        let end = Instant::now() + LIMIT;
        Ok(Self { issuer, address, redirect, verifier: pkce.verifier, arrival, servers, end })
    }

    /// What the person opens.
    #[must_use]
    pub const fn address(&self) -> &Url {
        &self.address
    }

    /// Waits for the browser and buys the tokens. Nothing is stored yet.
    ///
    /// # Errors
    /// [`SubscriptionError::TimedOut`] after 300 s, [`SubscriptionError::Cancelled`], [`SubscriptionError::Denied`], and what can
    /// happen with the issuer.
    pub async fn finish(mut self, cancel: &CancellationToken) -> Result<OAuthCredentials, SubscriptionError> {
        let arrival = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(SubscriptionError::Cancelled),
            arrival = timeout_at(self.end, &mut self.arrival) => arrival,
        };
        let late = || SubscriptionError::TimedOut(LIMIT.as_secs());
        let Arrival { code, reply } = arrival.map_err(|_| late())?.map_err(|_| SubscriptionError::Cancelled)?;
        let result = match code {
            Ok(code) => self.issuer.exchange(&code, &self.redirect, &self.verifier).await,
            Err(error) => Err(error),
        };
        let _ = reply.send(result.as_ref().map(drop).map_err(ToString::to_string));
        tokio::time::sleep(GOODBYE).await;
        self.servers.abort_all();
        result
    }
}
