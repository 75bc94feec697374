//! Whose call it is: a bearer token, or AWS keys from the configuration or the given environment.

use openhands_protocol::secret::SecretText;

use crate::{LlmError, adapter::Setup, factory::Environment};

/// What a call is made with.
#[derive(Debug)]
pub(super) enum Credentials {
    Bearer(SecretText),
    Keys(Keys),
}

/// AWS keys.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: SecretText,
    pub(super) session: Option<SecretText>,
}

impl Credentials {
    pub(super) fn of(setup: &Setup, environment: &Environment) -> Result<Self, LlmError> {
        let config = &setup.config;
        for (member, value) in
            [("aws_profile_name", &config.aws_profile_name), ("aws_role_name", &config.aws_role_name)]
        {
            if value.as_deref().is_some_and(|value| !value.trim().is_empty()) {
                let text =
                    format!("llm.{member}; set llm.api_key, or llm.aws_access_key_id and llm.aws_secret_access_key");
                return Err(LlmError::NotSupported(text));
            }
        }
        let filled = |secret: &Option<SecretText>| secret.clone().filter(|text| !text.expose().trim().is_empty());
        if let Some(token) = &setup.endpoint.key {
            return Ok(Self::Bearer(token.clone()));
        }
        let own = filled(&config.aws_access_key_id).zip(filled(&config.aws_secret_access_key));
        if let Some((id, secret)) = own {
            let session = filled(&config.aws_session_token);
            return Ok(Self::Keys(Keys { id: id.expose().trim().to_owned(), secret, session }));
        }
        let variable = |name: &str| environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let (Some(id), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) else {
            return Err(LlmError::Authentication(format!(
                "no key for {}: set llm.api_key or AWS_BEARER_TOKEN_BEDROCK, or llm.aws_access_key_id and \
                 llm.aws_secret_access_key",
                config.model
            )));
        };
        let session = variable("AWS_SESSION_TOKEN").map(SecretText::new);
        Ok(Self::Keys(Keys { id: id.to_owned(), secret: SecretText::new(secret), session }))
    }
}
