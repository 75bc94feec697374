//! What every provider's adapter must do, on real sockets: one set of tests, run for each. `docs/models.md` shows them as a table
//! that `table` writes from the same lists.

/// Calls a macro with the modules of all interfaces that differ in how they are spoken.
macro_rules! on_every_interface {
    ($tests:ident) => {
        $tests!(
            chat,
            proxied_claude,
            azure,
            responses,
            anthropic,
            gemini,
            bedrock,
            vertex_gemini,
            vertex_claude,
            foundry_claude
        );
    };
}

mod answers;
mod attempts;
mod cases;
mod histories;
mod many;
mod noise;
mod plans;
mod reference;
mod refusals;
mod streams;
mod switching;
mod table;
mod validity;

/// What is shown for a provider; the columns of the table in the documentation are named after these.
macro_rules! shown {
    ($case:expr) => {
        use crate::conformance::{answers, cases};

        #[tokio::test]
        async fn answers_with_parallel_calls() {
            answers::whole(&$case).await;
        }

        #[tokio::test]
        async fn streams_the_same_answer() {
            answers::streamed(&$case).await;
        }

        #[tokio::test]
        async fn breaks_are_taken_back() {
            answers::broken(&$case).await;
        }

        #[tokio::test]
        async fn keeps_reasoning_across_turns() {
            answers::replayed(&$case).await;
        }

        #[tokio::test]
        async fn sends_images() {
            answers::images(&$case).await;
        }

        #[tokio::test]
        async fn marks_prefixes_for_the_cache() {
            answers::marked(&$case).await;
        }

        #[tokio::test]
        async fn counts_tokens() {
            answers::counts(&$case).await;
        }

        #[tokio::test]
        async fn names_refusals() {
            answers::refused(&$case).await;
        }
    };
}

/// Each interface, with properties over random streams and histories.
macro_rules! interfaces {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            use crate::conformance::histories;

            shown!(cases::$name());

            #[test]
            fn streams_the_same_wherever_it_is_split() {
                answers::split_anywhere(&cases::$name());
            }

            #[test]
            fn every_history_is_a_valid_request() {
                histories::any_is_valid(&cases::$name());
            }
        })*

        /// Modules with their cases.
        fn interfaces() -> Vec<(&'static str, cases::Case)> {
            vec![$((stringify!($name), cases::$name())),*]
        }
    };
}

/// Providers that speak Chat Completions: the adapter's code is shared, so each shows its own address, key and quirks.
macro_rules! compatible {
    ($($name:ident = $prefix:literal),* $(,)?) => {
        $(mod $name {
            shown!(cases::compatible(concat!($prefix, "/scripted")));
        })*

        /// Modules with their prefixes.
        const COMPATIBLE: &[(&str, &str)] = &[$((stringify!($name), $prefix)),*];
    };
}

interfaces!(
    chat,
    proxied_claude,
    azure,
    responses,
    anthropic,
    gemini,
    bedrock,
    mistral,
    vertex_gemini,
    vertex_claude,
    foundry_claude,
);

compatible! {
    ai21 = "ai21", ai21_chat = "ai21_chat", aiml = "aiml", azure_ai = "azure_ai", baseten = "baseten", cerebras = "cerebras",
    chutes = "chutes", codestral = "codestral", cohere = "cohere", cohere_chat = "cohere_chat", cometapi = "cometapi",
    custom_openai = "custom_openai", dashscope = "dashscope", databricks = "databricks", deepinfra = "deepinfra",
    deepseek = "deepseek", featherless_ai = "featherless_ai", fireworks_ai = "fireworks_ai", friendliai = "friendliai",
    github = "github", gradient_ai = "gradient_ai", groq = "groq", hosted_vllm = "hosted_vllm", huggingface = "huggingface",
    hyperbolic = "hyperbolic", inception = "inception", lambda_ai = "lambda_ai", litellm_proxy = "litellm_proxy",
    llamafile = "llamafile", lm_studio = "lm_studio", meta_llama = "meta_llama", minimax = "minimax", modelscope = "modelscope",
    moonshot = "moonshot", morph = "morph", nano_gpt = "nano-gpt", nebius = "nebius", novita = "novita", nscale = "nscale",
    nvidia_nim = "nvidia_nim", ollama = "ollama", ollama_chat = "ollama_chat", openhands = "openhands", openrouter = "openrouter",
    ovhcloud = "ovhcloud", perplexity = "perplexity", poe = "poe", publicai = "publicai", qwen = "qwen", qwencloud = "qwencloud",
    sambanova = "sambanova", scaleway = "scaleway", synthetic = "synthetic", together_ai = "together_ai", v0 = "v0",
    veniceai = "veniceai", vercel_ai_gateway = "vercel_ai_gateway", vllm = "vllm", volcengine = "volcengine", wandb = "wandb",
    xai = "xai", xinference = "xinference", zai = "zai",
}
