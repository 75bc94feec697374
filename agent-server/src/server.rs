//! Connections: accepted up to a bound, spoken HTTP/1.1 with, ended gracefully. It does not know the routes.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use axum::{Router, extract::Request, http::Uri};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use crate::{leftover, state::AppState};

/// Most connections at once; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;
/// How long the head of a request may take, idle connections included.
const HEAD_LIMIT: Duration = Duration::from_secs(75);
/// How long open answers may take once the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// The wait after a failed accept (no descriptors left, for instance).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` until `stop`; returns when all connections have ended, which is bounded.
pub async fn serve(listener: TcpListener, router: Router, state: AppState, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => break,
            Ok(place) = Arc::clone(&places).acquire_owned() => place,
        };
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    wait_after(&error).await;
                    continue;
                }
            },
        };
        let (router, state, stop) = (router.clone(), state.clone(), stop.clone());
        connections.spawn(async move {
            let _place = place;
            talk(stream, router, state, stop).await;
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(LAST_ANSWERS, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections were still open at the end");
    }
}

async fn wait_after(error: &io::Error) {
    let is_peer = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    );
    if !is_peer {
        tracing::warn!(%error, "cannot accept connections");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

async fn talk(stream: TcpStream, router: Router, state: AppState, stop: CancellationToken) {
    // Small frames must not wait for each other.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let (router, root) = (router.clone(), state.root_path());
        async move {
            let (request, leftover) = leftover::watch(request);
            let mut response = router.oneshot(without_root(request, &root).map(axum::body::Body::new)).await?;
            leftover.settle(&mut response).await;
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// A proxy in front may hand on the path of the public address: it is taken off before routing.
fn without_root<B>(mut request: Request<B>, root: &str) -> Request<B> {
    if root.is_empty() {
        return request;
    }
    let Some(rest) = request.uri().path().strip_prefix(root) else { return request };
    if !rest.is_empty() && !rest.starts_with('/') {
        return request;
    }
    let path = if rest.is_empty() { "/" } else { rest };
    let target = match request.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    if let Ok(uri) = target.parse::<Uri>() {
        *request.uri_mut() = uri;
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_path_is_taken_off() {
        let table = [
            ("", "/api/x?a=b", "/api/x?a=b"),
            ("/root", "/root/api/x?a=b", "/api/x?a=b"),
            ("/root", "/root", "/"),
            ("/root", "/rooted/x", "/rooted/x"),
            ("/root", "/api/x", "/api/x"),
        ];
        for (root, given, expected) in table {
            let request = Request::builder().uri(given).body(()).unwrap();
            assert_eq!(without_root(request, root).uri().to_string(), expected, "{root} {given}");
        }
    }
}
