//! One HTTP/1.1 connection with bounds.

use std::{fmt, net::SocketAddr};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use openhands_protocol::secret::SecretText;
use serde::de::DeserializeOwned;
use tokio::{net::TcpStream, time::timeout};

use crate::{ClientError, Limits, error::MAX_DETAIL};

/// The header with a session key.
const SESSION_KEY_HEADER: &str = "x-session-api-key";

/// One connection to one server; exchanges follow each other.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
    address: SocketAddr,
    limits: Limits,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

/// An answer with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) request: String,
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Who asks.
pub(crate) enum Key<'a> {
    None,
    Session(&'a SecretText),
    Named(&'static str, &'a SecretText),
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// [`ClientError::Connect`] when nobody listens there within the limit.
    pub async fn open(address: SocketAddr, limits: Limits) -> Result<Self, ClientError> {
        let failed = |reason: String| ClientError::Connect { address: address.to_string(), reason };
        let stream = timeout(limits.connect, TcpStream::connect(address))
            .await
            .map_err(|_| failed("no answer in time".to_owned()))?
            .map_err(|error| failed(error.to_string()))?;
        // Small requests that wait for their answer: Nagle's algorithm would add a delay to each.
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(error.to_string()))?;
        // Ends with the sender or with the peer, so nothing has to stop it.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::trace!(%error, "connection to a server ended");
            }
        });
        let host = HeaderValue::from_str(&address.to_string()).map_err(|error| failed(error.to_string()))?;
        Ok(Self { sender, host, address, limits })
    }

    /// The server's address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether another exchange is possible.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Whether the server is alive (`GET /health` answers 200).
    ///
    /// # Errors
    /// When it is not, or not in time.
    pub async fn health(&mut self) -> Result<(), ClientError> {
        self.exchange(Method::GET, "/health", &Key::None, None).await?.ok().map(drop)
    }

    pub(crate) async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        key: &Key<'_>,
        body: Option<Vec<u8>>,
    ) -> Result<Answer, ClientError> {
        let name = format!("{method} {}", path.split('?').next().unwrap_or(path));
        let unusable = |reason: String| ClientError::Unusable { request: name.clone(), reason };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.host.clone())
            .header(header::USER_AGENT, concat!("openhands-client/", env!("CARGO_PKG_VERSION")));
        request = match key {
            Key::None => request,
            Key::Session(key) => request.header(SESSION_KEY_HEADER, secret_header(key).map_err(&unusable)?),
            Key::Named(header, key) => request.header(*header, secret_header(key).map_err(&unusable)?),
        };
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| unusable(format!("the request cannot be made: {error}")))?;
        let limit = self.limits.body;
        let exchange = async {
            let broken = |source| ClientError::Broken { request: name.clone(), source };
            self.sender.ready().await.map_err(broken)?;
            let (head, body) = self.sender.send_request(request).await.map_err(broken)?.into_parts();
            let body = Limited::new(body, limit).collect().await.map_err(|error| {
                unusable(if error.is::<LengthLimitError>() {
                    format!("more than {limit} bytes")
                } else {
                    error.to_string()
                })
            })?;
            Ok(Answer { request: name.clone(), status: head.status, body: body.to_bytes() })
        };
        timeout(self.limits.exchange, exchange).await.map_err(|_| ClientError::Timeout { request: name.clone() })?
    }
}

fn secret_header(key: &SecretText) -> Result<HeaderValue, String> {
    let mut value =
        HeaderValue::from_str(key.expose()).map_err(|_| "the key holds characters that no header takes".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

impl Answer {
    /// The answer when it is a success.
    pub(crate) fn ok(self) -> Result<Self, ClientError> {
        if self.status.is_success() { Ok(self) } else { Err(self.refused()) }
    }

    /// The answer as a refusal.
    pub(crate) fn refused(self) -> ClientError {
        let kept = self.body.get(..MAX_DETAIL).unwrap_or(&self.body);
        let detail = String::from_utf8_lossy(kept).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        ClientError::Refused { request: self.request, status: self.status, detail }
    }

    /// The body as JSON.
    pub(crate) fn json<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ClientError::Unusable { request: self.request, reason: error.to_string() })
    }
}
