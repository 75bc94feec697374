//! Deferred initialisation: `GET` and `POST /api/init`, the proof that comes before it, and the payload that a parent process
//! brings back to a restarted server. The order of checks is that of protocol 1.58.2: exists, key, body, state.

use axum::{
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use openhands_protocol::{
    init::{InitRequest, InitStatus, MAX_NONCE, proof},
    secret::SecretText,
};
use serde_json::json;

use crate::{
    app::{App, POD_UID_VARIABLE},
    auth::check_init_key,
    config::Config,
    error::ApiError,
    extract::{RawBody, read_object},
    query::Query,
    report,
    state::AppState,
    validation::Problem,
};

/// `GET /api/init`: where the server stands; with `?nonce=` also the proof that it is the pod it should be. No key needed.
///
/// # Errors
/// 404 unless initialisation is deferred; 422 for a nonce that is empty or too long.
pub async fn show(State(state): State<AppState>, mut query: Query) -> Result<Response, ApiError> {
    require_deferred(&state)?;
    let mut status = state.init_status();
    if let Some(nonce) = query.text("nonce").map(str::to_owned) {
        if nonce.is_empty() || nonce.len() > MAX_NONCE {
            let msg = format!("String should have 1 to {MAX_NONCE} characters");
            query.problem(Problem::new("string_length", ["query", "nonce"], msg));
        }
        query.finish()?;
        let pod_uid = std::env::var(POD_UID_VARIABLE).unwrap_or_default();
        if let Some(digest) = &state.boot().init_key_sha256 {
            status.proof = proof(digest, &pod_uid, &nonce);
            status.pod_uid = Some(pod_uid);
        }
    }
    Ok(axum::Json(status).into_response())
}

/// `POST /api/init`.
///
/// # Errors
/// 404, 401, 422, 400 in this order; 500 when the services cannot be set up, and the server is dormant again.
pub async fn initialize(
    State(state): State<AppState>,
    headers: HeaderMap,
    body: Result<RawBody, ApiError>,
) -> Result<axum::Json<InitStatus>, ApiError> {
    require_deferred(&state)?;
    state.with_config(|config| check_init_key(config, &headers))?;
    let request: InitRequest = read_object(body?.0)?;
    // A task of its own: a caller that hangs up does not stop it half way.
    let work = tokio::spawn({
        let state = state.clone();
        async move { run(&state, request, true).await }
    });
    work.await.map_err(ApiError::internal)??;
    Ok(axum::Json(state.init_status()))
}

/// Initialises the server with a request that was accepted before (a parent process brings it back).
///
/// # Errors
/// As [`initialize`].
pub async fn repeat(state: &AppState, request: InitRequest) -> Result<(), ApiError> {
    run(state, request, false).await
}

async fn run(state: &AppState, request: InitRequest, hand_over: bool) -> Result<(), ApiError> {
    let turn = state.begin_init()?;
    if let Err(refusal) = check(&request) {
        turn.fail("the last request was refused".to_owned());
        return Err(refusal);
    }
    let kept = hand_over.then(|| request.clone());
    let config = merged(state.boot(), &request);
    let app = match App::set_up(config, request.env.unwrap_or_default()).await {
        Ok(app) => app,
        Err(error) => {
            tracing::error!(%error, "initialisation failed");
            turn.fail(error.to_string());
            return Err(ApiError::Failed(error.to_string()));
        }
    };
    if let Some(target) = request.report {
        report::start(state.reports(), &app, target, state.drained().clone());
    }
    // Before the answer: a server that dies right after it comes back initialised.
    if let (Some(link), Some(request)) = (state.link(), kept)
        && let Err(error) = link.keep(&request).await
    {
        tracing::warn!(%error, "the parent process did not take the init payload");
    }
    turn.succeed(app);
    tracing::info!("initialised");
    Ok(())
}

fn require_deferred(state: &AppState) -> Result<(), ApiError> {
    if state.boot().deferred_init {
        return Ok(());
    }
    Err(ApiError::Missing("this server does not defer its initialisation: OH_DEFERRED_INIT is off".to_owned()))
}

/// What the types cannot say.
fn check(request: &InitRequest) -> Result<(), ApiError> {
    let keys = request.session_api_keys.as_deref().unwrap_or_default();
    if keys.iter().any(|key| key.expose().is_empty()) {
        return Err(ApiError::Unprocessable("session_api_keys: a key must not be empty".to_owned()));
    }
    if request.max_concurrent_runs == Some(0) {
        let msg = "Input should be greater than or equal to 1";
        let problem = Problem::new("greater_than_equal", ["body", "max_concurrent_runs"], msg);
        return Err(ApiError::invalid(problem.input(0).ctx(json!({"ge": 1}))));
    }
    if request.webhooks.as_ref().is_some_and(|webhooks| !webhooks.is_empty()) {
        return Err(ApiError::Unprocessable("webhooks: not supported by this version; send an empty list".to_owned()));
    }
    if request.web_url.as_ref().is_some_and(|url| !url.is_empty() && url::Url::parse(url).is_err()) {
        return Err(ApiError::Unprocessable("web_url: must be an absolute address".to_owned()));
    }
    for (name, value) in request.env.iter().flatten() {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(ApiError::Unprocessable(
                "env: names must not be empty or hold '=', and nothing may hold a null character".to_owned(),
            ));
        }
    }
    Ok(())
}

/// The boot configuration with what the request brings. Members that are absent keep the value of the boot.
fn merged(boot: &Config, request: &InitRequest) -> Config {
    let mut config = boot.clone();
    let InitRequest {
        session_api_keys,
        secret_key,
        previous_secret_keys,
        conversations_path,
        bash_events_dir,
        conversation_worktree_root,
        webhooks: _,
        web_url,
        allow_cors_origins,
        max_concurrent_runs,
        env: _,
        telemetry: _,
        report: _,
    } = request.clone();
    match secret_key.filter(|key| !key.expose().trim().is_empty()) {
        Some(key) => config.secret_key = Some(key),
        // The boot key stays the encryption key; the first session key serves only where there was none.
        None if config.secret_key.is_none() => config.secret_key = first(session_api_keys.as_deref()),
        None => {}
    }
    replace(&mut config.session_api_keys, session_api_keys);
    replace(&mut config.previous_secret_keys, previous_secret_keys);
    replace(&mut config.conversations_path, conversations_path);
    replace(&mut config.bash_events_dir, bash_events_dir);
    replace(&mut config.conversation_worktree_root, conversation_worktree_root);
    replace(&mut config.max_concurrent_runs, max_concurrent_runs);
    config.web_url = web_url.or(config.web_url);
    config.allow_cors_origins.extend(allow_cors_origins.unwrap_or_default());
    config
}

fn first(keys: Option<&[SecretText]>) -> Option<SecretText> {
    keys.and_then(<[SecretText]>::first).cloned()
}

fn replace<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(config: &Config) -> Option<&str> {
        config.secret_key.as_ref().map(SecretText::expose)
    }

    #[test]
    fn only_given_members_override_and_the_secret_key_has_its_fallbacks() {
        let request = |json: serde_json::Value| serde_json::from_value::<InitRequest>(json).unwrap();
        let boot = Config { secret_key: Some(SecretText::new("boot")), max_concurrent_runs: 3, ..Config::default() };
        let config = merged(&boot, &request(json!({"session_api_keys": ["k"], "allow_cors_origins": ["o"]})));
        assert_eq!((secret(&config), config.max_concurrent_runs), (Some("boot"), 3));
        assert_eq!((config.session_api_keys.len(), config.allow_cors_origins.len()), (1, 1));
        assert_eq!(secret(&merged(&boot, &request(json!({"secret_key": "new"})))), Some("new"));
        assert_eq!(secret(&merged(&boot, &request(json!({"secret_key": " "})))), Some("boot"));
        assert_eq!(secret(&merged(&Config::default(), &request(json!({"session_api_keys": ["k"]})))), Some("k"));
        assert_eq!(secret(&merged(&Config::default(), &request(json!({})))), None);
    }
}
