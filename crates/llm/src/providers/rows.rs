//! The table itself: prefixes, addresses and variables as LiteLLM has them.

use super::{AWS_HOSTS, GOOGLE_HOSTS, Interface, Issuer, KeyHeader, MICROSOFT_HOSTS, Provider};
use crate::history::CallIds;

const fn openai(prefix: &'static str) -> Provider {
    Provider::new(prefix, Interface::OpenAi)
}

/// What everybody else than its own prefixes means by "OpenAI".
const fn first(prefix: &'static str) -> Provider {
    openai(prefix)
        .at("https://api.openai.com/v1")
        .located_by(&["OPENAI_BASE_URL", "OPENAI_API_BASE"])
        .key(&["OPENAI_API_KEY"])
        .new_limit()
        .with_responses()
}

const fn vertex(prefix: &'static str, interface: Interface) -> Provider {
    Provider::new(prefix, interface)
        .located_by(&["VERTEXAI_API_BASE", "VERTEX_API_BASE"])
        .issued_by(Issuer::Google, GOOGLE_HOSTS)
        .top_k()
}

const fn foundry(interface: Interface) -> Provider {
    Provider::new("azure_ai", interface)
        .located_by(&["AZURE_AI_API_BASE"])
        .key(&["AZURE_AI_API_KEY"])
        .in_header(KeyHeader::ByHost)
        .issued_by(Issuer::Entra, MICROSOFT_HOSTS)
}

const fn bedrock(prefix: &'static str) -> Provider {
    Provider::new(prefix, Interface::Bedrock)
        .located_by(&["AWS_BEDROCK_RUNTIME_ENDPOINT", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL"])
        .key(&["AWS_BEARER_TOKEN_BEDROCK"])
        .ids(CallIds::Word)
        .issued_by(Issuer::Aws, AWS_HOSTS)
        .top_k()
}

const fn refused(prefix: &'static str) -> Provider {
    Provider::new(prefix, Interface::Other)
}

const OLLAMA: &str = "http://localhost:11434/v1";
const COHERE: &str = "https://api.cohere.ai/compatibility/v1";
const QWEN: &str = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1";

/// Claude, with its own interface, in Google's and Microsoft's clouds.
pub(super) static VERTEX_CLAUDE: Provider =
    vertex("vertex_ai", Interface::Anthropic).ids(CallIds::Word).bytes_for_images();
pub(super) static FOUNDRY_CLAUDE: Provider = foundry(Interface::Anthropic).ids(CallIds::Word).top_k();
/// Models of other publishers in Google's cloud, on Chat Completions.
pub(super) static VERTEX_OTHERS: Provider = vertex("vertex_ai", Interface::OpenAi);

pub(super) static PROVIDERS: &[Provider] = &[
    first("openai"),
    openai("litellm_proxy")
        .located_by(&["LITELLM_PROXY_API_BASE"])
        .key(&["LITELLM_PROXY_API_KEY"])
        .new_limit()
        .top_k()
        .with_responses(),
    openai("openhands")
        .at("https://llm-proxy.app.all-hands.dev")
        .key(&["OPENHANDS_API_KEY"])
        .new_limit()
        .top_k()
        .with_responses(),
    openai("openrouter")
        .at("https://openrouter.ai/api/v1")
        .located_by(&["OPENROUTER_API_BASE"])
        .key(&["OPENROUTER_API_KEY"])
        .top_k(),
    openai("deepseek").at("https://api.deepseek.com/v1").located_by(&["DEEPSEEK_API_BASE"]).key(&["DEEPSEEK_API_KEY"]),
    openai("groq")
        .at("https://api.groq.com/openai/v1")
        .located_by(&["GROQ_API_BASE"])
        .key(&["GROQ_API_KEY"])
        .new_limit(),
    openai("mistral")
        .at("https://api.mistral.ai/v1")
        .located_by(&["MISTRAL_API_BASE"])
        .key(&["MISTRAL_API_KEY"])
        .ids(CallIds::Nine),
    openai("codestral")
        .at("https://codestral.mistral.ai/v1")
        .located_by(&["CODESTRAL_API_BASE"])
        .key(&["CODESTRAL_API_KEY"])
        .ids(CallIds::Nine),
    openai("xai").at("https://api.x.ai/v1").located_by(&["XAI_API_BASE"]).key(&["XAI_API_KEY"]).new_limit(),
    openai("moonshot").at("https://api.moonshot.ai/v1").located_by(&["MOONSHOT_API_BASE"]).key(&["MOONSHOT_API_KEY"]),
    openai("dashscope")
        .at("https://dashscope.aliyuncs.com/compatible-mode/v1")
        .located_by(&["DASHSCOPE_API_BASE"])
        .key(&["DASHSCOPE_API_KEY"])
        .top_k(),
    openai("qwen").at(QWEN).located_by(&["DASHSCOPE_API_BASE"]).key(&["DASHSCOPE_API_KEY"]).top_k(),
    openai("qwencloud").at(QWEN).located_by(&["QWENCLOUD_API_BASE"]).key(&["QWENCLOUD_API_KEY"]).top_k(),
    openai("modelscope")
        .at("https://api-inference.modelscope.cn/v1")
        .located_by(&["MODELSCOPE_API_BASE"])
        .key(&["MODELSCOPE_API_KEY"]),
    openai("together_ai")
        .at("https://api.together.ai/v1")
        .located_by(&["TOGETHER_AI_API_BASE"])
        .key(&["TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_TOKEN"])
        .top_k(),
    openai("fireworks_ai")
        .at("https://api.fireworks.ai/inference/v1")
        .located_by(&["FIREWORKS_API_BASE"])
        .key(&["FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"])
        .top_k(),
    openai("deepinfra")
        .at("https://api.deepinfra.com/v1/openai")
        .located_by(&["DEEPINFRA_API_BASE"])
        .key(&["DEEPINFRA_API_KEY"])
        .top_k(),
    openai("cerebras")
        .at("https://api.cerebras.ai/v1")
        .located_by(&["CEREBRAS_API_BASE"])
        .key(&["CEREBRAS_API_KEY"])
        .new_limit(),
    openai("nvidia_nim")
        .at("https://integrate.api.nvidia.com/v1")
        .located_by(&["NVIDIA_NIM_API_BASE"])
        .key(&["NVIDIA_NIM_API_KEY"]),
    openai("sambanova")
        .at("https://api.sambanova.ai/v1")
        .located_by(&["SAMBANOVA_API_BASE"])
        .key(&["SAMBANOVA_API_KEY"])
        .top_k(),
    openai("minimax").at("https://api.minimax.io/v1").located_by(&["MINIMAX_API_BASE"]).key(&["MINIMAX_API_KEY"]),
    openai("zai").at("https://api.z.ai/api/paas/v4").located_by(&["ZAI_API_BASE"]).key(&["ZAI_API_KEY"]),
    openai("perplexity")
        .at("https://api.perplexity.ai")
        .located_by(&["PERPLEXITY_API_BASE"])
        .key(&["PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"]),
    openai("github")
        .at("https://models.inference.ai.azure.com")
        .located_by(&["GITHUB_API_BASE"])
        .key(&["GITHUB_API_KEY"]),
    openai("huggingface")
        .at("https://router.huggingface.co/v1")
        .located_by(&["HF_API_BASE", "HUGGINGFACE_API_BASE"])
        .key(&["HUGGINGFACE_API_KEY", "HF_TOKEN"]),
    openai("databricks").located_by(&["DATABRICKS_API_BASE"]).key(&["DATABRICKS_API_KEY"]),
    openai("cohere").at(COHERE).key(&["COHERE_API_KEY", "CO_API_KEY"]),
    openai("cohere_chat").at(COHERE).key(&["COHERE_API_KEY", "CO_API_KEY"]),
    openai("nebius").at("https://api.studio.nebius.ai/v1").located_by(&["NEBIUS_API_BASE"]).key(&["NEBIUS_API_KEY"]),
    openai("novita").at("https://api.novita.ai/v3/openai").located_by(&["NOVITA_API_BASE"]).key(&["NOVITA_API_KEY"]),
    openai("baseten").at("https://inference.baseten.co/v1").located_by(&["BASETEN_API_BASE"]).key(&["BASETEN_API_KEY"]),
    openai("hyperbolic")
        .at("https://api.hyperbolic.xyz/v1")
        .located_by(&["HYPERBOLIC_API_BASE"])
        .key(&["HYPERBOLIC_API_KEY"]),
    openai("lambda_ai").at("https://api.lambda.ai/v1").located_by(&["LAMBDA_API_BASE"]).key(&["LAMBDA_API_KEY"]),
    openai("nscale")
        .at("https://inference.api.nscale.com/v1")
        .located_by(&["NSCALE_API_BASE"])
        .key(&["NSCALE_API_KEY"]),
    openai("featherless_ai")
        .at("https://api.featherless.ai/v1")
        .located_by(&["FEATHERLESS_AI_API_BASE", "FEATHERLESS_API_BASE"])
        .key(&["FEATHERLESS_AI_API_KEY", "FEATHERLESS_API_KEY"]),
    openai("friendliai")
        .at("https://api.friendli.ai/serverless/v1")
        .located_by(&["FRIENDLI_API_BASE"])
        .key(&["FRIENDLIAI_API_KEY", "FRIENDLI_TOKEN"]),
    openai("meta_llama").at("https://api.llama.com/compat/v1").located_by(&["LLAMA_API_BASE"]).key(&["LLAMA_API_KEY"]),
    openai("volcengine")
        .at("https://ark.cn-beijing.volces.com/api/v3")
        .located_by(&["VOLCENGINE_API_BASE"])
        .key(&["VOLCENGINE_API_KEY"]),
    openai("ai21").at("https://api.ai21.com/studio/v1").located_by(&["AI21_API_BASE"]).key(&["AI21_API_KEY"]),
    openai("ai21_chat").at("https://api.ai21.com/studio/v1").located_by(&["AI21_API_BASE"]).key(&["AI21_API_KEY"]),
    openai("vercel_ai_gateway")
        .at("https://ai-gateway.vercel.sh/v1")
        .located_by(&["VERCEL_AI_GATEWAY_API_BASE"])
        .key(&["VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"]),
    openai("v0").at("https://api.v0.dev/v1").located_by(&["V0_API_BASE"]).key(&["V0_API_KEY"]),
    openai("inception")
        .at("https://api.inceptionlabs.ai/v1")
        .located_by(&["INCEPTION_API_BASE"])
        .key(&["INCEPTION_API_KEY"]),
    openai("wandb").at("https://api.inference.wandb.ai/v1").located_by(&["WANDB_API_BASE"]).key(&["WANDB_API_KEY"]),
    openai("morph").at("https://api.morphllm.com/v1").located_by(&["MORPH_API_BASE"]).key(&["MORPH_API_KEY"]),
    openai("cometapi")
        .at("https://api.cometapi.com/v1")
        .located_by(&["COMETAPI_API_BASE", "COMETAPI_BASE_URL"])
        .key(&["COMETAPI_KEY", "COMETAPI_API_KEY"]),
    openai("aiml")
        .at("https://api.aimlapi.com/v1")
        .located_by(&["AIML_API_BASE"])
        .key(&["AIML_API_KEY", "AIMLAPI_KEY"]),
    openai("ovhcloud").at("https://oai.endpoints.kepler.ai.cloud.ovh.net/v1").key(&["OVHCLOUD_API_KEY"]),
    openai("scaleway").at("https://api.scaleway.ai/v1").key(&["SCW_SECRET_KEY"]),
    openai("publicai").at("https://api.publicai.co/v1").located_by(&["PUBLICAI_API_BASE"]).key(&["PUBLICAI_API_KEY"]),
    openai("veniceai").at("https://api.venice.ai/api/v1").key(&["VENICE_AI_API_KEY"]),
    openai("chutes").at("https://llm.chutes.ai/v1").key(&["CHUTES_API_KEY"]),
    openai("poe").at("https://api.poe.com/v1").key(&["POE_API_KEY"]),
    openai("synthetic").at("https://api.synthetic.new/openai/v1").key(&["SYNTHETIC_API_KEY"]),
    openai("nano-gpt").at("https://nano-gpt.com/api/v1").key(&["NANOGPT_API_KEY"]),
    openai("gradient_ai").at("https://inference.do-ai.run/v1").key(&["GRADIENT_AI_API_KEY"]),
    openai("hosted_vllm").located_by(&["HOSTED_VLLM_API_BASE"]).key(&["HOSTED_VLLM_API_KEY"]).top_k(),
    openai("vllm").located_by(&["HOSTED_VLLM_API_BASE"]).key(&["HOSTED_VLLM_API_KEY"]).top_k(),
    openai("lm_studio").located_by(&["LM_STUDIO_API_BASE"]).key(&["LM_STUDIO_API_KEY"]).top_k(),
    openai("llamafile")
        .at("http://127.0.0.1:8080/v1")
        .located_by(&["LLAMAFILE_API_BASE"])
        .key(&["LLAMAFILE_API_KEY"])
        .without_key(),
    openai("xinference").located_by(&["XINFERENCE_API_BASE"]).key(&["XINFERENCE_API_KEY"]),
    openai("ollama").at(OLLAMA).located_by(&["OLLAMA_API_BASE"]).key(&["OLLAMA_API_KEY"]).without_key(),
    openai("ollama_chat").at(OLLAMA).located_by(&["OLLAMA_API_BASE"]).key(&["OLLAMA_API_KEY"]).without_key(),
    openai("custom_openai"),
    Provider::new("azure", Interface::Azure)
        .located_by(&["AZURE_API_BASE"])
        .key(&["AZURE_API_KEY", "AZURE_OPENAI_API_KEY"])
        .in_header(KeyHeader::ApiKey)
        .issued_by(Issuer::Entra, MICROSOFT_HOSTS)
        .new_limit()
        .with_responses(),
    foundry(Interface::OpenAi),
    Provider::new("anthropic", Interface::Anthropic)
        .at("https://api.anthropic.com")
        .located_by(&["ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"])
        .key(&["ANTHROPIC_API_KEY"])
        .ids(CallIds::Word)
        .top_k(),
    Provider::new("gemini", Interface::Gemini)
        .at("https://generativelanguage.googleapis.com/v1beta")
        .located_by(&["GEMINI_API_BASE"])
        .key(&["GEMINI_API_KEY", "GOOGLE_API_KEY"])
        .top_k(),
    vertex("vertex_ai", Interface::Gemini),
    vertex("vertex_ai_beta", Interface::Gemini),
    bedrock("bedrock"),
    bedrock("bedrock_converse"),
    refused("chatgpt"),
    refused("cloudflare"),
    refused("gigachat"),
    refused("github_copilot"),
    refused("nlp_cloud"),
    refused("oci"),
    refused("petals"),
    refused("predibase"),
    refused("replicate"),
    refused("sagemaker"),
    refused("sagemaker_chat"),
    refused("snowflake"),
    refused("triton"),
    refused("watsonx"),
    refused("watsonx_text"),
];

/// For names without a known prefix: whatever answers at the configured address, asked by the whole name.
pub(super) static UNNAMED: Provider = first("");
