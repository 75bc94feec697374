//! Who answers the agent: the model that LLM_MODEL and LLM_API_KEY name, else a script in a pod of the same cluster.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{NAMESPACE, get, text};
use crate::cluster::target::Target;
use crate::folders;

/// The model.
#[derive(Debug)]
pub(crate) enum Model {
    /// A real one.
    Real {
        /// Its name with the provider.
        name: String,
        /// Its key.
        key: String,
        /// Its address, when it is not the provider's own.
        address: Option<String>,
    },
    /// A script.
    Scripted,
}

/// The scripted model's program, which the tests use as well.
const PROGRAM: &str = "tests/fixtures/scripted_llm.py";

impl Model {
    /// As the environment says.
    ///
    /// # Errors
    /// Only one of the two variables is set.
    pub(crate) fn from_environment() -> Result<Self> {
        let read = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        match (read("LLM_MODEL"), read("LLM_API_KEY")) {
            (Some(name), Some(key)) => Ok(Self::Real { name, key, address: read("LLM_BASE_URL") }),
            (None, None) => Ok(Self::Scripted),
            (Some(_), None) => {
                anyhow::bail!("LLM_MODEL is set but LLM_API_KEY is not: set both, or neither for the scripted model")
            }
            (None, Some(_)) => {
                anyhow::bail!("LLM_API_KEY is set but LLM_MODEL is not: set both, or neither for the scripted model")
            }
        }
    }

    /// Whether a script answers.
    pub(crate) fn is_scripted(&self) -> bool {
        matches!(self, Self::Scripted)
    }

    /// For the person who watches.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Real { name, .. } => name.clone(),
            Self::Scripted => "a script in a pod (set LLM_MODEL and LLM_API_KEY for a real one)".into(),
        }
    }

    /// The name that the conversation asks for.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Real { name, .. } => name,
            Self::Scripted => "openai/scripted",
        }
    }

    /// Where it answers: `None` for a provider's own address.
    ///
    /// # Errors
    /// The script's pod has no address.
    pub(crate) fn address(&self, target: &Target) -> Result<Option<String>> {
        match self {
            Self::Real { address, .. } => Ok(address.clone()),
            Self::Scripted => {
                let pod = get(target, &["pod", "model"])?;
                Ok(Some(format!("http://{}:9000/v1", text(&pod, "/status/podIP")?)))
            }
        }
    }

    /// The Secret with the key, and the script's pod.
    ///
    /// # Errors
    /// The script's program is not in the checkout.
    pub(crate) fn objects(&self) -> Result<Vec<Value>> {
        match self {
            Self::Real { key, .. } => Ok(vec![secret(key)]),
            Self::Scripted => {
                let program =
                    std::fs::read_to_string(folders::repository().join(PROGRAM)).with_context(|| PROGRAM.to_owned())?;
                let mut objects = vec![secret("a key that nobody checks"), files(&program)];
                objects.extend(pod());
                Ok(objects)
            }
        }
    }
}

fn secret(key: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "llm", "namespace": NAMESPACE, "labels": {"openhands.dev/conversation-secret": "true"}},
        "stringData": {"api-key": key},
    })
}

/// What the model says, turn by turn: make the file, look at it, finish.
fn script() -> Value {
    json!([
        {"text": "I will write the file.", "calls": [["terminal", {"command": "echo \"hello from the pod $(hostname)\" > hello.txt"}]], "delay": 0.5},
        {"text": "Let me look at it.", "calls": [["terminal", {"command": "cat hello.txt"}]], "delay": 0.5},
        {"calls": [["finish", {"message": "The file hello.txt is in place and says hello."}]], "delay": 0.5},
    ])
}

fn files(program: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "model", "namespace": NAMESPACE},
        "data": {"scripted_llm.py": program, "script.json": script().to_string()},
    })
}

/// The pod with a Service, and the policy that lets sandboxes of this namespace reach it: by itself a sandbox reaches the open
/// internet, but nothing in the cluster.
fn pod() -> Vec<Value> {
    let labels = json!({"app": "model"});
    let named = json!({"name": "model", "namespace": NAMESPACE, "labels": labels});
    vec![
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": named,
            "spec": {
                "podSelector": {},
                "policyTypes": ["Egress"],
                "egress": [{"to": [{"podSelector": {"matchLabels": labels}}], "ports": [{"port": 9000}]}],
            },
        }),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": {"selector": labels, "ports": [{"port": 9000}]}}),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": named,
            "spec": {
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "securityContext": {"runAsNonRoot": true, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "model",
                    "image": crate::image::AGENT,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "/model/scripted_llm.py", "--host", "0.0.0.0", "--port", "9000", "--script", "default=/model/script.json"],
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    "readinessProbe": {"httpGet": {"path": "/health", "port": 9000}, "periodSeconds": 1},
                    "volumeMounts": [{"name": "program", "mountPath": "/model"}],
                }],
                "volumes": [{"name": "program", "configMap": {"name": "model"}}],
            },
        }),
    ]
}
