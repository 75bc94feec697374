//! Credentials of the clouds: AWS keys, Google's access tokens, tokens of Microsoft Entra, each obtained the way the cloud's own tools
//! document it, kept, and renewed before they end.
//!
//! Reads variables of the given environment and files that it names or that lie below its `HOME`; never the process's own. Knows
//! nothing of models: what it hands out is a [`TokenSource`](crate::TokenSource). Why what is trusted: `docs/decisions/0017`.

pub(crate) mod aws;
mod exchange;
pub(crate) mod google;
mod kept;
pub(crate) mod microsoft;
mod surroundings;

pub(crate) use self::{aws::encoded, surroundings::Surroundings};

use openhands_protocol::LlmConfig;

use crate::providers::Issuer;

/// Whether what calls are made with stands in the configuration itself, and so belongs to its address.
pub(crate) fn is_of_configuration(config: &LlmConfig, issuer: Issuer) -> bool {
    match issuer {
        Issuer::Google => config.api_key.as_ref().is_some_and(google::is_document),
        Issuer::Aws => {
            let own = [&config.aws_access_key_id, &config.aws_secret_access_key];
            own.iter().all(|key| key.as_ref().is_some_and(|key| !key.expose().trim().is_empty()))
                && config.aws_profile_name.as_deref().is_none_or(|profile| profile.trim().is_empty())
        }
        Issuer::Entra | Issuer::Nobody => false,
    }
}
