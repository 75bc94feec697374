//! Where calls go, and with which key.

use super::*;

fn endpoint(
    model: &str,
    base_url: Option<&str>,
    environment: &[(&str, &str)],
) -> Result<(String, String, Option<String>), LlmError> {
    let config =
        LlmConfig { model: model.to_owned(), base_url: base_url.map(ToOwned::to_owned), ..LlmConfig::default() };
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let endpoint = Endpoint::of(&config, &environment)?;
    Ok((endpoint.model, endpoint.url.to_string(), endpoint.key.map(|key| key.expose().to_owned())))
}

#[test]
fn names_and_addresses() {
    let local = Some("http://127.0.0.1:9/s/x/v1/");
    let at = |path: &str| format!("http://127.0.0.1:9{path}");
    for (model, base_url, expected_model, expected_url) in [
        ("openai/mock-model", local, "mock-model", at("/s/x/v1/chat/completions")),
        ("openai/meta/llama", local, "meta/llama", at("/s/x/v1/chat/completions")),
        ("mock-model", local, "mock-model", at("/s/x/v1/chat/completions")),
        ("meta-llama/Llama-3", local, "meta-llama/Llama-3", at("/s/x/v1/chat/completions")),
        ("litellm_proxy/claude-opus", Some("http://127.0.0.1:9"), "claude-opus", at("/chat/completions")),
        ("x", Some("http://127.0.0.1:9/v1/chat/completions/"), "x", at("/v1/chat/completions/")),
        ("x", Some("http://127.0.0.1:9/v1?tenant=a"), "x", at("/v1/chat/completions?tenant=a")),
    ] {
        assert_eq!(endpoint(model, base_url, &[]).unwrap(), (expected_model.to_owned(), expected_url, None), "{model}");
    }
    let key = [("OPENAI_API_KEY", "o"), ("LLM_API_KEY", "l")];
    let expected = |url: &str, key: &str| ("m".to_owned(), url.to_owned(), Some(key.to_owned()));
    assert_eq!(endpoint("m", None, &key).unwrap(), expected("https://api.openai.com/v1/chat/completions", "o"));
    assert_eq!(
        endpoint("groq/m", None, &key).unwrap(),
        expected("https://api.groq.com/openai/v1/chat/completions", "l")
    );
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    for (model, base_url, part) in [
        ("watsonx/m", Some("http://127.0.0.1:9"), "provider \"watsonx\""),
        ("vertex_ai/gemini-2.5-pro", None, "set VERTEXAI_PROJECT"),
        ("bedrock/agent/x", None, "route \"agent\""),
        ("gemini/pro", None, "set llm.api_key or GEMINI_API_KEY"),
        ("azure/m", None, "llm.base_url is not set"),
        ("hosted_vllm/m", None, "llm.base_url is not set"),
        ("gpt-5", None, "set llm.api_key or OPENAI_API_KEY"),
        ("openai/", Some("http://h"), "llm.model is empty"),
        ("m", Some("127.0.0.1:9"), "llm.base_url"),
        ("m", Some("ftp://h/"), "must begin with http"),
    ] {
        let error = endpoint(model, base_url, &[]).unwrap_err();
        assert!(error.to_string().contains(part), "{model}: {error}");
    }
}

#[test]
fn each_interface_has_its_addresses() {
    for (model, base, expected) in [
        ("anthropic/claude-x", "http://h", "http://h/v1/messages"),
        ("anthropic/claude-x", "http://h/v1/", "http://h/v1/messages"),
        ("anthropic/claude-x", "http://h/v1/messages", "http://h/v1/messages"),
        ("gemini/g-1", "http://h/v1beta", "http://h/v1beta/models/g-1"),
        ("bedrock/us.anthropic.c-v1:0", "http://h", "http://h/model/us.anthropic.c-v1%3A0"),
        (
            "bedrock/arn:aws:bedrock:x:1:profile/y",
            "http://h",
            "http://h/model/arn%3Aaws%3Abedrock%3Ax%3A1%3Aprofile%2Fy",
        ),
        (
            "azure_ai/m",
            "https://r.services.ai.azure.com",
            "https://r.services.ai.azure.com/models/chat/completions?api-version=2024-05-01-preview",
        ),
        (
            "azure_ai/m",
            "https://r.services.ai.azure.com/openai/v1",
            "https://r.services.ai.azure.com/openai/v1/chat/completions",
        ),
        (
            "azure_ai/m",
            "https://m.eastus.models.ai.azure.com/v1",
            "https://m.eastus.models.ai.azure.com/v1/chat/completions",
        ),
        (
            "azure_ai/claude-opus-4-8",
            "https://r.services.ai.azure.com",
            "https://r.services.ai.azure.com/anthropic/v1/messages",
        ),
        (
            "azure_ai/claude-opus-4-8",
            "https://r.services.ai.azure.com/anthropic",
            "https://r.services.ai.azure.com/anthropic/v1/messages",
        ),
        ("ollama/m", "http://h:11434", "http://h:11434/v1/chat/completions"),
        ("ollama/m", "http://h:11434/v1", "http://h:11434/v1/chat/completions"),
        (
            "azure/gpt-4o",
            "https://r.openai.azure.com/",
            "https://r.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-12-01-preview",
        ),
        (
            "azure/gpt-5",
            "https://r.openai.azure.com",
            "https://r.openai.azure.com/openai/v1/responses?api-version=preview",
        ),
        ("azure/d", "https://r/openai/v1", "https://r/openai/v1/chat/completions"),
        ("openai/gpt-5", "http://h/v1", "http://h/v1/responses"),
        ("openai/gpt-5", "http://h/v1/chat/completions", "http://h/v1/responses"),
        ("openai/gpt-4o", "http://h/v1/responses", "http://h/v1/chat/completions"),
    ] {
        let config = LlmConfig {
            model: model.to_owned(),
            base_url: Some(base.to_owned()),
            api_key: Some(SecretText::new("k")),
            ..LlmConfig::default()
        };
        assert_eq!(Endpoint::of(&config, &Environment::default()).unwrap().url.as_str(), expected, "{model} at {base}");
    }
    let alone = |model: &str, variables: &[(&str, &str)]| endpoint(model, None, variables).unwrap();
    assert_eq!(alone("claude-x", &[("ANTHROPIC_API_KEY", "k")]).1, "https://api.anthropic.com/v1/messages");
    assert_eq!(alone("ollama/m", &[("OLLAMA_API_BASE", "http://o")]).1, "http://o/v1/chat/completions");
    assert_eq!(alone("ollama/m", &[]).1, "http://localhost:11434/v1/chat/completions");
}

#[test]
fn models_of_bedrock_are_named_in_many_ways() {
    let arn = "arn:aws:bedrock:eu-north-1:123:inference-profile/eu.anthropic.c-v1:0";
    let path = |region: &str, model: &str| {
        format!("https://bedrock-runtime.{region}.amazonaws.com/model/{}", crate::clouds::encoded(model))
    };
    let found = |name: &str, variables: &[(&str, &str)]| endpoint(&format!("bedrock/{name}"), None, variables).unwrap();
    for (name, region, model) in [
        ("m", "us-west-2", "m"),
        ("eu-west-1/m", "eu-west-1", "m"),
        ("converse/m", "us-west-2", "m"),
        ("invoke/us.anthropic.c-v1:0", "us-west-2", "us.anthropic.c-v1:0"),
        ("converse/ap-south-1/m", "ap-south-1", "m"),
        ("us-gov-west-1/m", "us-gov-west-1", "m"),
        (arn, "eu-north-1", arn),
        (&format!("converse/{arn}"), "eu-north-1", arn),
        (&format!("llama/{arn}"), "eu-north-1", arn),
    ] {
        let (named, url, _) = found(name, &[]);
        assert_eq!((named.as_str(), url), (model, path(region, model)), "{name}");
    }
    assert_eq!(found("m", &[("AWS_REGION", "eu-west-3")]).1, path("eu-west-3", "m"));
    assert_eq!(found(arn, &[("AWS_REGION", "eu-west-3")]).1, path("eu-north-1", arn), "an ARN has its region");
    assert_eq!(found("cn-north-1/m", &[]).1, "https://bedrock-runtime.cn-north-1.amazonaws.com.cn/model/m");
    let variables = [("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://b"), ("AWS_ENDPOINT_URL", "http://all")];
    assert_eq!(found("m", &variables).1, "http://b/model/m");
    let config = LlmConfig {
        model: "bedrock/m".to_owned(),
        aws_bedrock_runtime_endpoint: Some("https://vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com".to_owned()),
        ..LlmConfig::default()
    };
    let endpoint = Endpoint::of(&config, &Environment::default()).unwrap();
    assert_eq!(endpoint.url.as_str(), "https://vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com/model/m");
}

#[test]
fn models_of_vertex_are_found_by_project_and_location() {
    let project = ("VERTEXAI_PROJECT", "p-1");
    let at = |model: &str, more: &[(&str, &str)]| {
        let variables: Vec<_> = [project].into_iter().chain(more.iter().copied()).collect();
        endpoint(&format!("vertex_ai/{model}"), None, &variables).map(|found| found.1)
    };
    let home = "https://us-central1-aiplatform.googleapis.com/v1/projects/p-1/locations/us-central1";
    assert_eq!(at("gemini-2.5-pro", &[]).unwrap(), format!("{home}/publishers/google/models/gemini-2.5-pro"));
    assert_eq!(
        at("claude-opus-4-1@20250805", &[]).unwrap(),
        format!("{home}/publishers/anthropic/models/claude-opus-4-1@20250805")
    );
    assert_eq!(at("meta/llama-4-maas", &[]).unwrap(), format!("{home}/endpoints/openapi/chat/completions"));
    for raw in ["mistral-large@2411", "codestral-2501", "jamba-1.5-large@001", "mistralai/mistral-small-2503"] {
        assert!(matches!(at(raw, &[]), Err(crate::LlmError::NotSupported(_))), "{raw}");
    }
    let global = "https://aiplatform.googleapis.com/v1/projects/p-1/locations/global/publishers/google/models";
    assert_eq!(at("gemini-3-pro", &[]).unwrap(), format!("{global}/gemini-3-pro"));
    let geography = at("gemini-3-pro", &[("VERTEXAI_LOCATION", "eu")]).unwrap();
    assert!(
        geography.starts_with("https://aiplatform.eu.rep.googleapis.com/v1/projects/p-1/locations/eu/"),
        "{geography}"
    );
    let stub = at("gemini-2.5-pro", &[("VERTEXAI_API_BASE", "http://127.0.0.1:9")]).unwrap();
    assert!(stub.starts_with("http://127.0.0.1:9/v1/projects/p-1/locations/us-central1/"), "{stub}");
    for (location, wrong) in [("evil.com/", "VERTEXAI_LOCATION"), ("a#", "VERTEXAI_LOCATION")] {
        assert!(at("gemini-x", &[("VERTEXAI_LOCATION", location)]).unwrap_err().to_string().contains(wrong));
    }
}

#[test]
fn keys_of_the_environment_stay_at_home() {
    let key = |model: &str, base_url: &str, variables: &[(&str, &str)]| {
        let all: Vec<_> = [("OPENAI_API_KEY", "o"), ("LLM_API_KEY", "l"), ("AZURE_API_KEY", "a")]
            .into_iter()
            .chain(variables.iter().copied())
            .collect();
        endpoint(model, Some(base_url), &all).unwrap().2
    };
    let some = |key: &str| Some(key.to_owned());
    assert_eq!(key("openai/m", "https://api.openai.com/v1", &[]), some("o"));
    for elsewhere in
        ["https://evil.example/v1", "http://127.0.0.1:9", "http://api.openai.com/v1", "https://api.openai.com:8443"]
    {
        assert_eq!(key("openai/m", elsewhere, &[]), None, "{elsewhere}");
    }
    let named = [("OPENAI_BASE_URL", "http://proxy:4000/v1")];
    assert_eq!(key("openai/m", "http://proxy:4000/other", &named), some("o"));
    // `LLM_API_KEY` goes with `LLM_BASE_URL`: first there, and nowhere else.
    let any = [("LLM_BASE_URL", "http://proxy:1")];
    assert_eq!(key("m", "http://proxy:1/", &any), some("l"));
    assert_eq!(key("openai/m", "https://api.openai.com/v1", &any), some("o"));
    assert_eq!(key("groq/m", "https://api.groq.com/openai/v1", &[]), some("l"));
    assert_eq!(key("groq/m", "https://api.groq.com/openai/v1", &any), None);
    assert_eq!(key("azure/m", "https://r.openai.azure.com", &[]), some("a"));
    assert_eq!(key("azure/m", "https://openai.azure.com.evil.example", &[]), None);
    let keys = [("AWS_ACCESS_KEY_ID", "i"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let refused = endpoint("bedrock/m", Some("https://evil.example"), &keys).unwrap_err();
    assert!(refused.to_string().contains("AWS_ENDPOINT_URL_BEDROCK_RUNTIME"), "{refused}");
    let refused =
        endpoint("vertex_ai/gemini-x", Some("https://evil.example"), &[("VERTEXAI_PROJECT", "p")]).unwrap_err();
    assert!(refused.to_string().contains("VERTEXAI_API_BASE"), "{refused}");
}

#[test]
fn hugging_faces_providers_stand_behind_the_name() {
    let name = |model: &str| endpoint(model, None, &[("HF_TOKEN", "k")]).unwrap().0;
    assert_eq!(name("huggingface/together/deepseek-ai/DeepSeek-R1"), "deepseek-ai/DeepSeek-R1:together");
    assert_eq!(name("huggingface/Qwen/Qwen3"), "Qwen/Qwen3");
}

#[test]
fn the_interface_is_chosen_by_mode_and_model() {
    let of = |model: &str, mode: &str| {
        let config = LlmConfig {
            model: model.to_owned(),
            api_mode: mode.to_owned(),
            base_url: Some("http://h".to_owned()),
            ..LlmConfig::default()
        };
        Endpoint::of(&config, &Environment::default()).map(|endpoint| endpoint.mode)
    };
    assert_eq!(of("openai/gpt-5-mini", "auto").unwrap(), Mode::Responses);
    assert_eq!(of("litellm_proxy/gpt-5", "auto").unwrap(), Mode::Responses);
    assert_eq!(of("openai/gpt-5-mini", "chat").unwrap(), Mode::Chat);
    assert_eq!(of("openai/gpt-4.1-x", "auto").unwrap(), Mode::Chat);
    assert_eq!(of("openai/other", "responses").unwrap(), Mode::Responses);
    assert!(of("groq/m", "responses").unwrap_err().to_string().contains("llm.api_mode"));
    assert!(of("openai/m", "fast").unwrap_err().to_string().contains("llm.api_mode"));
}
