//! Where a vendor signs people in and where its models answer, as addresses that must fit together.

use std::net::IpAddr;

use url::{Host, Url};

use crate::SubscriptionError;

/// Sets another issuer, for tests and private gateways. Only together with [`BACKEND_VARIABLE`].
pub const ISSUER_VARIABLE: &str = "OH_SUBSCRIPTION_ISSUER_URL";
/// Sets another backend. Only together with [`ISSUER_VARIABLE`].
pub const BACKEND_VARIABLE: &str = "OH_SUBSCRIPTION_BACKEND_URL";
/// Sets another port for the browser to come back to.
pub const PORT_VARIABLE: &str = "OPENHANDS_OAUTH_PORT";

const ISSUER: &str = "https://auth.openai.com";
const BACKEND: &str = "https://chatgpt.com/backend-api/codex";
/// The vendor's own, of its public client; it is no secret.
const CLIENT_ID: &str = "app_EMoamEEZ73f0CkXaXp7hrann";
/// Registered with the client, so the vendor accepts no other.
const PORT: u16 = 1455;

/// The addresses of one vendor.
#[derive(Clone, Debug)]
pub struct Service {
    issuer: Url,
    backend: Url,
    /// Stands in stored files when it is not the vendor's own.
    foreign: Option<String>,
    port: u16,
}

impl Service {
    /// `OpenAI`'s, or what the variables of this process say. They are read here and nowhere else: neither a conversation nor an
    /// initialisation can send tokens elsewhere.
    ///
    /// # Errors
    /// [`SubscriptionError::Setting`] for one address without the other, and for an address in clear text that is not local.
    pub fn openai(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SubscriptionError> {
        let set = |name: &str| variable(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let port = match set(PORT_VARIABLE) {
            None => PORT,
            Some(text) => text.parse().map_err(|_| SubscriptionError::Setting {
                variable: PORT_VARIABLE,
                problem: format!("{text:?} is no port, set a number from 1 to 65535"),
            })?,
        };
        let (issuer, backend) = match (set(ISSUER_VARIABLE), set(BACKEND_VARIABLE)) {
            (None, None) => (ISSUER.to_owned(), BACKEND.to_owned()),
            (Some(issuer), Some(backend)) => (issuer, backend),
            (Some(_), None) => return Err(alone(BACKEND_VARIABLE, ISSUER_VARIABLE)),
            (None, Some(_)) => return Err(alone(ISSUER_VARIABLE, BACKEND_VARIABLE)),
        };
        let issuer = address(ISSUER_VARIABLE, &issuer)?;
        let foreign = (issuer.as_str().trim_end_matches('/') != ISSUER).then(|| issuer.as_str().to_owned());
        Ok(Self { issuer, backend: address(BACKEND_VARIABLE, &backend)?, foreign, port })
    }

    /// With another port for the browser to come back to; 0 takes a free one.
    #[must_use]
    pub const fn with_port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Where models answer.
    #[must_use]
    pub const fn backend(&self) -> &Url {
        &self.backend
    }

    pub(crate) const fn client_id(&self) -> &'static str {
        CLIENT_ID
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// What stored tokens must say about their issuer.
    pub(crate) fn foreign_issuer(&self) -> Option<&str> {
        self.foreign.as_deref()
    }

    /// An address below the issuer's.
    pub(crate) fn at(&self, path: &str) -> Url {
        let mut url = self.issuer.clone();
        url.set_path(&format!("{}/{path}", self.issuer.path().trim_end_matches('/')));
        url
    }

    pub(crate) fn host(&self) -> String {
        self.issuer.host_str().unwrap_or_default().to_owned()
    }
}

fn alone(variable: &'static str, other: &str) -> SubscriptionError {
    SubscriptionError::Setting {
        variable,
        problem: format!("is not set but {other} is; set both, so that tokens only go where they come from"),
    }
}

fn address(variable: &'static str, text: &str) -> Result<Url, SubscriptionError> {
    let wrong = |problem: String| SubscriptionError::Setting { variable, problem };
    let url = Url::parse(text).map_err(|error| wrong(format!("{text:?} is no address: {error}")))?;
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => {}
        "http" if is_local => {}
        "http" => return Err(wrong(format!("{text:?} would send tokens in clear text, use https"))),
        _ => return Err(wrong(format!("{text:?} is no http address"))),
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("must be an address without credentials, query and fragment".to_owned()));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(pairs: &[(&str, &str)]) -> Result<Service, SubscriptionError> {
        Service::openai(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_vendors_own_addresses_are_the_default() {
        let service = service(&[]).unwrap();
        assert_eq!(service.at("oauth/token").as_str(), "https://auth.openai.com/oauth/token");
        assert_eq!(service.backend().as_str(), "https://chatgpt.com/backend-api/codex");
        assert_eq!((service.port(), service.foreign_issuer()), (1455, None));
    }

    #[test]
    fn both_addresses_change_together_and_stay_safe() {
        let local = [(ISSUER_VARIABLE, "http://127.0.0.1:9/i/"), (BACKEND_VARIABLE, "http://localhost:9/b")];
        let service = service(&local).unwrap();
        assert_eq!(service.at("oauth/token").as_str(), "http://127.0.0.1:9/i/oauth/token");
        assert_eq!(service.foreign_issuer(), Some("http://127.0.0.1:9/i/"));
        for (pairs, variable) in [
            (vec![(ISSUER_VARIABLE, "https://a")], BACKEND_VARIABLE),
            (vec![(BACKEND_VARIABLE, "https://a")], ISSUER_VARIABLE),
            (vec![(ISSUER_VARIABLE, "http://a"), (BACKEND_VARIABLE, "https://a")], ISSUER_VARIABLE),
            (vec![(ISSUER_VARIABLE, "https://a"), (BACKEND_VARIABLE, "file:///a")], BACKEND_VARIABLE),
            (vec![(ISSUER_VARIABLE, "https://u:p@a"), (BACKEND_VARIABLE, "https://a")], ISSUER_VARIABLE),
            (vec![(PORT_VARIABLE, "x")], PORT_VARIABLE),
        ] {
            let error = self::service(&pairs).unwrap_err().to_string();
            assert!(error.starts_with(variable), "{pairs:?}: {error}");
        }
    }
}
