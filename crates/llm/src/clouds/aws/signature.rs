//! AWS's Signature Version 4 for one POST. Pure but for the headers it adds.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::Keys;
use crate::{LlmError, caller::secret_header};

/// Who signs, for which service where.
pub(crate) struct Signing<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
}

impl Signing<'_> {
    /// Signs a request by its method, address, date and body.
    ///
    /// # Errors
    /// [`LlmError::Authentication`] when no header can carry the keys.
    pub(crate) fn sign(&self, url: &Url, headers: &mut HeaderMap, body: &[u8], now: Timestamp) -> Result<(), LlmError> {
        let keys = self.keys;
        let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let mut host = url.host_str().unwrap_or_default().to_owned();
        if let Some(port) = url.port() {
            host = format!("{host}:{port}");
        }
        let mut signed = vec![("host", host), ("x-amz-date", time.clone())];
        if let Some(token) = &keys.session {
            signed.push(("x-amz-security-token", token.expose().trim().to_owned()));
        }
        let request =
            Request { method: "POST", path: url.path(), query: url.query().unwrap_or_default(), headers: &signed };
        let authorization = request.authorization(
            &Scope {
                id: keys.id.trim(),
                secret: keys.secret.expose().trim(),
                time: &time,
                region: self.region,
                service: self.service,
            },
            body,
        );
        headers.insert("x-amz-date", secret_header(&time, "the date")?);
        if let Some(token) = &keys.session {
            headers.insert("x-amz-security-token", secret_header(token.expose().trim(), "llm.aws_session_token")?);
        }
        headers.insert(AUTHORIZATION, secret_header(&authorization, "llm.aws_access_key_id")?);
        Ok(())
    }
}

/// What is signed.
struct Request<'a> {
    method: &'a str,
    /// As it is sent, encoded.
    path: &'a str,
    query: &'a str,
    /// Lower case, sorted.
    headers: &'a [(&'a str, String)],
}

/// Who signs, when and for what.
struct Scope<'a> {
    id: &'a str,
    secret: &'a str,
    time: &'a str,
    region: &'a str,
    service: &'a str,
}

impl Request<'_> {
    fn authorization(&self, scope: &Scope<'_>, body: &[u8]) -> String {
        let names = self.headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines: String = self.headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let path: Vec<_> = self.path.split('/').map(encoded).collect();
        let canonical =
            [self.method, &path.join("/"), self.query, &lines, &names, &hex::encode(Sha256::digest(body))].join("\n");
        let date = scope.time.get(..8).unwrap_or_default();
        let range = format!("{date}/{}/{}/aws4_request", scope.region, scope.service);
        let digest = hex::encode(Sha256::digest(canonical));
        let text = format!("AWS4-HMAC-SHA256\n{}\n{range}\n{digest}", scope.time);
        let key = [date, scope.region, scope.service, "aws4_request", &text]
            .iter()
            .fold(format!("AWS4{}", scope.secret).into_bytes(), |key, part| keyed(&key, part));
        format!(
            "AWS4-HMAC-SHA256 Credential={}/{range}, SignedHeaders={names}, Signature={}",
            scope.id,
            hex::encode(key)
        )
    }
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// All but letters, digits and `-._~` as `%XX`; in the signature the path is encoded once more than it is sent.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS's own example of its documentation (`get-vanilla`).
    #[test]
    fn the_documented_example_is_signed_as_documented() {
        let headers = [("host", "example.amazonaws.com".to_owned()), ("x-amz-date", "20150830T123600Z".to_owned())];
        let request = Request { method: "GET", path: "/", query: "", headers: &headers };
        let scope = Scope {
            id: "AKIDEXAMPLE",
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            time: "20150830T123600Z",
            region: "us-east-1",
            service: "service",
        };
        assert_eq!(
            request.authorization(&scope, b""),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
    }

    #[test]
    fn paths_are_encoded_once_more() {
        assert_eq!(encoded("anthropic.c-v1:0"), "anthropic.c-v1%3A0");
        assert_eq!(encoded("anthropic.c-v1%3A0"), "anthropic.c-v1%253A0");
    }
}
