//! Accounts out of Google's credentials documents: a service account proves itself by a signed assertion, a person by a refresh
//! token.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use jiff::Timestamp;
use openhands_protocol::secret::SecretText;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use serde_json::{Value, json};
use url::{Host, Url, form_urlencoded};

use crate::{
    Credentials, LlmError,
    clouds::{
        exchange::{self, FAR},
        kept::Issued,
    },
};

const ISSUER: &str = "Google's token service";
const TOKENS: &str = "https://oauth2.googleapis.com/token";
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Longest life of an assertion, seconds.
const LIFE: i64 = 3600;

/// An account that is able to get tokens.
pub(super) struct Account {
    /// The project that the document names.
    pub(super) project: Option<String>,
    /// Who pays, where that is said.
    quota: Option<HeaderValue>,
    /// Who gives tokens.
    pub(super) address: Url,
    proof: Proof,
}

enum Proof {
    Service { email: String, key_id: Option<String>, key: Box<RsaKeyPair> },
    Person { id: String, secret: SecretText, refresh: SecretText },
}

impl Account {
    /// `place` is what named the document.
    pub(super) fn of(document: &Value, place: &str) -> Result<Self, LlmError> {
        let text =
            |name: &str| document.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
        let needed = |name: &str| {
            text(name)
                .ok_or_else(|| LlmError::Authentication(format!("the Google credentials of {place} have no {name}")))
        };
        let kind = text("type").unwrap_or_default();
        // A person's secrets go to Google alone.
        let address =
            address(text("token_uri").filter(|_| kind == "service_account").unwrap_or(TOKENS)).ok_or_else(|| {
                LlmError::Authentication(format!(
                    "the token_uri in the Google credentials of {place} is no https address"
                ))
            })?;
        let proof = match kind {
            "service_account" => {
                let key = needed("private_key")?;
                let key = key_pair(key).ok_or_else(|| {
                    LlmError::Authentication(format!(
                        "the private_key in the Google credentials of {place} is no RSA key (PKCS #8)"
                    ))
                })?;
                let key_id = text("private_key_id").map(ToOwned::to_owned);
                Proof::Service { email: needed("client_email")?.to_owned(), key_id, key: Box::new(key) }
            }
            "authorized_user" => Proof::Person {
                id: needed("client_id")?.to_owned(),
                secret: SecretText::new(needed("client_secret")?),
                refresh: SecretText::new(needed("refresh_token")?),
            },
            other => {
                return Err(LlmError::NotSupported(format!(
                    "Google credentials of type {other:?} ({place}); use a service account, a user's, or the metadata server of GKE"
                )));
            }
        };
        let project = text("project_id").or_else(|| text("quota_project_id")).map(ToOwned::to_owned);
        let quota = text("quota_project_id").and_then(|project| HeaderValue::from_str(project).ok());
        Ok(Self { project, quota, address, proof })
    }

    pub(super) async fn issue(&self) -> Result<Issued, LlmError> {
        let form = self.form(Timestamp::now())?;
        let request =
            exchange::far()?.post(self.address.clone()).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let body = exchange::ask(request.body(form), ISSUER, FAR).await?;
        let (token, expires) = exchange::token(&body, ISSUER)?;
        let quota = self.quota.iter().map(|quota| (HeaderName::from_static("x-goog-user-project"), quota.clone()));
        Ok(Issued { credentials: Credentials::Bearer { token, headers: quota.collect() }, expires })
    }

    fn form(&self, now: Timestamp) -> Result<String, LlmError> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        match &self.proof {
            Proof::Service { email, key_id, key } => {
                let assertion = assertion(email, key_id.as_deref(), key, &self.address, now)?;
                form.append_pair("grant_type", GRANT).append_pair("assertion", &assertion);
            }
            Proof::Person { id, secret, refresh } => {
                form.append_pair("grant_type", "refresh_token").append_pair("client_id", id);
                form.append_pair("client_secret", secret.expose()).append_pair("refresh_token", refresh.expose());
            }
        }
        Ok(form.finish())
    }
}

/// Proof of a key goes out encrypted, or to this very machine.
fn address(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_here = match url.host()? {
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
        Host::Domain(_) => false,
    };
    (url.scheme() == "https" || (url.scheme() == "http" && is_here)).then_some(url)
}

fn key_pair(pem: &str) -> Option<RsaKeyPair> {
    let text: String = pem.lines().map(str::trim).filter(|line| !line.starts_with("-----")).collect();
    RsaKeyPair::from_pkcs8(&STANDARD.decode(text).ok()?).ok()
}

/// What a service account signs to get a token.
fn assertion(
    email: &str,
    key_id: Option<&str>,
    key: &RsaKeyPair,
    address: &Url,
    now: Timestamp,
) -> Result<String, LlmError> {
    let mut header = json!({"alg": "RS256", "typ": "JWT"});
    if let (Some(header), Some(id)) = (header.as_object_mut(), key_id) {
        header.insert("kid".to_owned(), id.into());
    }
    let seconds = now.as_second();
    let claims = json!({
        "iss": email, "scope": SCOPE, "aud": address.as_str(), "iat": seconds, "exp": seconds.saturating_add(LIFE),
    });
    let part = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let text = format!("{}.{}", part(&header), part(&claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
        .map_err(|_| LlmError::Authentication("the service account's key could not sign".to_owned()))?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
