//! Session keys, init keys, and the layers that ask for them. Keys are compared in constant time; a key is never logged.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use openhands_protocol::{
    init::{INIT_KEY_HEADER, key_matches},
    secret::SecretText,
};
use subtle::ConstantTimeEq;

use crate::{config::Config, error::ApiError, state::AppState};

/// The header of a session key.
pub const SESSION_KEY_HEADER: &str = "X-Session-API-Key";

/// The keys that open the API; none means that it is open.
#[derive(Clone, Debug)]
pub struct SessionKeys(Arc<[SecretText]>);

impl SessionKeys {
    /// Takes over a list, without its empty keys.
    #[must_use]
    pub fn new(keys: &[SecretText]) -> Self {
        Self(keys.iter().filter(|key| !key.expose().is_empty()).cloned().collect())
    }

    /// Whether no key is needed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `key` is one of them. Looks at all of them, so that time tells nothing.
    #[must_use]
    pub fn contain(&self, key: &str) -> bool {
        self.0
            .iter()
            .fold(subtle::Choice::from(0), |found, known| found | known.expose().as_bytes().ct_eq(key.as_bytes()))
            .into()
    }

    /// Whether the request's header carries one of them, or none is needed.
    #[must_use]
    pub fn admit(&self, headers: &HeaderMap) -> bool {
        self.is_open() || header_text(headers, SESSION_KEY_HEADER).is_some_and(|key| self.contain(key))
    }
}

/// A header's text; `None` when absent or no ASCII.
#[must_use]
pub fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The layer around `/api`: first the gate of deferred initialisation (503), then the key (401).
pub async fn require_session_key(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let app = match state.app() {
        Ok(app) => app,
        Err(dormant) => return dormant.into_response(),
    };
    if !app.keys.admit(request.headers()) {
        return ApiError::Unauthorized.into_response();
    }
    next.run(request).await
}

/// The layer around `/v1`: as [`require_session_key`], and the key may come as a bearer token.
pub async fn require_gateway_key(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let app = match state.app() {
        Ok(app) => app,
        Err(dormant) => return dormant.into_response(),
    };
    let bearer = header_text(request.headers(), header::AUTHORIZATION.as_str()).and_then(bearer_token);
    if !app.keys.admit(request.headers()) && !bearer.is_some_and(|key| app.keys.contain(key)) {
        return ApiError::Unauthorized.into_response();
    }
    next.run(request).await
}

fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether the request may initialise the server, under the configuration that is in force now. With `OH_INIT_KEY_SHA256`
/// only its key is taken, else the secret key. Without either everybody may, unless a blank secret key was given.
///
/// # Errors
/// 401.
pub fn check_init_key(config: &Config, headers: &HeaderMap) -> Result<(), ApiError> {
    let given = header_text(headers, INIT_KEY_HEADER).unwrap_or_default();
    let admitted = match (&config.init_key_sha256, &config.secret_key) {
        (Some(digest), _) => key_matches(given, digest),
        (None, Some(key)) => key.expose().as_bytes().ct_eq(given.as_bytes()).into(),
        (None, None) => !config.secret_key_was_blank,
    };
    if admitted { Ok(()) } else { Err(ApiError::Unauthorized) }
}

#[cfg(test)]
mod tests {
    use openhands_protocol::init::key_digest;

    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(
            axum::http::HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes()).unwrap(),
            value.parse().unwrap(),
        );
        headers
    }

    #[test]
    fn any_key_of_the_list_opens_and_empty_ones_do_not_count() {
        let keys = SessionKeys::new(&["a".into(), "".into(), "b".into()].map(|key: String| SecretText::new(key)));
        assert!(keys.contain("a") && keys.contain("b"));
        assert!(!keys.contain("") && !keys.contain("c") && !keys.admit(&HeaderMap::new()));
        assert!(keys.admit(&headers(SESSION_KEY_HEADER, "b")));
        assert!(SessionKeys::new(&[SecretText::new("")]).admit(&HeaderMap::new()));
        assert_eq!(bearer_token("bearer x"), Some("x"));
        assert_eq!(bearer_token("Basic x"), None);
    }

    #[test]
    fn who_may_initialise() {
        let secret = |key: &str| Some(SecretText::new(key));
        type Row = (Option<SecretText>, Option<String>, bool, &'static str, bool);
        let table: &[Row] = &[
            (None, None, false, "", true),
            (None, None, true, "", false),
            (secret("s"), None, false, "s", true),
            (secret("s"), None, false, "t", false),
            (secret("s"), None, false, "", false),
            (secret("s"), Some(key_digest("k")), false, "s", false),
            (None, Some(key_digest("k")), false, "k", true),
            (None, Some(key_digest("k")), false, "", false),
        ];
        for (secret_key, init_key_sha256, secret_key_was_blank, given, admitted) in table.iter().cloned() {
            let config = Config { secret_key, init_key_sha256, secret_key_was_blank, ..Config::default() };
            let admits = check_init_key(&config, &headers(INIT_KEY_HEADER, given)).is_ok();
            assert_eq!(admits, admitted, "{config:?} {given:?}");
        }
    }
}
