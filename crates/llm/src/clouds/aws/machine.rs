//! The metadata of a machine at AWS, in its second version: a token first, then the role's name, then its keys.

use std::time::Duration;

use jiff::Timestamp;

use super::Keys;
use crate::{
    LlmError,
    clouds::{
        Surroundings,
        exchange::{self, NEAR},
    },
};

const ISSUER: &str = "AWS's instance metadata";
const ROLES: &str = "latest/meta-data/iam/security-credentials";
/// Outside AWS nothing answers at the address, and the first question tells.
const FIRST: Duration = Duration::from_secs(2);

/// Where the metadata is; `None` when it is switched off.
pub(super) fn endpoint(surroundings: &Surroundings) -> Option<String> {
    if surroundings.says_yes("AWS_EC2_METADATA_DISABLED") {
        return None;
    }
    let by_mode = match surroundings.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE") {
        Some(mode) if mode.eq_ignore_ascii_case("ipv6") => "http://[fd00:ec2::254]",
        _ => "http://169.254.169.254",
    };
    let endpoint = surroundings.get("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or(by_mode);
    Some(endpoint.trim_end_matches('/').to_owned())
}

/// Asks for the keys of the machine's role.
pub(super) async fn keys(endpoint: &str) -> Result<(Keys, Option<Timestamp>), LlmError> {
    let http = exchange::near()?;
    let lives = "x-aws-ec2-metadata-token-ttl-seconds";
    let token = exchange::ask(http.put(format!("{endpoint}/latest/api/token")).header(lives, "21600"), ISSUER, FIRST);
    let token = token.await.map_err(absent)?;
    let get = |path: &str| http.get(format!("{endpoint}/{path}")).header("x-aws-ec2-metadata-token", token.trim());
    let roles = exchange::ask(get(&format!("{ROLES}/")), ISSUER, NEAR).await?;
    let role = roles.lines().next().map(str::trim).filter(|role| !role.is_empty());
    let role = role.ok_or_else(|| LlmError::Authentication("the machine has no role at AWS".to_owned()))?;
    let body = exchange::ask(get(&format!("{ROLES}/{}", super::encoded(role))), ISSUER, NEAR).await?;
    Keys::of_document(&body, ISSUER)
}

/// Nobody at the address: the machine is none of AWS's, and no further attempt changes that.
fn absent(error: LlmError) -> LlmError {
    match error {
        LlmError::Timeout(why) | LlmError::ServiceUnavailable(why) => LlmError::Authentication(format!(
            "no AWS keys: none are configured, and this machine has no metadata to ask ({why}); set llm.aws_access_key_id with \
             llm.aws_secret_access_key, AWS_BEARER_TOKEN_BEDROCK, llm.aws_profile_name or llm.aws_role_name"
        )),
        other => other,
    }
}
