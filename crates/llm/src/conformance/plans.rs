//! The same conversation with a model that a plan pays for, as the Python SDK sends it (`record.py`), compared by meaning.

use std::sync::Arc;

use async_trait::async_trait;
use openhands_protocol::{LlmConfig, secret::SecretText};
use openhands_testkit::{ScriptedModel, Turn, llm_config};
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::reference::conversation;
use crate::{ClientOptions, Credentials, LlmError, TokenSource, client_with};

struct Fixed(Url);

#[async_trait]
impl TokenSource for Fixed {
    fn base_url(&self) -> Option<Url> {
        Some(self.0.clone())
    }

    async fn current(&self) -> Result<Credentials, LlmError> {
        let headers = vec![(HeaderName::from_static("chatgpt-account-id"), HeaderValue::from_static("account"))];
        Ok(Credentials::Bearer { token: SecretText::new("token"), headers })
    }

    async fn renewed(&self, refused: &Credentials) -> Result<Credentials, LlmError> {
        Ok(refused.clone())
    }
}

/// What differs on purpose: our own words, no ids of calls whose reasoning is not sent, and arguments written more tightly.
fn normal(mut body: Value) -> Value {
    let members = body.as_object_mut().unwrap();
    members.shift_remove("tools");
    assert!(members["instructions"].as_str().is_some_and(|text| text.len() < 300));
    members["instructions"] = "instructions".into();
    for item in members["input"].as_array_mut().unwrap() {
        let item = item.as_object_mut().unwrap();
        if item.get("type").is_some_and(|kind| kind == "function_call") {
            item.shift_remove("id");
        }
    }
    let rules = &mut members["input"][0]["content"][0]["text"];
    let text = rules.as_str().unwrap();
    *rules = text.split_once(":\n").map_or(text, |(_, rules)| rules).trim().into();
    body
}

#[tokio::test]
async fn requests_of_a_plan_mean_what_the_sdk_sends() {
    let model = ScriptedModel::start([Turn::text("a")]).await;
    let base = Url::parse(&model.base_url().replace("/v1", "/codex")).unwrap();
    let config = LlmConfig {
        model: "openai/gpt-5.5".to_owned(),
        auth_type: "subscription".to_owned(),
        is_subscription: true,
        ..llm_config(&model)
    };
    let options = ClientOptions { credentials: Some(Arc::new(Fixed(base))), ..ClientOptions::default() };
    let client = client_with(&config, &Default::default(), &options).unwrap();
    client.complete(&conversation("openai/gpt-5.5"), None, &CancellationToken::new()).await.unwrap();
    let record: Value = serde_json::from_str(include_str!("reference_plan.json")).unwrap();
    let [seen] = &model.requests()[..] else { panic!("one request") };
    assert_eq!(seen.path, record["path"]);
    for (name, value) in record["headers"].as_object().unwrap() {
        assert_eq!(seen.headers.get(name).map(|value| value.to_str().unwrap()), value.as_str(), "{name}");
    }
    assert_eq!(normal(seen.body.clone()), normal(record["body"].clone()));
}
