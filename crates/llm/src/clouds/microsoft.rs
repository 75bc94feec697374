//! Tokens of Microsoft Entra ("Azure AD"): given, by an application's secret, or by the signed token that a cluster puts into a pod
//! (workload identity).

use std::sync::Arc;

use async_trait::async_trait;
use openhands_protocol::secret::SecretText;
use reqwest::header::CONTENT_TYPE;
use url::{Url, form_urlencoded};

use super::{
    Surroundings,
    exchange::{self, FAR},
    kept::{Issued, Issuer, Kept},
    surroundings,
};
use crate::{Credentials, LlmError, TokenSource, factory::Environment};

const ISSUER: &str = "Microsoft Entra";
const AUTHORITY: &str = "https://login.microsoftonline.com";
const SCOPE: &str = "https://cognitiveservices.azure.com/.default";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Who asks for tokens, and with what proof.
enum Entra {
    Given(SecretText),
    Application { address: Url, client: String, proof: Proof, scope: String },
}

enum Proof {
    Secret(SecretText),
    /// Renewed by the cluster.
    File(String),
}

impl Proof {
    fn form(&self, client: &str, scope: &str) -> Result<String, LlmError> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials")
            .append_pair("client_id", client)
            .append_pair("scope", scope);
        match self {
            Self::Secret(secret) => form.append_pair("client_secret", secret.expose()),
            Self::File(file) => {
                let token = surroundings::required(file, "AZURE_FEDERATED_TOKEN_FILE")?;
                form.append_pair("client_assertion_type", ASSERTION).append_pair("client_assertion", token.trim())
            }
        };
        Ok(form.finish())
    }
}

/// The tokens that the surroundings speak of; `None` when they speak of none.
///
/// # Errors
/// [`LlmError::BadRequest`] when `AZURE_AUTHORITY_HOST` or the tenant's name makes no address.
pub(crate) fn tokens_for(environment: &Environment) -> Result<Option<Arc<dyn TokenSource>>, LlmError> {
    let surroundings = Surroundings::of(environment);
    Ok(Entra::of(&surroundings)?.map(|entra| Arc::new(Kept::new(entra)) as Arc<dyn TokenSource>))
}

impl Entra {
    fn of(surroundings: &Surroundings) -> Result<Option<Self>, LlmError> {
        if let Some(token) = surroundings.get("AZURE_AD_TOKEN") {
            return Ok(Some(Self::Given(SecretText::new(token))));
        }
        let (Some(tenant), Some(client)) = (surroundings.get("AZURE_TENANT_ID"), surroundings.get("AZURE_CLIENT_ID"))
        else {
            return Ok(None);
        };
        let secret = surroundings.get("AZURE_CLIENT_SECRET").map(|secret| Proof::Secret(SecretText::new(secret)));
        let file = || surroundings.get("AZURE_FEDERATED_TOKEN_FILE").map(|file| Proof::File(file.to_owned()));
        let Some(proof) = secret.or_else(file) else { return Ok(None) };
        let authority = surroundings.get("AZURE_AUTHORITY_HOST").unwrap_or(AUTHORITY);
        let address = Url::parse(authority).ok().and_then(|mut url| {
            url.path_segments_mut().ok()?.pop_if_empty().extend([tenant, "oauth2", "v2.0", "token"]);
            Some(url)
        });
        let address =
            address.ok_or_else(|| LlmError::BadRequest(format!("AZURE_AUTHORITY_HOST {authority:?} is no URL")))?;
        let scope = surroundings.get("AZURE_SCOPE").unwrap_or(SCOPE).to_owned();
        Ok(Some(Self::Application { address, client: client.to_owned(), proof, scope }))
    }
}

#[async_trait]
impl Issuer for Entra {
    async fn issue(&self) -> Result<Issued, LlmError> {
        let (address, form) = match self {
            Self::Given(token) => {
                return Ok(Issued { credentials: Credentials::bearer(token.expose()), expires: None });
            }
            Self::Application { address, client, proof, scope } => (address, proof.form(client, scope)?),
        };
        let request = exchange::far()?.post(address.clone()).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let body = exchange::ask(request.body(form), ISSUER, FAR).await?;
        let (token, expires) = exchange::token(&body, ISSUER)?;
        Ok(Issued { credentials: Credentials::Bearer { token, headers: Vec::new() }, expires })
    }
}

#[cfg(test)]
mod tests;
