//! Roles, taken on through AWS's token service (STS), by keys or by a signed token.

use jiff::Timestamp;
use openhands_protocol::secret::SecretText;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use url::{Url, form_urlencoded};

use super::{Keys, Wish, domain, signature::Signing};
use crate::{
    LlmError,
    clouds::{
        Surroundings,
        exchange::{self, FAR},
        surroundings,
    },
};

const ISSUER: &str = "AWS's token service";
const FORM: &str = "application/x-www-form-urlencoded";

/// A role to be taken on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Role {
    arn: String,
    /// Shown in AWS's logs.
    session: String,
    external_id: Option<String>,
    region: String,
}

impl Role {
    pub(super) fn new(arn: &str, wish: &Wish, external_id: Option<&str>) -> Result<Self, LlmError> {
        if !(arn.starts_with("arn:") && arn.contains(":role/")) {
            return Err(LlmError::BadRequest(format!(
                "AWS role {arn:?} is no name of a role, such as arn:aws:iam::123456789012:role/name"
            )));
        }
        if !super::is_region_name(&wish.region) {
            return Err(LlmError::BadRequest(format!("AWS region {:?} is no region, such as us-east-1", wish.region)));
        }
        let session = wish.session_name.as_deref().unwrap_or("openhands");
        let is_good = |character: char| character.is_ascii_alphanumeric() || "_=,.@-".contains(character);
        let session: String =
            session.chars().map(|character| if is_good(character) { character } else { '-' }).take(64).collect();
        let session = if session.chars().count() < 2 { format!("{session}-session") } else { session };
        Ok(Self {
            arn: arn.to_owned(),
            session,
            external_id: external_id.map(ToOwned::to_owned),
            region: wish.region.clone(),
        })
    }

    fn form(&self, action: &str, more: &[(&str, &str)]) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", action).append_pair("Version", "2011-06-15");
        form.append_pair("RoleArn", &self.arn).append_pair("RoleSessionName", &self.session);
        form.extend_pairs(more).finish()
    }

    /// The documented variables name another address; else it is the region's own.
    fn address(&self, surroundings: &Surroundings) -> Result<Url, LlmError> {
        let variables = ["AWS_ENDPOINT_URL_STS", "AWS_STS_ENDPOINT", "AWS_ENDPOINT_URL"];
        let named =
            surroundings.any(&variables).filter(|_| !surroundings.says_yes("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"));
        let address =
            named.map_or_else(|| format!("https://sts.{}.{}/", self.region, domain(&self.region)), ToOwned::to_owned);
        Url::parse(&address)
            .map_err(|error| LlmError::BadRequest(format!("AWS_ENDPOINT_URL_STS {address:?} is no URL: {error}")))
    }
}

/// Takes a role on with keys.
pub(super) async fn by_keys(
    role: &Role,
    keys: &Keys,
    surroundings: &Surroundings,
) -> Result<(Keys, Option<Timestamp>), LlmError> {
    let external: Vec<_> = role.external_id.iter().map(|id| ("ExternalId", id.as_str())).collect();
    let body = role.form("AssumeRole", &external);
    let url = role.address(surroundings)?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(FORM));
    Signing { keys, region: &role.region, service: "sts" }.sign(
        &url,
        &mut headers,
        body.as_bytes(),
        Timestamp::now(),
    )?;
    issued(exchange::far()?.post(url).headers(headers).body(body), role).await
}

/// Takes a role on with the signed token in a file, which is renewed by others.
pub(super) async fn by_web(
    role: &Role,
    file: &str,
    surroundings: &Surroundings,
) -> Result<(Keys, Option<Timestamp>), LlmError> {
    let token = surroundings::required(file, "AWS_WEB_IDENTITY_TOKEN_FILE")?;
    let body = role.form("AssumeRoleWithWebIdentity", &[("WebIdentityToken", token.trim())]);
    let url = role.address(surroundings)?;
    issued(exchange::far()?.post(url).header(CONTENT_TYPE, FORM).body(body), role).await
}

async fn issued(request: reqwest::RequestBuilder, role: &Role) -> Result<(Keys, Option<Timestamp>), LlmError> {
    let issuer = format!("{ISSUER} for role {:?}", role.arn);
    let body = exchange::ask(request.header(ACCEPT, "application/xml"), &issuer, FAR).await?;
    let part = |name: &str| exchange::element(&body, name).filter(|text| !text.is_empty());
    let (Some(id), Some(secret), Some(session)) = (part("AccessKeyId"), part("SecretAccessKey"), part("SessionToken"))
    else {
        return Err(LlmError::ServiceUnavailable(format!("{issuer} answered without keys")));
    };
    let keys = Keys { id, secret: SecretText::new(secret), session: Some(SecretText::new(session)) };
    Ok((keys, part("Expiration").and_then(|time| time.parse().ok())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_and_addresses() {
        let wish = |name: Option<&str>, region: &str| Wish {
            session_name: name.map(ToOwned::to_owned),
            region: region.to_owned(),
            ..Wish::default()
        };
        let role =
            |name: Option<&str>, region: &str| Role::new("arn:aws:iam::1:role/r", &wish(name, region), None).unwrap();
        assert_eq!(role(None, "x").session, "openhands");
        assert_eq!(role(Some("a b/ö"), "x").session, "a-b--");
        assert_eq!(role(Some("a"), "x").session, "a-session");
        let address = |region: &str, variables: &[(&str, &str)]| {
            let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            role(None, region).address(&Surroundings::of(&environment)).unwrap().to_string()
        };
        assert_eq!(address("eu-west-1", &[]), "https://sts.eu-west-1.amazonaws.com/");
        assert_eq!(address("cn-north-1", &[]), "https://sts.cn-north-1.amazonaws.com.cn/");
        let named = [("AWS_ENDPOINT_URL", "http://all"), ("AWS_ENDPOINT_URL_STS", "http://sts")];
        assert_eq!(address("x", &named), "http://sts/");
        assert_eq!(
            address("x", &[named[0], ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")]),
            "https://sts.x.amazonaws.com/"
        );
        assert!(Role::new("role", &wish(None, "x"), None).unwrap_err().to_string().contains("arn:aws:iam"));
    }
}
