//! The endpoint that a container platform puts beside a container: EKS Pod Identity, ECS.

use std::net::IpAddr;

use jiff::Timestamp;
use openhands_protocol::secret::SecretText;
use reqwest::header::AUTHORIZATION;
use url::{Host, Url};

use super::Keys;
use crate::{
    LlmError,
    caller::secret_header,
    clouds::{
        Surroundings,
        exchange::{self, NEAR},
        surroundings,
    },
};

const ISSUER: &str = "the container's credentials endpoint";
const ECS: &str = "http://169.254.170.2";
/// Where the platforms put their endpoints; anything else must be encrypted or on this machine.
const KNOWN: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

/// Where the endpoint is, and what it wants to hear.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Place {
    url: Url,
    proof: Option<Proof>,
}

#[derive(Clone, PartialEq, Eq)]
enum Proof {
    Text(SecretText),
    /// Renewed by the platform.
    File(String),
}

impl Place {
    /// `None` when the platform said nothing.
    pub(super) fn of(surroundings: &Surroundings) -> Result<Option<Self>, LlmError> {
        let relative = surroundings.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("{ECS}{path}"));
        let full = surroundings.get("AWS_CONTAINER_CREDENTIALS_FULL_URI");
        let Some(address) = relative.or_else(|| full.map(ToOwned::to_owned)) else { return Ok(None) };
        let wrong =
            |why: &str| LlmError::Authentication(format!("AWS_CONTAINER_CREDENTIALS_FULL_URI {address:?} {why}"));
        let url = Url::parse(&address).map_err(|error| wrong(&format!("is no URL: {error}")))?;
        let ip = match url.host() {
            Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
            _ => None,
        };
        let is_known = ip.is_some_and(|ip| ip.is_loopback() || KNOWN.iter().any(|known| known.parse() == Ok(ip)));
        if url.scheme() != "https" && !(is_known || url.host_str() == Some("localhost")) {
            return Err(wrong("is neither encrypted nor a container platform's address"));
        }
        let text =
            || surroundings.get("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(|text| Proof::Text(SecretText::new(text)));
        let file = surroundings.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(|file| Proof::File(file.to_owned()));
        Ok(Some(Self { url, proof: file.or_else(text) }))
    }
}

/// Asks the endpoint.
pub(super) async fn keys(place: &Place) -> Result<(Keys, Option<Timestamp>), LlmError> {
    let mut request = exchange::near()?.get(place.url.clone());
    let proof = match &place.proof {
        None => None,
        Some(Proof::Text(text)) => Some(text.expose().to_owned()),
        Some(Proof::File(file)) => Some(surroundings::required(file, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")?),
    };
    if let Some(proof) = proof {
        request = request.header(AUTHORIZATION, secret_header(proof.trim(), "AWS_CONTAINER_AUTHORIZATION_TOKEN")?);
    }
    Keys::of_document(&exchange::ask(request, ISSUER, NEAR).await?, ISSUER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_places_are_asked() {
        let place = |variables: &[(&str, &str)]| {
            let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Place::of(&Surroundings::of(&environment)).map(|place| place.map(|place| place.url.to_string()))
        };
        let full = |url: &'static str| place(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)]);
        assert_eq!(place(&[]).unwrap(), None);
        let relative = place(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x")]).unwrap();
        assert_eq!(relative.as_deref(), Some("http://169.254.170.2/v2/x"));
        for good in [
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
            "http://127.0.0.1:9/x",
            "http://localhost/x",
            "https://h/x",
        ] {
            assert_eq!(full(good).unwrap().as_deref(), Some(good));
        }
        for bad in ["http://h/x", "http://10.0.0.1/", "ftp://h", "x"] {
            assert!(full(bad).is_err(), "{bad}");
        }
    }
}
