//! Models that a vendor's plan pays for instead of a key (F1-LLM-30): where they are asked, and by whose leave.
//!
//! The token comes from a [`TokenSource`](crate::TokenSource), and so does the address: a configuration, which a conversation's
//! client writes, can not send a plan's token elsewhere.

use openhands_protocol::LlmConfig;

use crate::{
    ClientOptions, LlmError,
    endpoint::{Endpoint, Mode},
    providers::openai_row,
};

/// Whether a plan pays for a slot. Either member says so: the SDK writes both, people write `auth_type`.
#[must_use]
pub fn is_paid_by_plan(config: &LlmConfig) -> bool {
    config.is_subscription || config.auth_type == "subscription"
}

/// Where a plan's model is asked: always on Responses, at the address that the token is for.
pub(crate) fn endpoint(config: &LlmConfig, options: &ClientOptions) -> Result<Endpoint, LlmError> {
    let vendor = config.subscription_vendor.as_deref().unwrap_or("openai");
    if vendor != "openai" {
        return Err(LlmError::BadRequest(format!(
            "llm.subscription_vendor {vendor:?} is not supported, the only vendor is \"openai\""
        )));
    }
    if config.api_mode == "chat" {
        return Err(LlmError::NotSupported(
            "llm.api_mode \"chat\" with a subscription; set it to \"auto\" or \"responses\"".to_owned(),
        ));
    }
    let base = options.credentials.as_ref().and_then(|source| source.base_url());
    let mut url = base.ok_or_else(|| {
        LlmError::Authentication(format!(
            "{} is paid by a subscription, and nobody is signed in to one here",
            config.model
        ))
    })?;
    let path = format!("{}/responses", url.path().trim_end_matches('/'));
    url.set_path(&path);
    let model = config.model.trim();
    let model = model.strip_prefix("openai/").unwrap_or(model);
    if model.is_empty() {
        return Err(LlmError::BadRequest("llm.model is empty, name a model of the plan".to_owned()));
    }
    Ok(Endpoint {
        provider: openai_row(),
        mode: Mode::Responses,
        model: model.to_owned(),
        url,
        key: None,
        credentials: None,
        region: String::new(),
    })
}
