//! The providers: which one a model's name means, its addresses, key variables and quirks, one row each (F1-LLM-02, F1-LLM-39).

mod rows;

use openhands_protocol::LlmConfig;

use self::rows::{PROVIDERS, UNNAMED};
use crate::history::CallIds;

/// The interface a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    /// Chat Completions; Responses too where `responses` is set.
    OpenAi,
    /// The same behind Azure's addresses and headers.
    Azure,
    /// Messages.
    Anthropic,
    /// Google's generateContent.
    Gemini,
    /// Converse of AWS Bedrock.
    Bedrock,
    /// One that this build has no adapter for.
    Other,
}

/// Who issues what calls are authorised with, where no key is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Issuer {
    /// Nobody: there must be a key.
    Nobody,
    Aws,
    Google,
    /// Microsoft's.
    Entra,
}

/// The header that a key travels in, on Chat Completions and Responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyHeader {
    Bearer,
    /// `api-key`, which Azure reads.
    ApiKey,
    /// The same on Azure's own hosts, else bearer.
    ByHost,
}

/// A provider. The prefix is taken off the model's name before it is sent.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) prefix: &'static str,
    pub(crate) interface: Interface,
    /// Without one the configuration must say where.
    pub(crate) base_url: Option<&'static str>,
    /// Where its address is looked for when the configuration has none.
    pub(crate) base_variables: &'static [&'static str],
    /// Where its key is looked for when the configuration has none.
    pub(crate) key_variables: &'static [&'static str],
    /// Its word for the longest answer.
    pub(crate) max_tokens_member: &'static str,
    /// Whether it takes `top_k`, which Chat Completions does not have.
    pub(crate) takes_top_k: bool,
    /// What ids of calls it takes.
    pub(crate) call_ids: CallIds,
    /// Whether it has the Responses interface.
    pub(crate) responses: bool,
    /// Whether a call without a key is worth trying.
    pub(crate) keyless: bool,
    pub(crate) issuer: Issuer,
    pub(crate) key_header: KeyHeader,
    /// Ends of the names of its hosts, beside the one of its address. Keys of the environment go to those only.
    pub(crate) hosts: &'static [&'static str],
    /// Whether images must carry their bytes, whatever the interface takes.
    pub(crate) inline_images: bool,
}

const NEW: &str = "max_completion_tokens";
const OLD: &str = "max_tokens";

/// Google's cloud, Microsoft's, and where Amazon's models are. Of clouds in which everybody may have a host of his own only the
/// names of the services for models count: a virtual machine is below `.azure.com` too.
const GOOGLE_HOSTS: &[&str] = &["aiplatform.googleapis.com", ".rep.googleapis.com", ".p.googleapis.com"];
const MICROSOFT_HOSTS: &[&str] = &[
    ".openai.azure.com",
    ".services.ai.azure.com",
    ".models.ai.azure.com",
    ".cognitiveservices.azure.com",
    ".openai.azure.us",
    ".services.ai.azure.us",
    ".cognitiveservices.azure.us",
    ".openai.azure.cn",
    ".cognitiveservices.azure.cn",
];
const AWS_HOSTS: &[&str] = &[".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu", ".api.aws"];
/// What Amazon calls the service, first in the host's name or behind the name of an endpoint of a private network.
const AWS_SERVICES: [&str; 2] = ["bedrock-runtime", "bedrock-runtime-fips"];

impl Provider {
    const fn new(prefix: &'static str, interface: Interface) -> Self {
        Self {
            prefix,
            interface,
            base_url: None,
            base_variables: &[],
            key_variables: &[],
            max_tokens_member: OLD,
            takes_top_k: false,
            call_ids: CallIds::Any(64),
            responses: false,
            keyless: false,
            issuer: Issuer::Nobody,
            key_header: KeyHeader::Bearer,
            hosts: &[],
            inline_images: false,
        }
    }

    const fn at(mut self, base_url: &'static str) -> Self {
        self.base_url = Some(base_url);
        self
    }

    const fn located_by(mut self, variables: &'static [&'static str]) -> Self {
        self.base_variables = variables;
        self
    }

    const fn key(mut self, variables: &'static [&'static str]) -> Self {
        self.key_variables = variables;
        self
    }

    const fn new_limit(mut self) -> Self {
        self.max_tokens_member = NEW;
        self
    }

    const fn top_k(mut self) -> Self {
        self.takes_top_k = true;
        self
    }

    const fn ids(mut self, ids: CallIds) -> Self {
        self.call_ids = ids;
        self
    }

    const fn with_responses(mut self) -> Self {
        self.responses = true;
        self
    }

    const fn without_key(mut self) -> Self {
        self.keyless = true;
        self
    }

    const fn issued_by(mut self, issuer: Issuer, hosts: &'static [&'static str]) -> Self {
        (self.issuer, self.hosts) = (issuer, hosts);
        self
    }

    /// Whether a host is one of the provider's own, beside the one of its address.
    pub(crate) fn owns(&self, host: &str) -> bool {
        if !self.hosts.iter().any(|end| host.ends_with(end)) {
            return false;
        }
        if self.issuer != Issuer::Aws {
            return true;
        }
        let (first, rest) = host.split_once('.').unwrap_or((host, ""));
        let second = rest.split('.').next().unwrap_or_default();
        AWS_SERVICES.contains(&first) || (first.starts_with("vpce-") && AWS_SERVICES.contains(&second))
    }

    const fn in_header(mut self, header: KeyHeader) -> Self {
        self.key_header = header;
        self
    }

    const fn bytes_for_images(mut self) -> Self {
        self.inline_images = true;
        self
    }
}

/// Beginnings of bare names that can only mean one provider.
const BARE: [(&str, &str); 2] = [("claude-", "anthropic"), ("gemini-", "gemini")];

/// The row of `OpenAI`'s own.
pub(crate) fn openai_row() -> &'static Provider {
    PROVIDERS.first().unwrap_or(&UNNAMED)
}

/// All rows with an adapter.
pub(crate) fn supported() -> impl Iterator<Item = &'static Provider> {
    PROVIDERS.iter().filter(|provider| provider.interface != Interface::Other)
}

/// The provider and the model's name there. Only a known prefix is taken off: names of self-served models hold slashes too.
pub(crate) fn named(config: &LlmConfig) -> (&'static Provider, &str) {
    let model = config.model.trim();
    let of = |prefix: &str| PROVIDERS.iter().find(|provider| provider.prefix == prefix);
    if let Some((prefix, rest)) = model.split_once('/')
        && let Some(provider) = of(prefix)
    {
        return (of_family(provider, rest), rest);
    }
    // With an address of its own a bare name is asked in the common language.
    let bare = BARE.iter().find(|(begin, _)| model.starts_with(begin) && config.base_url.is_none());
    (bare.and_then(|(_, prefix)| of(prefix)).unwrap_or(&UNNAMED), model)
}

/// Some providers speak a model's own interface.
fn of_family(provider: &'static Provider, model: &str) -> &'static Provider {
    let is_claude = model.to_ascii_lowercase().contains("claude");
    match provider.prefix {
        "vertex_ai" | "vertex_ai_beta" if is_claude => &rows::VERTEX_CLAUDE,
        // Gemini's names are the only ones without a publisher.
        "vertex_ai" | "vertex_ai_beta" if model.contains('/') && !model.starts_with("gemini/") => &rows::VERTEX_OTHERS,
        "azure_ai" if is_claude => &rows::FOUNDRY_CLAUDE,
        _ => provider,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{endpoint::Endpoint, factory::Environment};

    #[test]
    fn hosts_that_everybody_may_have_in_a_cloud_are_not_the_providers() {
        let owns = |prefix: &str, host: &str| {
            let config = LlmConfig { model: format!("{prefix}/m"), ..LlmConfig::default() };
            named(&config).0.owns(host)
        };
        for (prefix, own, foreign) in [
            ("azure", "r.openai.azure.com", "vm.westeurope.cloudapp.azure.com"),
            ("azure_ai", "r.services.ai.azure.com", "own.westeurope.inference.ml.azure.com"),
            ("bedrock", "bedrock-runtime.us-east-1.amazonaws.com", "x.execute-api.us-east-1.amazonaws.com"),
            ("bedrock", "vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com", "bedrock-runtime.evil.example"),
            ("bedrock", "bedrock-runtime-fips.us-east-1.amazonaws.com", "bucket.s3.amazonaws.com"),
            ("vertex_ai", "us-central1-aiplatform.googleapis.com", "storage.googleapis.com"),
            ("vertex_ai", "aiplatform.eu.rep.googleapis.com", "aiplatform.googleapis.com.evil.example"),
        ] {
            assert_eq!((owns(prefix, own), owns(prefix, foreign)), (true, false), "{prefix}: {own}, {foreign}");
        }
    }

    #[test]
    fn every_prefix_has_its_address_and_key() {
        let environment: Environment = PROVIDERS
            .iter()
            .flat_map(|provider| provider.key_variables.iter().take(1))
            .map(|name| ((*name).to_owned(), format!("key of {name}")))
            .collect();
        let mut seen = std::collections::HashSet::new();
        for provider in PROVIDERS {
            assert!(seen.insert(provider.prefix), "{} is there twice", provider.prefix);
            let config = LlmConfig { model: format!("{}/m", provider.prefix), ..LlmConfig::default() };
            let reached = Endpoint::of(&config, &environment);
            let has_address = provider.base_url.is_some() || provider.interface == Interface::Bedrock;
            // Needs a project as well.
            let is_vertex = provider.prefix.starts_with("vertex_ai");
            let expected = has_address && provider.interface != Interface::Other && !is_vertex;
            assert_eq!(reached.is_ok(), expected, "{}: {reached:?}", provider.prefix);
            if let (Ok(endpoint), Some(variable)) = (reached, provider.key_variables.first()) {
                assert_eq!(endpoint.key.unwrap().expose(), format!("key of {variable}"));
            }
        }
    }
}
