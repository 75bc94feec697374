//! AWS keys: which source they come from, and who is asked for them.
//!
//! The order is the one that AWS's own tools and LiteLLM share: a role or profile of the configuration, its keys, then the
//! surroundings: variables, a web identity (IRSA), the shared files, a container's endpoint (EKS Pod Identity, ECS), the
//! machine's metadata. Files are read anew with every renewal.

mod container;
mod machine;
mod profiles;
mod roles;
mod signature;
mod source;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use openhands_protocol::{LlmConfig, secret::SecretText};
use serde_json::Value;

pub(crate) use self::signature::{Signing, encoded};
use self::source::Source;
use super::{
    Surroundings,
    kept::{Issued, Issuer, Kept},
};
use crate::{Credentials, LlmError, TokenSource, factory::Environment};

/// What a configuration says about AWS.
#[derive(Clone, Default)]
pub(super) struct Wish {
    pub(super) keys: Option<Keys>,
    pub(super) profile: Option<String>,
    pub(super) role: Option<String>,
    pub(super) session_name: Option<String>,
    pub(super) region: String,
}

/// AWS keys.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) id: String,
    pub(crate) secret: SecretText,
    pub(crate) session: Option<SecretText>,
}

impl Keys {
    /// The keys among credentials of all kinds.
    pub(crate) fn of(credentials: &Credentials) -> Option<Self> {
        match credentials {
            Credentials::Bearer { .. } => None,
            Credentials::Aws { access_key_id, secret_access_key, session_token } => Some(Self {
                id: access_key_id.expose().to_owned(),
                secret: secret_access_key.clone(),
                session: session_token.clone(),
            }),
        }
    }

    fn issued(self, expires: Option<Timestamp>) -> Issued {
        let Self { id, secret, session } = self;
        let credentials =
            Credentials::Aws { access_key_id: SecretText::new(id), secret_access_key: secret, session_token: session };
        Issued { credentials, expires }
    }

    /// As the endpoints of containers and machines answer.
    fn of_document(body: &str, issuer: &str) -> Result<(Self, Option<Timestamp>), LlmError> {
        let document: Value = serde_json::from_str(body).unwrap_or_default();
        let member = |name: &str| document.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (Some(id), Some(secret)) = (member("AccessKeyId"), member("SecretAccessKey")) else {
            let why =
                member("Message").or_else(|| member("message")).or_else(|| member("Code")).unwrap_or("no keys in it");
            return Err(LlmError::Authentication(format!("{issuer} answered without keys: {why}")));
        };
        let expires = member("Expiration").and_then(|time| time.parse().ok());
        Ok((
            Self { id: id.to_owned(), secret: SecretText::new(secret), session: member("Token").map(SecretText::new) },
            expires,
        ))
    }
}

/// Asks a source for keys.
struct Aws {
    wish: Wish,
    surroundings: Surroundings,
    model: String,
}

impl Aws {
    fn source(&self) -> Result<Source, LlmError> {
        Source::of(&self.wish, &self.surroundings)?.ok_or_else(|| {
            LlmError::Authentication(format!(
                "no key for {}: set llm.api_key or AWS_BEARER_TOKEN_BEDROCK, llm.aws_access_key_id with llm.aws_secret_access_key, \
                 llm.aws_profile_name or llm.aws_role_name, or give the machine a role",
                self.model
            ))
        })
    }
}

#[async_trait]
impl Issuer for Aws {
    async fn issue(&self) -> Result<Issued, LlmError> {
        let (keys, expires) = self.source()?.keys(&self.surroundings).await?;
        Ok(keys.issued(expires))
    }
}

/// The keys for a model; `region` is the model's.
///
/// # Errors
/// [`LlmError::Authentication`] when nothing says where keys could come from, or a file is wrong; [`LlmError::NotSupported`] names
/// a setting of a profile that is not.
pub(crate) fn keys_for(
    config: &LlmConfig,
    environment: &Environment,
    region: &str,
) -> Result<Arc<dyn TokenSource>, LlmError> {
    let surroundings = Surroundings::of(environment);
    let own = filled(&config.aws_access_key_id).zip(filled(&config.aws_secret_access_key));
    let text =
        |text: &Option<String>| text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(ToOwned::to_owned);
    let or = |own: Option<String>, variable: &str| own.or_else(|| surroundings.get(variable).map(ToOwned::to_owned));
    let wish = Wish {
        keys: own.map(|(id, secret)| Keys {
            id: id.expose().trim().to_owned(),
            secret,
            session: filled(&config.aws_session_token),
        }),
        profile: or(text(&config.aws_profile_name), "AWS_PROFILE_NAME"),
        role: or(text(&config.aws_role_name), "AWS_ROLE_NAME"),
        session_name: or(text(&config.aws_session_name), "AWS_SESSION_NAME"),
        region: region.to_owned(),
    };
    let aws = Aws { wish, surroundings, model: config.model.clone() };
    // What is wrong with files and names is told when the client is made.
    aws.source()?;
    Ok(Arc::new(Kept::new(aws)))
}

fn filled(secret: &Option<SecretText>) -> Option<SecretText> {
    secret.clone().filter(|text| !text.expose().trim().is_empty())
}

/// The region that the chosen profile names.
pub(crate) fn profiled_region(config: &LlmConfig, environment: &Environment) -> Result<Option<String>, LlmError> {
    let surroundings = Surroundings::of(environment);
    let named = config.aws_profile_name.as_deref().map(str::trim).filter(|name| !name.is_empty());
    let named = named.or_else(|| surroundings.any(&source::PROFILE_VARIABLES));
    let profiles = profiles::Profiles::read(&surroundings)?;
    Ok(profiles.get(named.unwrap_or("default")).and_then(|profile| profile.get("region")).map(ToOwned::to_owned))
}

/// Whether a text can be a region: it becomes a part of the names of hosts.
pub(crate) fn is_region_name(region: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !region.is_empty() && region.len() <= 40 && region.bytes().all(is_good)
}

/// Where AWS's services of a region are found.
pub(crate) fn domain(region: &str) -> &'static str {
    for (begin, domain) in [
        ("cn-", "amazonaws.com.cn"),
        ("eusc-", "amazonaws.eu"),
        ("us-iso-", "c2s.ic.gov"),
        ("us-isob-", "sc2s.sgov.gov"),
        ("us-isof-", "csp.hci.ic.gov"),
        ("eu-isoe-", "cloud.adc-e.uk"),
    ] {
        if region.starts_with(begin) {
            return domain;
        }
    }
    "amazonaws.com"
}

#[cfg(test)]
mod tests;
