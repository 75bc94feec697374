//! Which environment variables a process of the workspace sees: the pod's own without the server's secrets, then what the
//! initialisation named. It does not know the server's configuration and never changes the environment of this process.

use std::{collections::BTreeMap, ffi::OsString};

/// Variables that hold credentials of the server or of a model and start with none of [`SECRET_PREFIXES`].
const SECRET_NAMES: &[&str] = &[
    "SESSION_API_KEY",
    "AI21_API_KEY",
    "AIMLAPI_KEY",
    "AIML_API_KEY",
    "ANTHROPIC_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_AD_TOKEN",
    "AZURE_AI_API_KEY",
    "AZURE_API_KEY",
    "AZURE_CLIENT_SECRET",
    "AZURE_OPENAI_API_KEY",
    "BASETEN_API_KEY",
    "CEREBRAS_API_KEY",
    "CHUTES_API_KEY",
    "CODESTRAL_API_KEY",
    "COHERE_API_KEY",
    "COMETAPI_API_KEY",
    "COMETAPI_KEY",
    "CO_API_KEY",
    "DASHSCOPE_API_KEY",
    "DATABRICKS_API_KEY",
    "DEEPINFRA_API_KEY",
    "DEEPSEEK_API_KEY",
    "FEATHERLESS_AI_API_KEY",
    "FEATHERLESS_API_KEY",
    "FIREWORKSAI_API_KEY",
    "FIREWORKS_AI_API_KEY",
    "FIREWORKS_AI_TOKEN",
    "FIREWORKS_API_KEY",
    "FRIENDLIAI_API_KEY",
    "FRIENDLI_TOKEN",
    "GEMINI_API_KEY",
    "GITHUB_API_KEY",
    "GOOGLE_API_KEY",
    "GRADIENT_AI_API_KEY",
    "GRAYSWAN_API_KEY",
    "GROQ_API_KEY",
    "HF_TOKEN",
    "HOSTED_VLLM_API_KEY",
    "HUGGINGFACE_API_KEY",
    "HYPERBOLIC_API_KEY",
    "INCEPTION_API_KEY",
    "LAMBDA_API_KEY",
    "LITELLM_API_KEY",
    "LITELLM_PROXY_API_KEY",
    "LLAMAFILE_API_KEY",
    "LLAMA_API_KEY",
    "LMNR_PROJECT_API_KEY",
    "LM_STUDIO_API_KEY",
    "MINIMAX_API_KEY",
    "MISTRAL_API_KEY",
    "MODELSCOPE_API_KEY",
    "MOONSHOT_API_KEY",
    "MORPH_API_KEY",
    "NANOGPT_API_KEY",
    "NEBIUS_API_KEY",
    "NOVITA_API_KEY",
    "NSCALE_API_KEY",
    "NVIDIA_NIM_API_KEY",
    "OLLAMA_API_KEY",
    "OPENAI_API_KEY",
    "OPENHANDS_API_KEY",
    "OPENROUTER_API_KEY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_HEADERS",
    "OVHCLOUD_API_KEY",
    "PERPLEXITYAI_API_KEY",
    "PERPLEXITY_API_KEY",
    "POE_API_KEY",
    "PUBLICAI_API_KEY",
    "QWENCLOUD_API_KEY",
    "SAMBANOVA_API_KEY",
    "SCW_SECRET_KEY",
    "SYNTHETIC_API_KEY",
    "TOGETHERAI_API_KEY",
    "TOGETHER_AI_API_KEY",
    "TOGETHER_AI_TOKEN",
    "TOGETHER_API_KEY",
    "V0_API_KEY",
    "VENICE_AI_API_KEY",
    "VERCEL_AI_GATEWAY_API_KEY",
    "VERCEL_OIDC_TOKEN",
    "VERTEXAI_CREDENTIALS",
    "VERTEX_CREDENTIALS",
    "VOLCENGINE_API_KEY",
    "WANDB_API_KEY",
    "XAI_API_KEY",
    "XINFERENCE_API_KEY",
    "ZAI_API_KEY",
];

/// The server's own configuration and the model's.
const SECRET_PREFIXES: &[&str] = &["OH_", "LLM_"];

/// Names that even the initialisation cannot hand to a process: they only ever configure the server.
const NEVER: &[&str] = &["SESSION_API_KEY", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];

/// The environment of commands and terminals.
#[derive(Clone, Debug, Default)]
pub struct ToolEnvironment {
    named: BTreeMap<String, String>,
}

impl ToolEnvironment {
    /// An environment that adds `named` (from the initialisation) to what the server itself was started with. Named
    /// variables win and are kept whatever they are called, but for the server's own configuration (`OH_*`, `LLM_*`) and keys.
    #[must_use]
    pub fn new(named: impl IntoIterator<Item = (String, String)>) -> Self {
        let named = named
            .into_iter()
            .filter(|(name, value)| is_name(name) && !value.contains('\0'))
            .filter(|(name, _)| !is_servers(name))
            .collect();
        Self { named }
    }

    /// All variables of a process, made anew from the environment of this one.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<OsString, OsString> {
        self.over(std::env::vars_os())
    }

    fn over(&self, own: impl IntoIterator<Item = (OsString, OsString)>) -> BTreeMap<OsString, OsString> {
        let mut variables: BTreeMap<OsString, OsString> =
            own.into_iter().filter(|(name, _)| !name.to_str().is_some_and(is_secret)).collect();
        for (name, value) in &self.named {
            variables.insert(name.into(), value.into());
        }
        // Tools may choose terse, machine-friendly output when they know who reads it.
        let agent = variables.entry("AI_AGENT".into()).or_default();
        if agent.is_empty() {
            *agent = "openhands".into();
        }
        variables
    }
}

/// Whether a variable of the server's environment is kept from every process of the workspace.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    SECRET_NAMES.contains(&name) || SECRET_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a variable only ever configures the server, whoever gave it.
fn is_servers(name: &str) -> bool {
    SECRET_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NEVER.contains(&name)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(of: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        of.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    #[test]
    fn server_and_model_keys_go_named_ones_stay() {
        let environment = ToolEnvironment::new(
            [
                ("OPENAI_API_KEY", "mine"),
                ("OH_SECRET_KEY", "x"),
                ("LLM_API_KEY", "initialised"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=x"),
                ("PATH", "/opt/bin"),
                ("A=B", "no"),
                ("SESSION_API_KEY", "s"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let own = pairs(&[
            ("HOME", "/home/a"),
            ("PATH", "/bin"),
            ("OH_SECRET_KEY", "server"),
            ("OH_SESSION_API_KEYS_0", "server"),
            ("SESSION_API_KEY", "server"),
            ("LLM_API_KEY", "model"),
            ("ANTHROPIC_API_KEY", "model"),
            ("OPENAI_API_KEY", "model"),
        ]);
        let seen: Vec<_> = environment.over(own).into_iter().collect();
        assert_eq!(
            seen,
            pairs(&[("AI_AGENT", "openhands"), ("HOME", "/home/a"), ("OPENAI_API_KEY", "mine"), ("PATH", "/opt/bin")])
        );
    }

    #[test]
    fn a_chosen_agent_name_is_kept() {
        let seen = ToolEnvironment::default().over(pairs(&[("AI_AGENT", "other")]));
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), pairs(&[("AI_AGENT", "other")]));
    }
}
