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

/// The models of `OpenAI`'s plans, in the order in which lists show them: those of the reference's version, and those that its
/// documentation names besides (F2-SUBS-03).
pub const PLAN_MODELS: [&str; 12] = [
    "gpt-5.1-codex-max",
    "gpt-5.1-codex-mini",
    "gpt-5.2",
    "gpt-5.2-codex",
    "gpt-5.5",
    "gpt-5.6-luna",
    "gpt-5.6-sol",
    "gpt-5.6-terra",
    "gpt-6-astra",
    "gpt-6-luna",
    "gpt-6-sol",
    "gpt-6.1-sol",
];

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
    let model = config.model.trim();
    let model = model.strip_prefix("openai/").unwrap_or(model);
    if !PLAN_MODELS.contains(&model) {
        return Err(LlmError::BadRequest(format!(
            "llm.model {model:?} is not available with a subscription; use one of {}",
            PLAN_MODELS.join(", ")
        )));
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
