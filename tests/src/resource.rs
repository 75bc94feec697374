//! Objects as a user writes them, and reading them back as JSON.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::wait;

/// The group and version of our kinds.
pub const API_VERSION: &str = "openhands.dev/v1alpha1";
/// The label that lets Conversations use a Secret.
pub const SECRET_LABEL: &str = "openhands.dev/conversation-secret";

/// The present as an RFC 3339 time.
#[must_use]
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A WarmPool with the plainest template.
#[must_use]
pub fn pool(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "WarmPool", "metadata": {"name": name},
        "spec": {"replicas": replicas, "template": {"image": "localhost/openhands-agent-server:dev"}}})
}

/// A Conversation on a pool, with an agent whose key is in the Secret `llm` and a first message.
#[must_use]
pub fn conversation(name: &str, pool: &str) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "Conversation", "metadata": {"name": name}, "spec": {
        "sandbox": {"poolRef": {"name": pool}},
        "agent": {"llm": {"model": "openai/scripted", "baseUrl": "http://127.0.0.1:9/v1",
            "apiKeySecretRef": {"name": "llm", "key": "api-key"}}},
        "initialMessage": {"text": "Say hello"},
    }})
}

/// A Conversation without an agent: a sandbox.
#[must_use]
pub fn sandbox(name: &str, pool: &str) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "Conversation", "metadata": {"name": name},
        "spec": {"sandbox": {"poolRef": {"name": pool}}}})
}

/// The Secret of the model's key, usable by Conversations or not.
#[must_use]
pub fn llm_secret(labelled: bool) -> Value {
    let labels = if labelled { json!({SECRET_LABEL: "true"}) } else { json!({}) };
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "llm", "labels": labels},
        "stringData": {"api-key": "key-of-the-model"}})
}

/// One namespace of a cluster and its objects as JSON.
#[derive(Clone)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// The client of the calling check.
    pub client: Client,
}

fn resource(kind: &str) -> ApiResource {
    let (group, version, plural) = match kind {
        "Conversation" => ("openhands.dev", "v1alpha1", "conversations"),
        "WarmPool" => ("openhands.dev", "v1alpha1", "warmpools"),
        "Secret" => ("", "v1", "secrets"),
        "EndpointSlice" => ("discovery.k8s.io", "v1", "endpointslices"),
        "Lease" => ("coordination.k8s.io", "v1", "leases"),
        "NetworkPolicy" => ("networking.k8s.io", "v1", "networkpolicies"),
        _ => ("", "v1", "pods"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

impl Namespace {
    /// Makes the namespace.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn create(client: Client, name: &str) -> Result<Self> {
        let all: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
        let body = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        match all.create(&PostParams::default(), &body).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(error).with_context(|| format!("create namespace {name}")),
        }
        Ok(Self { name: name.to_owned(), client })
    }

    /// The typed door to one kind: `Conversation`, `WarmPool`, `Secret`, `Pod`, `EndpointSlice`, `Lease`, `NetworkPolicy`.
    #[must_use]
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.name, &resource(kind))
    }

    /// Creates an object.
    ///
    /// # Errors
    /// With the API server's message.
    pub async fn add(&self, object: &Value) -> Result<Value> {
        let kind = object.get("kind").and_then(Value::as_str).context("kind")?;
        let made = self.api(kind).create(&PostParams::default(), &serde_json::from_value(object.clone())?).await?;
        Ok(serde_json::to_value(made)?)
    }

    /// Reads an object; `None` when there is none.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn find(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        Ok(self.api(kind).get_opt(name).await?.map(serde_json::to_value).transpose()?)
    }

    /// All objects of a kind with a label selector.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn list(&self, kind: &str, selector: &str) -> Result<Vec<Value>> {
        let list = self.api(kind).list(&kube::api::ListParams::default().labels(selector)).await?;
        list.items.into_iter().map(|item| Ok(serde_json::to_value(item)?)).collect()
    }

    /// Merges a patch into an object.
    ///
    /// # Errors
    /// With the API server's message.
    pub async fn merge(&self, kind: &str, name: &str, patch: &Value) -> Result<Value> {
        let patched =
            self.api(kind).patch(name, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await?;
        Ok(serde_json::to_value(patched)?)
    }

    /// Waits until an object satisfies `holds`, and hands it back. The error shows the object as it was last seen.
    ///
    /// # Errors
    /// When that takes longer than `bound`.
    pub async fn reaches(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        bound: Duration,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let ask = || async {
            let found = self.find(kind, name).await?.with_context(|| format!("there is no {kind} {name}"))?;
            if holds(&found) {
                return Ok(Some(found));
            }
            anyhow::bail!("{kind} {name} is {}", found.get("status").unwrap_or(&found));
        };
        wait::until(&format!("{kind} {}/{name}: {what}", self.name), bound, ask).await
    }

    /// Waits until an object is gone.
    ///
    /// # Errors
    /// When that takes longer than `bound`.
    pub async fn vanishes(&self, kind: &str, name: &str, bound: Duration) -> Result<()> {
        let ask = || async { Ok(self.find(kind, name).await?.is_none().then_some(())) };
        wait::until(&format!("{kind} {}/{name} is gone", self.name), bound, ask).await
    }
}

/// `status/reason` of a condition of an object, as in `True/Finished`; empty when it has none.
#[must_use]
pub fn condition(object: &Value, kind: &str) -> String {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|condition| condition.get("type").is_some_and(|t| t == kind));
    let text = |name: &str| found.and_then(|c| c.get(name)).and_then(Value::as_str).unwrap_or_default();
    found.map(|_| format!("{}/{}", text("status"), text("reason"))).unwrap_or_default()
}

/// Whether a condition of an object is `True`.
#[must_use]
pub fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).starts_with("True/")
}

/// A member of an object by JSON pointer, as text; empty when absent.
#[must_use]
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A value of a Secret in clear.
///
/// # Errors
/// When the Secret lacks the key or it is no text.
pub fn decoded(secret: &Value, key: &str) -> Result<String> {
    let secret: k8s_openapi::api::core::v1::Secret = serde_json::from_value(secret.clone())?;
    let value = secret.data.unwrap_or_default().remove(key).with_context(|| format!("the Secret has no {key}"))?;
    String::from_utf8(value.0).context("no text")
}
