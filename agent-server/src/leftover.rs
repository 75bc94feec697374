//! Lets a connection outlive a refusal. Who refuses a request by its head leaves the body unread; the connection would then be
//! closed under a client that is about to use it again, which sees its next request fail for no reason. So what is left of a
//! body is read and dropped, within bounds, before the answer goes out; past the bounds the answer says that the connection
//! ends. It does not know what was refused.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::Request,
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// Most that is read for nothing, bytes.
const MOST: usize = 1024 * 1024;
/// Longest that is waited for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a handler left unread; empty while the body is being read or was read to its end.
pub(crate) struct Leftover {
    place: Arc<Mutex<Option<Incoming>>>,
    // Such a client waits for leave to send its body: reading would be that leave.
    asks_first: bool,
}

/// The body as the handler gets it: whoever drops it before its end leaves the rest.
pub(crate) struct Watched {
    body: Option<Incoming>,
    place: Arc<Mutex<Option<Incoming>>>,
}

/// Watches a request's body.
pub(crate) fn watch(request: Request<Incoming>) -> (Request<Watched>, Leftover) {
    let place = Arc::default();
    let asks_first = request.headers().contains_key(header::EXPECT);
    let request = request.map(|body| Watched { body: Some(body), place: Arc::clone(&place) });
    (request, Leftover { place, asks_first })
}

impl Leftover {
    /// Reads what is left, or tells the client that the connection ends.
    pub(crate) async fn settle(self, response: &mut Response) {
        let left = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut body) = left else { return };
        let read = async {
            let mut size = 0;
            while let Some(frame) = body.frame().await {
                size += frame.ok()?.data_ref().map_or(0, Bytes::len);
                if size > MOST {
                    return None;
                }
            }
            Some(())
        };
        let settled = !self.asks_first && matches!(tokio::time::timeout(PATIENCE, read).await, Ok(Some(())));
        if !settled {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.body.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}
