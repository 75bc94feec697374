//! The calls to the issuer: a code for tokens, a refresh token for new ones, and the two of the sign-in by code. Each is one
//! POST, bounded in time and size; none follows a redirect.

use std::time::Duration;

use openhands_protocol::secret::{MASK, SecretText};
use reqwest::{RequestBuilder, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{OAuthCredentials, Service, SubscriptionError, Vendor, claims::Claims, credentials::end_of_life};

const LIMIT: Duration = Duration::from_secs(20);
/// Longest answer, bytes. Tokens are a few thousand.
const MAX_ANSWER: usize = 256 * 1024;
/// Of an issuer's text this much is repeated, characters.
const MAX_TEXT: usize = 200;

/// Asks an issuer.
#[derive(Clone, Debug)]
pub(crate) struct Issuer {
    service: Service,
}

/// What the issuer answered.
struct Answer {
    status: StatusCode,
    body: Value,
}

/// The tokens of an answer.
#[derive(Deserialize)]
pub(crate) struct Tokens {
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
    pub(crate) id_token: Option<String>,
    pub(crate) expires_in: Option<i64>,
}

/// A sign-in by code that has begun.
pub(crate) struct UserCode {
    pub(crate) user_code: String,
    pub(crate) device_auth_id: String,
    /// Seconds between two questions.
    pub(crate) interval: u64,
}

/// Where a sign-in by code stands.
pub(crate) enum CodeAnswer {
    /// The code was entered.
    Entered {
        /// Buys the tokens.
        code: String,
        /// The proof key that the issuer made for us.
        verifier: String,
    },
    /// Not yet.
    Pending,
    /// Not yet, and we ask too often.
    SlowDown,
}

impl Issuer {
    pub(crate) const fn new(service: Service) -> Self {
        Self { service }
    }

    pub(crate) const fn service(&self) -> &Service {
        &self.service
    }

    /// Buys tokens with a code.
    pub(crate) async fn exchange(
        &self,
        code: &str,
        redirect: &str,
        verifier: &str,
    ) -> Result<OAuthCredentials, SubscriptionError> {
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("client_id", self.service.client_id()),
            ("code_verifier", verifier),
        ];
        let answer = self.post("oauth/token", |request| request.form(&form)).await?;
        if !answer.status.is_success() {
            return Err(answer.failed(&[code, verifier]));
        }
        let tokens = answer.tokens()?;
        let refresh = tokens.refresh_token.as_deref().filter(|token| !token.is_empty());
        let refresh = refresh.ok_or_else(|| SubscriptionError::BadAnswer("no refresh_token".to_owned()))?;
        let id_token = tokens.id_token.as_deref().unwrap_or_default();
        Ok(OAuthCredentials {
            vendor: Vendor::OpenAi,
            account_id: Claims::of(id_token).account_id,
            refresh_token: SecretText::new(refresh),
            expires_at: end_of_life(tokens.expires_in),
            access_token: SecretText::new(tokens.access_token),
            issuer: self.service.foreign_issuer().map(ToOwned::to_owned),
        })
    }

    /// Buys new tokens. [`SubscriptionError::Refused`] means that the refresh token is void.
    pub(crate) async fn refresh(&self, refresh_token: &str) -> Result<Tokens, SubscriptionError> {
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token),
            ("client_id", self.service.client_id()),
        ];
        let answer = self.post("oauth/token", |request| request.form(&form)).await?;
        match answer.status {
            StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(SubscriptionError::Refused(answer.text(&[refresh_token])))
            }
            status if status.is_success() => answer.tokens(),
            _ => Err(answer.failed(&[refresh_token])),
        }
    }

    /// Begins a sign-in by code.
    pub(crate) async fn user_code(&self) -> Result<UserCode, SubscriptionError> {
        let question = json!({"client_id": self.service.client_id()});
        let answer = self.post("api/accounts/deviceauth/usercode", |request| request.json(&question)).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Err(SubscriptionError::NoDeviceLogin(self.service.host()));
        }
        if !answer.status.is_success() {
            return Err(answer.failed(&[]));
        }
        let text = |names: &[&str]| {
            let found = names.iter().find_map(|name| answer.body.get(name)?.as_str());
            found.filter(|text| !text.is_empty() && text.len() <= 1024).map(ToOwned::to_owned)
        };
        let missing = |what: &str| SubscriptionError::BadAnswer(format!("no {what}"));
        let interval = match answer.body.get("interval") {
            None | Some(Value::Null) => 5,
            Some(Value::String(digits)) => digits.trim().parse().map_err(|_| missing("interval"))?,
            Some(number) => number.as_u64().ok_or_else(|| missing("interval"))?,
        };
        Ok(UserCode {
            user_code: text(&["user_code", "usercode"]).ok_or_else(|| missing("user_code"))?,
            device_auth_id: text(&["device_auth_id"]).ok_or_else(|| missing("device_auth_id"))?,
            interval: interval.clamp(1, 60),
        })
    }

    /// Asks whether the code was entered. The vendor says 403 or 404 as long as it was not; the words of RFC 8628 are understood
    /// too.
    pub(crate) async fn code_entered(
        &self,
        device_auth_id: &str,
        user_code: &str,
    ) -> Result<CodeAnswer, SubscriptionError> {
        let question = json!({"device_auth_id": device_auth_id, "user_code": user_code});
        let answer = self.post("api/accounts/deviceauth/token", |request| request.json(&question)).await?;
        if answer.status.is_success() {
            let text = |name: &str| {
                let found = answer.body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
                found.map(ToOwned::to_owned).ok_or_else(|| SubscriptionError::BadAnswer(format!("no {name}")))
            };
            return Ok(CodeAnswer::Entered { code: text("authorization_code")?, verifier: text("code_verifier")? });
        }
        match (answer.code().unwrap_or_default(), answer.status) {
            ("slow_down", _) | (_, StatusCode::TOO_MANY_REQUESTS) => Ok(CodeAnswer::SlowDown),
            ("access_denied", _) => Err(SubscriptionError::Denied(answer.text(&[device_auth_id]))),
            ("expired_token", _) | (_, StatusCode::GONE) => Err(SubscriptionError::Expired),
            ("authorization_pending", _) | (_, StatusCode::FORBIDDEN | StatusCode::NOT_FOUND) => {
                Ok(CodeAnswer::Pending)
            }
            _ => Err(answer.failed(&[device_auth_id])),
        }
    }

    async fn post(
        &self,
        path: &str,
        with: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Answer, SubscriptionError> {
        let unreachable = |error: reqwest::Error| {
            let why = if error.is_timeout() {
                "no answer in time".to_owned()
            } else {
                openhands_llm::chain(&error.without_url())
            };
            SubscriptionError::Unreachable(format!("{}: {why}", self.service.host()))
        };
        let client = openhands_llm::http_client().map_err(|error| SubscriptionError::Unreachable(error.to_string()))?;
        let request = with(client.post(self.service.at(path))).timeout(LIMIT);
        let mut answer = request.send().await.map_err(unreachable)?;
        let status = answer.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            if bytes.len() + chunk.len() > MAX_ANSWER {
                return Err(SubscriptionError::BadAnswer(format!("more than {} KiB", MAX_ANSWER >> 10)));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or_default() })
    }
}

impl Answer {
    fn tokens(self) -> Result<Tokens, SubscriptionError> {
        // The error of serde would repeat what it read.
        let tokens: Tokens = serde_json::from_value(self.body)
            .map_err(|_| SubscriptionError::BadAnswer("no access_token".to_owned()))?;
        if tokens.access_token.trim().is_empty() {
            return Err(SubscriptionError::BadAnswer("an empty access_token".to_owned()));
        }
        Ok(tokens)
    }

    /// The word for what is wrong, flat (RFC 6749) or nested (the vendor's own).
    fn code(&self) -> Option<&str> {
        let error = self.body.get("error")?;
        error.as_str().or_else(|| error.get("code")?.as_str()).or_else(|| error.get("type")?.as_str())
    }

    /// What the issuer says, short and without what we sent.
    fn text(&self, secrets: &[&str]) -> String {
        let error = self.body.get("error");
        let description = self
            .body
            .get("error_description")
            .or_else(|| error.and_then(|error| error.get("message")))
            .and_then(Value::as_str);
        let parts = [self.code(), description].into_iter().flatten();
        let text = parts.collect::<Vec<_>>().join(": ");
        let text =
            secrets.iter().filter(|secret| secret.len() >= 6).fold(text, |text, secret| text.replace(secret, MASK));
        let short: String = text.chars().filter(|letter| !letter.is_control()).take(MAX_TEXT).collect();
        if short.is_empty() {
            format!("HTTP {}", self.status.as_u16())
        } else {
            format!("{short} (HTTP {})", self.status.as_u16())
        }
    }

    fn failed(&self, secrets: &[&str]) -> SubscriptionError {
        let text = self.text(secrets);
        if self.status.is_server_error() || self.status == StatusCode::TOO_MANY_REQUESTS {
            SubscriptionError::Unreachable(text)
        } else {
            SubscriptionError::Denied(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_short_and_without_secrets() {
        let answer = |status, body: Value| Answer { status: StatusCode::from_u16(status).unwrap(), body };
        let flat = answer(400, json!({"error": "invalid_grant", "error_description": "token secret-token is\nvoid"}));
        assert_eq!(flat.text(&["secret-token"]), "invalid_grant: token ********** isvoid (HTTP 400)");
        let nested = answer(401, json!({"error": {"code": "token_expired", "message": "too late"}}));
        assert_eq!(nested.text(&[]), "token_expired: too late (HTTP 401)");
        assert_eq!(answer(503, Value::Null).text(&[]), "HTTP 503");
        assert!(answer(503, Value::Null).failed(&[]).is_transient());
        assert!(!answer(418, Value::Null).failed(&[]).is_transient());
        let long = answer(400, json!({"error": "x".repeat(5000)}));
        assert!(long.text(&[]).len() < 300);
    }
}
