//! Tokens of Entra, against a stub on a real socket.

use openhands_protocol::{Content, LlmConfig, Message, Role};
use openhands_testkit::{ScriptedModel, Turn};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{LlmRequest, client_for};

fn environment(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn issued(token: &str) -> Turn {
    Turn::raw(200, &json!({"token_type": "Bearer", "expires_in": 3599, "access_token": token}).to_string())
}

#[tokio::test]
async fn applications_and_pods_get_tokens_for_azures_models() {
    let entra = ScriptedModel::start([issued("by secret"), issued("by file")]).await;
    let model = ScriptedModel::start([Turn::text("a"), Turn::text("b"), Turn::text("c")]).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "signed\n").unwrap();
    let (authority, base, file) =
        (entra.base_url().trim_end_matches("/v1").to_owned(), model.base_url(), file.to_str().unwrap().to_owned());
    let common = [
        ("AZURE_API_BASE", base.as_str()),
        ("AZURE_AUTHORITY_HOST", &authority),
        ("AZURE_TENANT_ID", "tenant"),
        ("AZURE_CLIENT_ID", "client"),
    ];
    let request = LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: Vec::new() };
    let config = LlmConfig { model: "azure/deployment".to_owned(), ..LlmConfig::default() };
    for own in [("AZURE_CLIENT_SECRET", "secret"), ("AZURE_FEDERATED_TOKEN_FILE", &file), ("AZURE_AD_TOKEN", "given")] {
        let pairs = [&common[..], &[own]].concat();
        let client = client_for(&config, &environment(&pairs)).unwrap();
        client.complete(&request, None, &CancellationToken::new()).await.unwrap();
    }
    let asked = entra.requests();
    assert_eq!(asked[0].path, "/tenant/oauth2/v2.0/token");
    assert_eq!(
        String::from_utf8_lossy(&asked[0].bytes),
        "grant_type=client_credentials&client_id=client&scope=https%3A%2F%2Fcognitiveservices.azure.com%2F.default&client_secret=secret"
    );
    assert!(String::from_utf8_lossy(&asked[1].bytes).ends_with("client_assertion=signed"));
    let sent: Vec<_> = model.requests().into_iter().map(|seen| seen.headers["authorization"].clone()).collect();
    assert_eq!(sent, ["Bearer by secret", "Bearer by file", "Bearer given"]);
    assert!(!model.requests()[0].headers.contains_key("api-key"));
}

#[test]
fn nothing_is_found_where_nothing_is() {
    for pairs in [&[][..], &[("AZURE_TENANT_ID", "t")], &[("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_ID", "c")]] {
        assert!(tokens_for(&environment(pairs)).unwrap().is_none());
    }
    let wrong = [
        ("AZURE_TENANT_ID", "t"),
        ("AZURE_CLIENT_ID", "c"),
        ("AZURE_CLIENT_SECRET", "s"),
        ("AZURE_AUTHORITY_HOST", "nowhere"),
    ];
    assert!(tokens_for(&environment(&wrong)).err().unwrap().to_string().contains("AZURE_AUTHORITY_HOST"));
}
