//! A layer that counts the calls that change something: the operator's own write counter.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Method, Request, Response};
use tower::{Layer, Service};

use crate::metrics::{Metrics, Write};

/// Counts writes by verb and resource.
#[derive(Clone)]
pub(super) struct CountWrites {
    metrics: Metrics,
}

impl CountWrites {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics }
    }
}

impl<S> Layer<S> for CountWrites {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, metrics: self.metrics.clone() }
    }
}

/// A service whose writes are counted.
#[derive(Clone)]
pub(super) struct Counted<S> {
    inner: S,
    metrics: Metrics,
}

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    R: 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let write = verb(request.method()).map(|verb| (verb, resource(request.uri().path())));
        let metrics = self.metrics.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            if let Some((verb, resource)) = write {
                let code = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
                metrics.writes.get_or_create(&Write { verb, resource, code }).inc();
            }
            answer
        })
    }
}

fn verb(method: &Method) -> Option<&'static str> {
    match method.as_str() {
        "POST" => Some("create"),
        "PUT" => Some("update"),
        "PATCH" => Some("patch"),
        "DELETE" => Some("delete"),
        _ => None,
    }
}

/// The plural name in a path of the API: `/api/v1/namespaces/x/pods/y` is `pods`, with `/status` kept.
fn resource(path: &str) -> String {
    let mut parts = path.trim_matches('/').split('/');
    let versions = if parts.next() == Some("api") { 1 } else { 2 };
    let mut parts = parts.skip(versions).peekable();
    let mut plural = parts.next().unwrap_or_default();
    if plural == "namespaces" {
        let _namespace = parts.next();
        plural = parts.next().unwrap_or("namespaces");
    }
    let _name = parts.next();
    parts.next().map_or_else(|| plural.to_owned(), |sub| format!("{plural}/{sub}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_from_paths() {
        for (path, expected) in [
            ("/api/v1/namespaces/x/pods/y", "pods"),
            ("/api/v1/namespaces/x/pods", "pods"),
            ("/api/v1/namespaces/x", "namespaces"),
            ("/apis/openhands.dev/v1alpha1/namespaces/x/conversations/y/status", "conversations/status"),
            ("/apis/coordination.k8s.io/v1/namespaces/x/leases/y", "leases"),
        ] {
            assert_eq!(resource(path), expected, "{path}");
        }
    }
}
