//! The vendors whose plans can be used, and the models a plan pays for.

use openhands_llm::PLAN_MODELS;
use openhands_protocol::LlmConfig;
use serde_json::{Map, Value};
use url::Url;

use crate::SubscriptionError;

/// Asked when no model is named (F2-SUBS-03).
pub const DEFAULT_MODEL: &str = "gpt-5.5";

/// Whose plan (F2-SUBS-02).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// `openai`: plans of `ChatGPT`.
    OpenAi,
}

impl Vendor {
    /// The vendor of this name; an absent name means the only one.
    ///
    /// # Errors
    /// [`SubscriptionError::UnsupportedVendor`].
    pub fn named(name: Option<&str>) -> Result<Self, SubscriptionError> {
        match name.map(str::trim) {
            None | Some("" | "openai") => Ok(Self::OpenAi),
            Some(other) => Err(SubscriptionError::UnsupportedVendor(other.to_owned())),
        }
    }

    /// The name in files, configurations and addresses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
        }
    }

    /// The models its plans pay for.
    #[must_use]
    pub const fn models(self) -> &'static [&'static str] {
        match self {
            Self::OpenAi => &PLAN_MODELS,
        }
    }

    /// A model's name without the vendor's prefix.
    ///
    /// # Errors
    /// [`SubscriptionError::UnsupportedModel`] for one that no plan pays for.
    pub fn model(self, name: &str) -> Result<&str, SubscriptionError> {
        let name = name.trim();
        let bare = name.strip_prefix(self.name()).and_then(|rest| rest.strip_prefix('/')).unwrap_or(name);
        if self.models().contains(&bare) {
            Ok(bare)
        } else {
            Err(SubscriptionError::UnsupportedModel { model: bare.to_owned(), known: self.models() })
        }
    }

    /// The slot of a model that the plan pays for (F1-LLM-30, F2-SUBS-09). It holds no token: whoever makes a client of it adds
    /// the tokens that are stored where the client runs.
    pub(crate) fn llm(self, model: &str, backend: &Url) -> LlmConfig {
        let mut extra_body = Map::new();
        extra_body.insert("store".to_owned(), Value::Bool(false));
        LlmConfig {
            model: format!("{}/{model}", self.name()),
            api_key: None,
            auth_type: "subscription".to_owned(),
            subscription_vendor: Some(self.name().to_owned()),
            is_subscription: true,
            base_url: Some(backend.as_str().trim_end_matches('/').to_owned()),
            stream: true,
            temperature: None,
            max_output_tokens: None,
            litellm_extra_body: extra_body,
            ..LlmConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_and_models_are_checked_by_name() {
        assert_eq!(Vendor::named(None).unwrap(), Vendor::OpenAi);
        assert!(Vendor::named(Some("acme")).unwrap_err().to_string().contains("\"acme\""));
        assert_eq!(Vendor::OpenAi.model("openai/gpt-5.2-codex").unwrap(), "gpt-5.2-codex");
        assert_eq!(Vendor::OpenAi.model(DEFAULT_MODEL).unwrap(), DEFAULT_MODEL);
        let error = Vendor::OpenAi.model("gpt-4o").unwrap_err().to_string();
        assert!(error.contains("\"gpt-4o\"") && error.contains("gpt-5.2-codex"), "{error}");
        assert!(PLAN_MODELS.is_sorted());
    }
}
