//! Every route, and the layers around them. Nothing else.

use axum::{Router, extract::DefaultBodyLimit, middleware, routing::get};
use tower_http::{catch_panic::CatchPanicLayer, services::ServeDir};

use crate::{
    auth, cors, error, init,
    routes::{
        absent, bash, connections, conversations, details, events, file, gateway, git, models, profiles, runtime,
        settings, subscription, unsupported,
    },
    slash, sockets,
    state::AppState,
};

/// Largest body of an API request, bytes: a conversation with its skills, a message with images. Uploads have a limit of
/// their own.
const MAX_BODY: usize = 32 * 1024 * 1024;
/// Largest body of `POST /api/init`, bytes.
const MAX_INIT_BODY: usize = 1024 * 1024;

/// The whole server over `state`.
pub fn build(state: AppState) -> Router {
    let api = Router::new()
        .merge(absent::router())
        .merge(bash::router())
        .merge(connections::router())
        .merge(conversations::router())
        .merge(events::router())
        .merge(file::router())
        .merge(git::router())
        .merge(runtime::router(&state))
        .merge(models::router())
        .merge(profiles::router())
        .merge(settings::router())
        .merge(subscription::router())
        .merge(unsupported::router())
        .route_layer(middleware::from_fn_with_state(state.clone(), auth::require_session_key));
    let gateway =
        gateway::router().route_layer(middleware::from_fn_with_state(state.clone(), auth::require_gateway_key));
    let init = Router::new()
        .route("/api/init", get(init::show).post(init::initialize))
        .layer(DefaultBodyLimit::max(MAX_INIT_BODY));
    let open = Router::new()
        .route("/alive", get(details::health))
        .route("/health", get(details::health))
        .route("/ready", get(details::ready))
        .route("/server_info", get(details::server_info))
        .route("/openapi.json", get(details::openapi))
        .route("/docs", get(details::docs))
        .route("/redoc", get(details::docs));
    with_front_page(open, &state)
        .merge(api)
        .merge(gateway)
        .merge(init)
        .merge(sockets::router())
        .fallback(slash::redirect_or_not_found)
        .method_not_allowed_fallback(error::method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(middleware::from_fn_with_state(state.clone(), cors::cors))
        .with_state(state)
}

/// `/` shows the static files when a folder of them is configured, else what the server is.
fn with_front_page(router: Router<AppState>, state: &AppState) -> Router<AppState> {
    let folder = state.boot().static_files_path.as_ref().filter(|path| std::path::Path::new(path).is_dir());
    let Some(folder) = folder else { return router.route("/", get(details::server_info)) };
    let has_index = std::path::Path::new(folder).join("index.html").exists();
    let target = if has_index { "/static/index.html" } else { "/static/" };
    let front = move || async move { (http::StatusCode::FOUND, [(http::header::LOCATION, target)]) };
    router.route("/", get(front)).nest_service("/static", ServeDir::new(folder))
}
