//! Tokens of accounts and of the metadata server, against stubs on real sockets.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use openhands_protocol::{Content, Message, Role};
use openhands_testkit::{ScriptedModel, Turn};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{Credentials, LlmRequest, client_for};

/// Of nobody: made for these tests.
const KEY: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC339PqAMpOdNwukX3MQZLca06Wrs6PV6O8oSvpZ/m3oYSak3F5Dj30Iq+YiVnauTkYoMC7\
     YLtLkWrKywRi0wJd8UNiB1lUiv61eJbJSPx2x2Ev+PUYreDgzcWx4GjyJ2HLrixMFefGfDhAVpzG78UUVkgRE6tiDD94BOu0Cm+s9o7o3jCbPKEklaCgTcIy\
     7Z/5TRQJ9HmSyGrJ5tbgqCraqXCy+VWQ18CjR/PDBf9DP+cqTmNlikEvgqmullUS2ObWTKJBgRkAHSCINLifj59vT2CxoTwBwY8/w7Q3BPc8yqWQEwHPQMbm\
     vMUuEIE0ZN4D+oGVgZOqlGeXBIgbp1otAgMBAAECggEAEvPEIPNx5sJOy5H9eGct3wBEem2MJuQuoUuvfgBUkePZCiG2aXbZVeeZV8yYcV30D6DKHMYsp+5W\
     Jo7kZddAADTU8C63u2oUNNo4GIkoVInab5pmkOOjMSikfuAVkRgUEW1jbXg4ipHVLnR+9lZSZvU5umDfolyG0jUXolgNCLO4bzc9cv5ea7WtJ1kFHqWOxPjw\
     TrY0E+naJAlwPotVxcgkgF3pPalbuv2UfhgsSO+fk5X978nLBL0Z+F3wHcT+sLm15c47n6o0W8YWQdaqkxxjIOz7UllrcyHunlFBIoBA2LMhBEojea67JUxI\
     03wA+bm/oCW8kVH5pB6vPanFIQKBgQDaWQrbLHYfemD3QFVgrAnTLYAthEff2nz0RGvRj5DXtmlkuJ6Y+PGEp15lQtT/TBUgqJFvr4klZQ/8/bJsOpN6yu2F\
     vr9lCwxmOq7UQy3+yd7iibbTjdiq/yfaacG9XtFeWZpPUO/LEMvz1mGwtugctFfGkUc6ZuoaP9J1xFIrlQKBgQDXlPQ946jHZNlVPaDRt5nOvydQbAkxYfdT\
     4xD4z6XibdApXgxNkZ+dojJDqjHlITMEiaMfrkiNp1mY4/rlLgehkRkNch1S3eqQUBVL3NukmJfvdWmfKiuZdX/t9Dn2OosiQ596PLWS09k2wY2cdxbK3yCd\
     KC3kHrG7R1eJ+LOOOQKBgQCOJi4FJlr4f0mlbkKnHxl+XD74YwgP2kRDGlA/LAIWDXFr2y2VVWyW+gdgUTQtyLBwhI26ckMND1BrWhbQkwn0hSxBSD9+XsUB\
     wO6Uze+h0nbCcPmPnOcT2+1sKjGxQYt4q0jknkKepx7Abi9HRqyyE06ZvXbrtJhv4mD3vonoSQKBgGAbvttMgDUMZ7uRsv1rzb0XCQ7YayzB0QJr62gRIpIU\
     hMW8cN2v+ynKYoA6Au50Y4s1VSzNhPjpz47SrEq5v5su1a1h32LPHkBiA2yDtMPnZ2zQulrD8RYEBRlvVNvJ87c90H4tTIF9wouftGM50EZ3PNHzVKoraO7l\
     +ke/QUU5AoGAOiJVWYDUGLnbJUlvr7T+RSYNt4GVsK+TnbL2gwIjJzCGChveOs0rzMhcNKbu+/Fy5A1CcB8Xbybuui9ACzs/kVQ8BZaPO1rgPxU0CPst/vtJ\
     o46FEB6SWWB3nv5p/Kp7G/8g6Gbe4OPj0XWM2rVbtGCcAc6KhlsszFHIdr/zAOw=";

fn environment(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn host(server: &ScriptedModel) -> String {
    server.base_url().trim_start_matches("http://").trim_end_matches("/v1").to_owned()
}

fn service_account(token_uri: &str) -> String {
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----\n");
    json!({
        "type": "service_account", "project_id": "named", "private_key_id": "key-1", "private_key": pem,
        "client_email": "agent@named.iam.gserviceaccount.com", "token_uri": token_uri,
    })
    .to_string()
}

fn issued(token: &str, seconds: u64) -> Turn {
    Turn::raw(200, &json!({"access_token": token, "expires_in": seconds, "token_type": "Bearer"}).to_string())
}

fn config(model: &str) -> LlmConfig {
    LlmConfig { model: format!("vertex_ai/{model}"), ..LlmConfig::default() }
}

fn request() -> LlmRequest {
    LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: Vec::new() }
}

#[tokio::test]
async fn a_service_account_signs_for_its_tokens() {
    let tokens = ScriptedModel::start([issued("t1", 3600)]).await;
    let uri = format!("http://{}/token", host(&tokens));
    let document = service_account(&uri);
    let found = tokens_for(&config("x"), &environment(&[("VERTEXAI_CREDENTIALS", &document)])).unwrap();
    assert_eq!(found.project.as_deref(), Some("named"));
    for _ in 0..3 {
        assert_eq!(found.tokens.current().await.unwrap(), Credentials::bearer("t1"));
    }
    let [seen] = &tokens.requests()[..] else { panic!("one question") };
    let form: Vec<(String, String)> = url::form_urlencoded::parse(&seen.bytes).into_owned().collect();
    assert_eq!(form[0], ("grant_type".to_owned(), "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned()));
    let parts: Vec<_> = form[1].1.split('.').collect();
    let json = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
    assert_eq!(json(parts[0]), json!({"alg": "RS256", "typ": "JWT", "kid": "key-1"}));
    let claims = json(parts[1]);
    let now = claims["iat"].as_i64().unwrap();
    let expected = json!({
        "iss": "agent@named.iam.gserviceaccount.com", "scope": "https://www.googleapis.com/auth/cloud-platform",
        "aud": uri, "iat": now, "exp": now + 3600,
    });
    assert_eq!(claims, expected);
    let der = base64::engine::general_purpose::STANDARD.decode(KEY).unwrap();
    let key = RsaKeyPair::from_pkcs8(&der).unwrap();
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public())
        .verify(format!("{}.{}", parts[0], parts[1]).as_bytes(), &URL_SAFE_NO_PAD.decode(parts[2]).unwrap())
        .unwrap();
}

#[tokio::test]
async fn models_are_asked_with_tokens_from_every_source() {
    let tokens =
        ScriptedModel::start([issued("by account", 3600), issued("by key", 3600), issued("by file", 3600)]).await;
    let metadata = ScriptedModel::start([issued("by metadata", 3600)]).await;
    let turns = (0..5).map(|_| Turn::text("answer"));
    let model = ScriptedModel::start(turns).await;
    let document = service_account(&format!("http://{}/token", host(&tokens)));
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".config/gcloud");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("application_default_credentials.json"), &document).unwrap();
    let (base, metadata_host) = (model.base_url(), host(&metadata));
    let base = base.trim_end_matches("/v1");
    let common = [("VERTEXAI_API_BASE", base), ("VERTEXAI_PROJECT", "p"), ("GCE_METADATA_HOST", &metadata_host)];
    let ask = async |config: LlmConfig, own: &[(&str, &str)], streamed: bool| {
        let client = client_for(&config, &environment(&[&common[..], own].concat())).unwrap();
        let mut sink = |_| {};
        let sink: Option<crate::DeltaSink<'_>> = if streamed { Some(&mut sink) } else { None };
        client.complete(&request(), sink, &CancellationToken::new()).await.unwrap()
    };
    let claude = "claude-sonnet-4-5@20250929";
    ask(config("gemini-3.1-pro-preview"), &[("VERTEXAI_CREDENTIALS", &document)], false).await;
    ask(LlmConfig { api_key: Some(SecretText::new(document.clone())), ..config(claude) }, &[], false).await;
    ask(config(claude), &[("HOME", home.path().to_str().unwrap())], true).await;
    ask(config("gemini-2.5-pro"), &[], true).await;
    ask(LlmConfig { api_key: Some(SecretText::new("given")), ..config("meta/llama-4-maas") }, &[], false).await;
    let seen = model.requests();
    let sent: Vec<_> = seen.iter().map(|seen| seen.headers["authorization"].to_str().unwrap()).collect();
    assert_eq!(sent, ["Bearer by account", "Bearer by key", "Bearer by file", "Bearer by metadata", "Bearer given"]);
    let place = |location: &str| format!("/v1/projects/p/locations/{location}");
    let paths: Vec<_> = seen.iter().map(|seen| seen.path.clone()).collect();
    assert_eq!(
        paths,
        [
            format!("{}/publishers/google/models/gemini-3.1-pro-preview:generateContent", place("global")),
            format!("{}/publishers/anthropic/models/{claude}:rawPredict", place("us-central1")),
            format!("{}/publishers/anthropic/models/{claude}:streamRawPredict", place("us-central1")),
            format!("{}/publishers/google/models/gemini-2.5-pro:streamGenerateContent", place("us-central1")),
            format!("{}/endpoints/openapi/chat/completions", place("us-central1")),
        ]
    );
    let body = &seen[2].body;
    assert_eq!(
        (&body["anthropic_version"], &body["stream"], body.get("model")),
        (&json!("vertex-2023-10-16"), &json!(true), None)
    );
    assert!(!seen[1].headers.contains_key("x-api-key") && !seen[1].headers.contains_key("anthropic-version"));
    assert_eq!(seen[4].body["model"], "meta/llama-4-maas");
    let asked = &metadata.requests()[0];
    assert_eq!(asked.path, "/computeMetadata/v1/instance/service-accounts/default/token");
    assert_eq!(asked.headers["metadata-flavor"], "Google");
}

#[tokio::test]
async fn a_person_is_known_by_a_refresh_token() {
    let tokens = ScriptedModel::start([
        issued("t", 3600),
        Turn::raw(400, r#"{"error": "invalid_grant", "error_description": "Token has been expired or revoked."}"#),
    ])
    .await;
    let document = json!({
        "type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r", "quota_project_id": "q",
        "token_uri": "https://evil.example",
    });
    let mut account = Account::of(&document, "a test").unwrap();
    assert_eq!(account.address.as_str(), "https://oauth2.googleapis.com/token");
    account.address = format!("http://{}/token", host(&tokens)).parse().unwrap();
    let issued = account.issue().await.unwrap();
    let Credentials::Bearer { token, headers } = issued.credentials else { panic!("a token") };
    assert_eq!(
        (token.expose(), headers[0].0.as_str(), headers[0].1.as_bytes()),
        ("t", "x-goog-user-project", &b"q"[..])
    );
    assert_eq!(
        &tokens.requests()[0].bytes[..],
        b"grant_type=refresh_token&client_id=c&client_secret=s&refresh_token=r"
    );
    let error = account.issue().await.unwrap_err();
    assert_eq!(error.code(), "LLMAuthenticationError");
    assert!(error.to_string().contains("expired or revoked"), "{error}");
}

#[tokio::test]
async fn refused_tokens_are_renewed_within_the_call() {
    let metadata = ScriptedModel::start([issued("old-token", 3600), issued("new-token", 3600)]).await;
    let refusal = json!({"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "old-token has ended"}});
    let model = ScriptedModel::start([Turn::raw(401, &refusal.to_string()), Turn::text("after")]).await;
    let (base, metadata_host) = (model.base_url(), host(&metadata));
    let pairs =
        [("VERTEXAI_API_BASE", base.as_str()), ("VERTEXAI_PROJECT", "p"), ("GCE_METADATA_HOST", &metadata_host)];
    let config = LlmConfig { num_retries: 1, ..config("gemini-2.5-pro") };
    let client = client_for(&config, &environment(&pairs)).unwrap();
    let response = client.complete(&request(), None, &CancellationToken::new()).await.unwrap();
    assert_eq!(response.message.joined_text(), "after");
    let sent: Vec<_> = model.requests().into_iter().map(|seen| seen.headers["authorization"].clone()).collect();
    assert_eq!(sent, ["Bearer old-token", "Bearer new-token"]);
}

#[test]
fn wrong_documents_are_named() {
    let refused = |text: &str| {
        tokens_for(&config("x"), &environment(&[("VERTEXAI_CREDENTIALS", text)])).err().unwrap().to_string()
    };
    let with = |member: &str, value: Value| {
        let mut document: Value = serde_json::from_str(&service_account("https://h")).unwrap();
        document[member] = value;
        document.to_string()
    };
    for (text, part) in [
        ("{".to_owned(), "VERTEXAI_CREDENTIALS are no JSON"),
        ("/nowhere/x.json".to_owned(), "/nowhere/x.json, which VERTEXAI_CREDENTIALS names, is not there"),
        (with("type", json!("external_account")), "type \"external_account\""),
        (with("private_key", json!("x")), "is no RSA key"),
        (with("private_key", Value::Null), "have no private_key"),
        (with("client_email", json!("")), "have no client_email"),
        (with("token_uri", json!("http://h/")), "token_uri"),
    ] {
        let error = refused(&text);
        assert!(error.contains(part), "{error}");
        assert!(!error.contains(&KEY[..40]), "no piece of the key is shown");
    }
}
