//! What is particular about Converse, against a scripted model on real sockets.

use openhands_protocol::{Content, LlmConfig, Message, Role, secret::SecretText};
use openhands_testkit::{ScriptedModel, Turn, aws_message, llm_config};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{Delta, Environment, LlmError, LlmRequest, client_for};

const MODEL: &str = "bedrock/us.anthropic.claude-opus-4-8";

fn request() -> LlmRequest {
    LlmRequest {
        messages: vec![
            Message::new(Role::System, vec![Content::text("static"), Content::text("dynamic")]),
            Message::new(Role::User, vec![Content::text("hi")]),
        ],
        tools: Vec::new(),
    }
}

fn config(model: &ScriptedModel) -> LlmConfig {
    LlmConfig { model: MODEL.to_owned(), api_key: None, ..llm_config(model) }
}

/// Without an address of its own; the environment has it.
fn bare(model: &ScriptedModel) -> LlmConfig {
    LlmConfig { base_url: None, ..config(model) }
}

fn environment(model: &ScriptedModel, more: &[(&str, &str)]) -> Environment {
    let address = model.base_url();
    let all = [("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", address.as_str())].into_iter().chain(more.iter().copied());
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn requests_are_signed_with_keys() {
    let model = ScriptedModel::start([Turn::text("a"), Turn::text("b")]).await;
    let mut own = config(&model);
    own.aws_access_key_id = Some(SecretText::new("AKIDEXAMPLE"));
    own.aws_secret_access_key = Some(SecretText::new("secret"));
    own.aws_session_token = Some(SecretText::new("session"));
    own.aws_region_name = Some("eu-west-1".to_owned());
    let client = client_for(&own, &Default::default()).unwrap();
    client.complete(&request(), None, &CancellationToken::new()).await.unwrap();
    let keys = environment(&model, &[("AWS_ACCESS_KEY_ID", "AKIDOTHER"), ("AWS_SECRET_ACCESS_KEY", "other")]);
    let client = client_for(&bare(&model), &keys).unwrap();
    client.complete(&request(), None, &CancellationToken::new()).await.unwrap();
    let [first, second] = &model.requests()[..] else { panic!("two requests") };
    let header = |seen: &openhands_testkit::SeenRequest, name: &str| seen.headers[name].to_str().unwrap().to_owned();
    let authorization = header(first, "authorization");
    let date = header(first, "x-amz-date");
    let expected = format!("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{}/eu-west-1/bedrock/aws4_request, ", &date[..8]);
    assert!(authorization.starts_with(&expected), "{authorization}");
    assert!(authorization.contains("SignedHeaders=host;x-amz-date;x-amz-security-token, Signature="));
    assert_eq!(header(first, "x-amz-security-token"), "session");
    assert!(header(second, "authorization").contains("Credential=AKIDOTHER/"));
    assert!(!second.headers.contains_key("x-amz-security-token"));
}

#[tokio::test]
async fn bearer_tokens_come_from_their_variable() {
    let model = ScriptedModel::start([Turn::text("a")]).await;
    let token = environment(&model, &[("AWS_BEARER_TOKEN_BEDROCK", "token")]);
    let client = client_for(&bare(&model), &token).unwrap();
    client.complete(&request(), None, &CancellationToken::new()).await.unwrap();
    assert_eq!(model.requests()[0].headers["authorization"], "Bearer token");
    assert_eq!(
        model.requests()[0].body,
        json!({
            "messages": [{"role": "user", "content": [{"text": "hi"}, {"cachePoint": {"type": "default"}}]}],
            "system": [{"text": "static"}, {"cachePoint": {"type": "default"}}, {"text": "dynamic"}],
            "inferenceConfig": {"maxTokens": 128_000},
            "additionalModelResponseFieldPaths": ["/usage/output_tokens_details"],
            "additionalModelRequestFields": {
                "output_config": {"effort": "high"},
                "thinking": {"type": "adaptive", "display": "summarized"},
            },
        })
    );
}

#[tokio::test]
async fn missing_and_unsupported_credentials_are_named() {
    let model = ScriptedModel::start([]).await;
    let refused = |change: fn(&mut LlmConfig)| {
        let mut config = bare(&model);
        change(&mut config);
        let nowhere = environment(&model, &[("AWS_EC2_METADATA_DISABLED", "true")]);
        client_for(&config, &nowhere).err().unwrap().to_string()
    };
    assert!(refused(|_| {}).contains("llm.aws_access_key_id"));
    assert!(refused(|config| config.aws_role_name = Some("r".to_owned())).contains("is no name of a role"));
    assert!(refused(|config| config.aws_profile_name = Some("p".to_owned())).contains("AWS profile \"p\""));
    assert!(refused(|config| config.aws_region_name = Some("x/../y".to_owned())).contains("llm.aws_region_name"));
}

#[tokio::test]
async fn exceptions_inside_streams_have_their_names() {
    for (name, code) in [
        ("throttlingException", "LLMRateLimitError"),
        ("modelStreamErrorException", "LLMServiceUnavailableError"),
        ("validationException", "LLMBadRequestError"),
        ("serviceUnavailableException", "LLMServiceUnavailableError"),
    ] {
        let headers = [(":exception-type", name), (":message-type", "exception")];
        let body = aws_message(&headers, r#"{"message":"their words"}"#);
        let model = ScriptedModel::start([Turn::bytes("application/vnd.amazon.eventstream", body)]).await;
        let config = LlmConfig { num_retries: 1, api_key: Some(SecretText::new("token")), ..config(&model) };
        let client = client_for(&config, &Default::default()).unwrap();
        let mut sink = |_: Delta| {};
        let error: LlmError =
            client.complete(&request(), Some(&mut sink), &CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains("their words"), "{error}");
    }
}

#[tokio::test]
async fn prompt_and_answer_share_the_window() {
    for (words, expected) in
        [(10, 20_000..=20_000), (15_000, 20_000..=20_000), (30_000, 8_000..=10_500), (60_000, 1024..=1024)]
    {
        let model = ScriptedModel::start([Turn::text("a")]).await;
        let config = LlmConfig {
            api_key: Some(SecretText::new("k")),
            max_input_tokens: Some(40_000),
            max_output_tokens: Some(20_000),
            ..config(&model)
        };
        let text = "word ".repeat(words);
        let asked =
            LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text(text)])], tools: Vec::new() };
        let client = client_for(&config, &Default::default()).unwrap();
        client.complete(&asked, None, &CancellationToken::new()).await.unwrap();
        let sent = model.requests()[0].body["inferenceConfig"]["maxTokens"].as_u64().unwrap();
        assert!(expected.contains(&sent), "{words} words: {sent}");
    }
}
