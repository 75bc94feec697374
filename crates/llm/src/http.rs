//! The one HTTP client of a process (exactly: of an async runtime): TLS provider, roots, time-outs and proxies are decided here and nowhere else.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use reqwest::{Certificate, Client, NoProxy, Proxy, redirect};
use tokio::runtime::{Handle, Id};

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
    static CLIENTS: Clients = Clients(Mutex::new(Vec::new()));
    CLIENTS.get(|| build(proxies(|name| std::env::var(name).ok())?))
}

/// A client that uses no proxy, for what stands beside every machine and no proxy reaches: metadata servers.
///
/// # Errors
/// [`HttpSetupError`] when TLS cannot be set up.
pub(crate) fn direct_client() -> Result<Client, HttpSetupError> {
    static CLIENTS: Clients = Clients(Mutex::new(Vec::new()));
    CLIENTS.get(|| build(Vec::new()))
}

/// A client for each runtime: a kept connection is served by the runtime that opened it, and is dead when that has ended. Programs
/// have one; libraries and tests may have several.
struct Clients(Mutex<Vec<(Option<Id>, Client)>>);

/// Runtimes whose clients are kept.
const RUNTIMES: usize = 16;

impl Clients {
    fn get(&self, make: impl FnOnce() -> Result<Client, String>) -> Result<Client, HttpSetupError> {
        let runtime = Handle::try_current().ok().map(|handle| handle.id());
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(of, _)| *of == runtime) {
            return Ok(client.clone());
        }
        let client = make().map_err(HttpSetupError)?;
        if clients.len() >= RUNTIMES {
            clients.remove(0);
        }
        clients.push((runtime, client.clone()));
        Ok(client)
    }
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
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
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
    fn a_client_is_made_once_for_each_runtime() {
        let clients = Clients(Mutex::new(Vec::new()));
        let made = std::cell::Cell::new(0);
        let get = || {
            clients.get(|| {
                made.set(made.get() + 1);
                build(Vec::new())
            })
        };
        for runtimes in 1..=RUNTIMES + 2 {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _inside = runtime.enter();
            assert!(get().is_ok() && get().is_ok());
            assert_eq!(made.get(), runtimes, "the second time it is there");
        }
        assert_eq!(clients.0.lock().unwrap().len(), RUNTIMES);
        assert!(http_client().is_ok(), "outside of a runtime, too");
    }

    /// A kept connection of a runtime that has ended must not be used by the next.
    #[test]
    fn connections_die_with_their_runtime() {
        let server = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let model =
            server.block_on(openhands_testkit::ScriptedModel::start(["a", "b"].map(openhands_testkit::Turn::text)));
        let config = openhands_testkit::llm_config(&model);
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let client = {
                let _inside = runtime.enter();
                crate::client_for(&config, &Default::default()).unwrap()
            };
            let asked = runtime.block_on(client.complete(
                &crate::LlmRequest::default(),
                None,
                &tokio_util::sync::CancellationToken::new(),
            ));
            assert!(asked.is_ok(), "{asked:?}");
        }
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
