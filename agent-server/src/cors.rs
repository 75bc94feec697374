//! Which browsers may read answers: local origins always, others by list or pattern, and any origin on the two kinds of
//! routes that a workspace cookie opens. The origin is echoed, never `*`, because credentials are allowed.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{config::Config, state::AppState};

/// How long a browser may remember a preflight, seconds.
const PREFLIGHT_AGE: HeaderValue = HeaderValue::from_static("600");
const METHODS: HeaderValue = HeaderValue::from_static("DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");

/// The allowed origins besides the local ones.
#[derive(Clone, Debug)]
pub struct Origins {
    list: Arc<[String]>,
    pattern: Option<regex::Regex>,
    docker_host: Option<String>,
}

impl Origins {
    /// Takes the list and the pattern of a configuration, and `DOCKER_HOST_ADDR`.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            list: config.allow_cors_origins.clone().into(),
            pattern: config.origin_pattern(),
            docker_host: std::env::var("DOCKER_HOST_ADDR").ok().filter(|host| !host.is_empty()),
        }
    }

    /// Whether an origin may read answers.
    #[must_use]
    pub fn allow(&self, origin: &str) -> bool {
        let host = url::Url::parse(origin).ok().and_then(|url| url.host_str().map(str::to_owned));
        let is_local = host.as_deref().is_some_and(|host| {
            host == "localhost" || host == "127.0.0.1" || Some(host) == self.docker_host.as_deref()
        });
        is_local
            || self.list.iter().any(|allowed| allowed == "*" || allowed == origin)
            || self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(origin))
    }
}

/// Whether a path is one of those that a workspace cookie opens.
fn is_cookie_path(path: &str) -> bool {
    if path == "/api/auth/workspace-session" {
        return true;
    }
    let Some((id, rest)) = path.strip_prefix("/api/conversations/").and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    !id.is_empty() && (rest == "workspace" || rest.starts_with("workspace/"))
}

fn is_web_origin(origin: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| origin.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
}

/// The layer around everything: answers preflights and adds the headers of simple answers.
pub async fn cors(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed = origin.as_ref().and_then(|origin| origin.to_str().ok()).is_some_and(|origin| {
        if is_cookie_path(request.uri().path()) { is_web_origin(origin) } else { state.allows_origin(origin) }
    });
    let asked_method = request.headers().get(header::ACCESS_CONTROL_REQUEST_METHOD).cloned();
    if let (Some(origin), &Method::OPTIONS, Some(_)) = (&origin, request.method(), &asked_method) {
        return preflight(origin, allowed, request.headers());
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    if let (Some(origin), true) = (origin, allowed) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    response
}

fn preflight(origin: &HeaderValue, allowed: bool, asked: &HeaderMap) -> Response {
    let mut response = if allowed {
        (StatusCode::OK, "OK").into_response()
    } else {
        (StatusCode::BAD_REQUEST, "Disallowed CORS origin").into_response()
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE);
    copy(asked, headers, &header::ACCESS_CONTROL_REQUEST_HEADERS, header::ACCESS_CONTROL_ALLOW_HEADERS);
    if allowed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    response
}

fn copy(from: &HeaderMap, to: &mut HeaderMap, asked: &HeaderName, answer: HeaderName) {
    if let Some(value) = from.get(asked) {
        to.insert(answer, value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_listed_and_matching_origins_are_allowed() {
        let config = Config {
            allow_cors_origins: vec!["https://app.example".to_owned()],
            allow_cors_origin_regex: Some(r"https://[a-z]+\.dev".to_owned()),
            ..Config::default()
        };
        let origins = Origins::new(&config);
        let table = [
            ("http://localhost:3000", true),
            ("https://127.0.0.1", true),
            ("https://app.example", true),
            ("https://app.example.evil", false),
            ("https://a.dev", true),
            ("https://a.dev.evil", false),
            ("http://localhost.evil", false),
            ("null", false),
            ("", false),
        ];
        for (origin, allowed) in table {
            assert_eq!(origins.allow(origin), allowed, "{origin}");
        }
    }

    #[test]
    fn cookie_routes_are_told_apart() {
        let table = [
            ("/api/auth/workspace-session", true),
            ("/api/conversations/x/workspace", true),
            ("/api/conversations/x/workspace/a/b", true),
            ("/api/conversations/x/workspaces", false),
            ("/api/conversations/x/events", false),
            ("/api/conversations//workspace", false),
        ];
        for (path, is_cookie) in table {
            assert_eq!(is_cookie_path(path), is_cookie, "{path}");
        }
    }
}
