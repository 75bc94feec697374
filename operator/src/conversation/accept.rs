//! Step 1: everything a specification names is looked up and checked. What is missing becomes a condition that heals when its
//! cause goes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::join_all;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use openhands_crds::{
    CONVERSATION_SECRET_LABEL, Conversation, ConversationSpec, reference::SecretKeyRef, template::SandboxTemplate,
};
use openhands_protocol::secret::SecretText;
use serde_json::Value;

use super::agent;
use crate::{
    api::CallError,
    context::Context,
    view::{ConversationView, PoolView},
};

/// Longest value that is taken out of a Secret, bytes.
const MAX_VALUE: usize = 256 * 1024;

/// A specification whose references are all there.
pub struct Accepted {
    /// The pod's template: the pool's, or its own.
    pub template: SandboxTemplate,
    /// The pool it names.
    pub pool: Option<Arc<PoolView>>,
    /// Environment of the agent's commands.
    pub env: BTreeMap<String, String>,
    /// What starts the agent; `None` without one.
    pub start: Option<Value>,
}

/// Why a specification cannot be carried out now.
#[derive(Debug)]
pub enum NotAccepted {
    /// The user can mend it; it is tried again when the cause changes.
    Because {
        /// One word.
        reason: &'static str,
        /// What is wrong and what to do.
        message: String,
    },
    /// The API server could not be asked.
    Call(CallError),
    /// The Conversation is gone.
    Gone,
}

/// Values of Secrets by name and key, as far as they are there.
type Values = BTreeMap<(String, String), SecretText>;

/// Looks everything up.
///
/// # Errors
/// See [`NotAccepted`].
pub async fn accept(cx: &Context, view: &ConversationView) -> Result<Accepted, NotAccepted> {
    let spec = specification(cx, view).await?;
    let mut problems: Vec<(&'static str, String)> = Vec::new();
    let values = secrets(cx, view, &spec, &mut problems).await?;
    let (pool, template) = template(cx, view, &spec, &mut problems);
    let start = match agent::start_body(&spec, &view.conversation_id, &|reference| value(&values, reference)) {
        Ok(body) => body,
        Err(problem) => {
            // A missing value was named already.
            if problems.is_empty() {
                problems.push(("InvalidAgent", problem.to_string()));
            }
            None
        }
    };
    if let Some((reason, _)) = problems.first() {
        let message = problems.iter().map(|(_, message)| message.as_str()).collect::<Vec<_>>().join("; ");
        return Err(NotAccepted::Because { reason, message });
    }
    let env = spec.env.iter().map(|one| (one.name.clone(), one.value.clone())).collect();
    Ok(Accepted { template, pool, env, start })
}

async fn specification(cx: &Context, view: &ConversationView) -> Result<Arc<ConversationSpec>, NotAccepted> {
    if let Some(spec) = &view.spec {
        return Ok(Arc::clone(spec));
    }
    match cx.kube.get::<Conversation>(&view.key.namespace, &view.key.name).await {
        Ok(found) if found.metadata.uid.as_deref() == Some(&*view.uid) => Ok(Arc::new(found.spec)),
        Ok(_) | Err(CallError::NotFound) => Err(NotAccepted::Gone),
        Err(error) => Err(NotAccepted::Call(error)),
    }
}

fn template(
    cx: &Context,
    view: &ConversationView,
    spec: &ConversationSpec,
    problems: &mut Vec<(&'static str, String)>,
) -> (Option<Arc<PoolView>>, SandboxTemplate) {
    let Some(reference) = &spec.sandbox.pool_ref else {
        return (None, spec.sandbox.template.clone().unwrap_or_default());
    };
    let name = &reference.name;
    match cx.world.pool(&view.key.sibling(name)) {
        Some(pool) if !pool.deleting => {
            let template = pool.spec.template.clone();
            (Some(pool), template)
        }
        // A bound Conversation has its pod; the pool may go.
        _ if view.status.sandbox.is_some() => (None, SandboxTemplate::default()),
        Some(_) => {
            problems.push((
                "PoolDeleting",
                format!("the WarmPool (pool) {name:?} of spec.sandbox.poolRef is being deleted"),
            ));
            (None, SandboxTemplate::default())
        }
        None => {
            problems.push((
                "PoolNotFound",
                format!(
                    "there is no WarmPool {name:?} in this namespace: create it or correct spec.sandbox.poolRef.name"
                ),
            ));
            (None, SandboxTemplate::default())
        }
    }
}

/// Every reference to a Secret with the field it is in.
fn references(spec: &ConversationSpec) -> Vec<(&SecretKeyRef, String)> {
    let mut all = Vec::new();
    if let Some(agent) = &spec.agent {
        if let Some(reference) = agent.llm.as_ref().and_then(|llm| llm.api_key_secret_ref.as_ref()) {
            all.push((reference, "spec.agent.llm.apiKeySecretRef".to_owned()));
        }
        if let Some(reference) = &agent.raw_secret_ref {
            all.push((reference, "spec.agent.rawSecretRef".to_owned()));
        }
    }
    if let Some(reference) = spec.initial_message.as_ref().and_then(|message| message.secret_ref.as_ref()) {
        all.push((reference, "spec.initialMessage.secretRef".to_owned()));
    }
    for secret in &spec.secrets {
        all.push((&secret.secret_key_ref, format!("spec.secrets[{}].secretKeyRef", secret.name)));
    }
    all
}

async fn secrets(
    cx: &Context,
    view: &ConversationView,
    spec: &ConversationSpec,
    problems: &mut Vec<(&'static str, String)>,
) -> Result<Values, NotAccepted> {
    let references = references(spec);
    let names: BTreeSet<&str> = references.iter().map(|(reference, _)| reference.name.as_str()).collect();
    // Whoever waits is entered before the reading, so that a change in between is not missed.
    for name in &names {
        cx.world.wait_for_secret(&view.key.sibling(name), &view.key);
    }
    let reads = names.iter().map(|name| cx.kube.get::<Secret>(&view.key.namespace, name));
    let mut found: BTreeMap<&str, Option<Secret>> = BTreeMap::new();
    for (name, answer) in names.iter().zip(join_all(reads).await) {
        match answer {
            Ok(secret) => drop(found.insert(name, Some(secret))),
            Err(CallError::NotFound) => drop(found.insert(name, None)),
            Err(error) => return Err(NotAccepted::Call(error)),
        }
    }
    let mut values = Values::new();
    for (reference, field) in references {
        let name = &reference.name;
        match found.get(name.as_str()).and_then(Option::as_ref) {
            None => problems.push(("SecretNotFound", format!("{field}: there is no Secret {name:?} in this namespace"))),
            Some(secret) if !is_labelled(secret) => problems.push((
                "SecretNotLabelled",
                format!(
                    "{field}: the Secret {name:?} lacks the label {CONVERSATION_SECRET_LABEL}: \"true\", with which its owner \
                     lets Conversations use it"
                ),
            )),
            Some(secret) => match text(secret, &reference.key) {
                Ok(value) => drop(values.insert((name.clone(), reference.key.clone()), value)),
                Err(problem) => problems
                    .push(("SecretKeyUnusable", format!("{field}: key {:?} of the Secret {name:?} {problem}", reference.key))),
            },
        }
    }
    if problems.is_empty() {
        for name in names {
            cx.world.stop_waiting_for_secret(&view.key.sibling(name), &view.key);
        }
    }
    Ok(values)
}

fn is_labelled(secret: &Secret) -> bool {
    secret
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(CONVERSATION_SECRET_LABEL))
        .is_some_and(|value| value == "true")
}

fn text(secret: &Secret, key: &str) -> Result<SecretText, &'static str> {
    let ByteString(bytes) = secret.data.as_ref().and_then(|data| data.get(key)).ok_or("is not there")?;
    if bytes.len() > MAX_VALUE {
        return Err("is larger than 256 KiB");
    }
    // A line feed at the end is what editors and `echo` leave behind, and no key has one.
    let text = std::str::from_utf8(bytes).map_err(|_| "is no text")?;
    Ok(SecretText::new(text.strip_suffix('\n').unwrap_or(text)))
}

fn value(values: &Values, reference: &SecretKeyRef) -> Option<SecretText> {
    values.get(&(reference.name.clone(), reference.key.clone())).cloned()
}
