//! The one HTTP client of the process: TLS provider, roots, time-outs and proxies are decided here and nowhere else.

use std::{sync::OnceLock, time::Duration};

use reqwest::{Certificate, Client, NoProxy, Proxy, redirect};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_CONNECTIONS: Duration = Duration::from_secs(90);
const USER_AGENT: &str = concat!("openhands-operator/", env!("CARGO_PKG_VERSION"));

/// Never sent through a proxy, whatever the environment says: the server itself and what runs beside it.
const LOCAL: &str = "localhost,127.0.0.0/8,::1";

/// Why there is no HTTP client; a property of the machine, so it does not go away by itself.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot set up the HTTP client: {0}")]
pub struct HttpSetupError(String);

/// The client, made on first use. Follows no redirects, so that a key never travels to an address nobody configured; has no
/// time-out of its own but for connecting, so every caller sets one.
///
/// # Errors
/// [`HttpSetupError`] when TLS cannot be set up or a proxy variable holds no address.
pub fn http_client() -> Result<Client, HttpSetupError> {
    static CLIENT: OnceLock<Result<Client, HttpSetupError>> = OnceLock::new();
    let made = || build(proxies(|name| std::env::var(name).ok())?);
    CLIENT.get_or_init(|| made().map_err(HttpSetupError)).clone()
}

/// A client that uses no proxy, for what stands beside every machine and no proxy reaches: metadata servers.
///
/// # Errors
/// [`HttpSetupError`] when TLS cannot be set up.
pub(crate) fn direct_client() -> Result<Client, HttpSetupError> {
    static CLIENT: OnceLock<Result<Client, HttpSetupError>> = OnceLock::new();
    CLIENT.get_or_init(|| build(Vec::new()).map_err(HttpSetupError)).clone()
}

fn build(proxies: Vec<Proxy>) -> Result<Client, String> {
    // Fails only when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().filter_map(|root| Certificate::from_der(root).ok());
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_CONNECTIONS)
        .tcp_keepalive(Duration::from_secs(30))
        .redirect(redirect::Policy::none())
        // Beside the machine's own roots: an image may have none.
        .tls_certs_merge(roots)
        .no_proxy();
    for proxy in proxies {
        builder = builder.proxy(proxy);
    }
    builder.build().map_err(|error| chain(&error))
}

type ForScheme = fn(&str) -> reqwest::Result<Proxy>;

/// The customary variables, lower case first.
fn proxies(variable: impl Fn(&str) -> Option<String>) -> Result<Vec<Proxy>, String> {
    let set = |name: &str| {
        [name.to_owned(), name.to_ascii_uppercase()]
            .iter()
            .find_map(|name| variable(name))
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    };
    let excepted = set("no_proxy").map_or_else(|| LOCAL.to_owned(), |list| format!("{LOCAL},{list}"));
    let kinds: [(&str, ForScheme); 3] = [
        ("https_proxy", |url| Proxy::https(url)),
        ("http_proxy", |url| Proxy::http(url)),
        ("all_proxy", |url| Proxy::all(url)),
    ];
    let mut proxies = Vec::new();
    for (name, make) in kinds {
        let Some(address) = set(name) else { continue };
        let proxy = make(&address).map_err(|error| format!("{name} is no proxy address: {}", chain(&error)))?;
        proxies.push(proxy.no_proxy(NoProxy::from_string(&excepted)));
    }
    Ok(proxies)
}

/// An error with its causes: reqwest keeps the telling part in the source.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_made_once_and_works() {
        assert!(http_client().is_ok());
    }

    #[test]
    fn proxies_come_from_the_customary_variables() {
        let with = |pairs: &'static [(&str, &str)]| {
            proxies(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(with(&[]).unwrap().len(), 0);
        assert_eq!(
            with(&[("https_proxy", "http://p:3128"), ("HTTP_PROXY", "p:3128"), ("ALL_PROXY", " ")]).unwrap().len(),
            2
        );
        assert!(with(&[("https_proxy", "http://[")]).unwrap_err().contains("https_proxy"));
    }
}
