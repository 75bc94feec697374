//! Deferred initialisation: the proof and the call that follows it.

use http::{Method, StatusCode};
use openhands_protocol::{
    init::{INIT_KEY_HEADER, InitRequest, InitStatus, MAX_NONCE},
    secret::SecretText,
};

use crate::{ClientError, Connection, connection::Key};

/// What a server made of `POST /api/init`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitAnswer {
    /// It took the request.
    Done(InitStatus),
    /// It is initialised already, or the key is not (or no longer) its key: 400, 401 or 409.
    Closed(StatusCode),
}

impl Connection {
    /// Asks where the server stands and, with a nonce, for its proof.
    ///
    /// # Errors
    /// When the nonce is empty, too long or not of letters, digits, `-` and `_`; when the exchange fails.
    pub async fn get_init(&mut self, nonce: Option<&str>) -> Result<InitStatus, ClientError> {
        let path = match nonce {
            None => "/api/init".to_owned(),
            Some(nonce) => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
                if nonce.is_empty() || nonce.len() > MAX_NONCE || !nonce.bytes().all(plain) {
                    return Err(ClientError::Unusable {
                        request: "GET /api/init".to_owned(),
                        reason: format!("a nonce is 1 to {MAX_NONCE} letters, digits, - and _"),
                    });
                }
                format!("/api/init?nonce={nonce}")
            }
        };
        self.exchange(Method::GET, &path, &Key::None, None).await?.ok()?.json()
    }

    /// Initialises the server.
    ///
    /// # Errors
    /// When the server refuses for another reason than [`InitAnswer::Closed`], or the exchange fails; in the latter case it
    /// may have acted.
    pub async fn post_init(&mut self, init_key: &SecretText, request: &InitRequest) -> Result<InitAnswer, ClientError> {
        let body = serde_json::to_vec(request).map_err(|error| ClientError::Unusable {
            request: "POST /api/init".to_owned(),
            reason: error.to_string(),
        })?;
        let answer =
            self.exchange(Method::POST, "/api/init", &Key::Named(INIT_KEY_HEADER, init_key), Some(body)).await?;
        match answer.status {
            StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::CONFLICT => {
                Ok(InitAnswer::Closed(answer.status))
            }
            _ => answer.ok()?.json().map(InitAnswer::Done),
        }
    }
}
