//! From a template to a pod within the restricted Pod Security Standard. Pure: the same plan gives the same pod.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource, HTTPGetAction,
        LocalObjectReference, ObjectFieldSelector, Pod, PodSecurityContext, PodSpec, Probe, ResourceRequirements,
        SeccompProfile, SecurityContext, Toleration, Volume, VolumeMount,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::OwnerReference, util::intstr::IntOrString},
};
use kube::api::ObjectMeta;
use openhands_crds::template::{ImagePullPolicy, Resources, SandboxTemplate, TaintEffect, TolerationOperator};

use super::hash::template_hash;
use crate::names;

/// The user that pods run as unless the template says otherwise.
const DEFAULT_USER: i64 = 10_001;
/// Where the injected server lies.
const INJECTED_DIR: &str = "/opt/openhands";
/// Where the user's files are.
const WORKSPACE_DIR: &str = "/workspace";
/// HOME of the server and of the agent's commands.
const HOME_DIR: &str = "/home/openhands";

/// The agent's working directory.
pub const WORKING_DIR: &str = "/workspace/project";

/// Whose pod it is.
#[derive(Clone, Debug)]
pub enum Owner<'a> {
    /// A member of a pool that nobody claimed.
    Pool {
        /// Name and uid of the WarmPool.
        name: &'a str,
        /// Its uid.
        uid: &'a str,
    },
    /// The pod of one Conversation.
    Conversation {
        /// Its name.
        name: &'a str,
        /// Its uid.
        uid: &'a str,
        /// The WarmPool whose template is used.
        pool: Option<&'a str>,
        /// The time, for the annotation.
        now: String,
    },
}

/// Everything a pod is made from.
#[derive(Clone, Debug)]
pub struct PodPlan<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Whose it is.
    pub owner: Owner<'a>,
    /// What it looks like.
    pub template: &'a SandboxTemplate,
    /// Image when the template names none.
    pub default_image: &'a str,
    /// Image with the server when the template names none; empty when the image has it.
    pub default_server_image: &'a str,
    /// When images are pulled, unless the template says so.
    pub default_pull_policy: &'a str,
    /// Which key of the keyring its init key comes from.
    pub key_id: &'a str,
    /// What makes its init key its own.
    pub nonce: &'a str,
    /// SHA-256 of its init key, hex.
    pub key_digest: &'a str,
}

/// The pod.
#[must_use]
pub fn build(plan: &PodPlan<'_>) -> Pod {
    Pod { metadata: metadata(plan), spec: Some(spec(plan)), status: None }
}

/// The owner reference of a Conversation, also used in the claim patch. It does not block its owner's deletion: that would need
/// rights on the owner's finalizers.
#[must_use]
pub fn conversation_owner(name: &str, uid: &str) -> OwnerReference {
    owner_reference("Conversation", name, uid)
}

/// The owner reference of a WarmPool.
#[must_use]
pub fn pool_owner(name: &str, uid: &str) -> OwnerReference {
    owner_reference("WarmPool", name, uid)
}

fn owner_reference(kind: &str, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/{}", openhands_crds::GROUP, openhands_crds::VERSION),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    }
}

/// Labels and annotations that turn an idle member into the pod of a Conversation.
#[must_use]
pub fn claimed_marks(name: &str, uid: &str, now: &str) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let owned = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    (
        owned(&[(names::STATE, names::CLAIMED), (names::CONVERSATION_UID, uid), (names::CONVERSATION, name)]),
        owned(&[(names::CLAIMED_AT, now), (names::SAFE_TO_EVICT, "false"), (names::DO_NOT_DISRUPT, "true")]),
    )
}

fn metadata(plan: &PodPlan<'_>) -> ObjectMeta {
    let mut labels = plan.template.labels.clone();
    let mut annotations = plan.template.annotations.clone();
    labels.insert(names::MANAGED_BY.to_owned(), names::MANAGER.to_owned());
    labels.insert(names::TEMPLATE_HASH.to_owned(), template_hash(plan.template));
    annotations.insert(names::INIT_NONCE.to_owned(), plan.nonce.to_owned());
    annotations.insert(names::KEY_ID.to_owned(), plan.key_id.to_owned());
    let owner = match &plan.owner {
        Owner::Pool { name, uid } => {
            labels.insert(names::POOL.to_owned(), (*name).to_owned());
            labels.insert(names::STATE.to_owned(), names::IDLE.to_owned());
            pool_owner(name, uid)
        }
        Owner::Conversation { name, uid, pool, now } => {
            if let Some(pool) = pool {
                labels.insert(names::POOL.to_owned(), (*pool).to_owned());
            }
            let (more_labels, more_annotations) = claimed_marks(name, uid, now);
            labels.extend(more_labels);
            annotations.extend(more_annotations);
            conversation_owner(name, uid)
        }
    };
    ObjectMeta {
        name: Some(plan.name.to_owned()),
        namespace: Some(plan.namespace.to_owned()),
        labels: Some(labels),
        annotations: Some(annotations),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    }
}

fn spec(plan: &PodPlan<'_>) -> PodSpec {
    let template = plan.template;
    // The operator's own default image has the server inside.
    let default = template.image.as_ref().map_or("", |_| plan.default_server_image);
    let server_image = template.server_image.as_deref().unwrap_or(default);
    let injected = (!server_image.is_empty()).then_some(server_image);
    let mut volumes = vec![empty_dir("workspace"), empty_dir("home")];
    if injected.is_some() {
        volumes.push(empty_dir("server"));
    }
    PodSpec {
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        restart_policy: Some("Always".to_owned()),
        termination_grace_period_seconds: Some(grace_period(template)),
        security_context: Some(pod_security(template)),
        runtime_class_name: template.runtime_class_name.clone(),
        node_selector: Some(template.node_selector.clone()).filter(|selector| !selector.is_empty()),
        tolerations: Some(tolerations(template)).filter(|all| !all.is_empty()),
        priority_class_name: template.priority_class_name.clone(),
        service_account_name: template.service_account_name.clone(),
        image_pull_secrets: Some(
            template.image_pull_secrets.iter().map(|one| LocalObjectReference { name: one.name.clone() }).collect(),
        )
        .filter(|all: &Vec<_>| !all.is_empty()),
        init_containers: injected.map(|image| vec![install(plan, image)]),
        containers: vec![server(plan, injected.is_some())],
        volumes: Some(volumes),
        ..PodSpec::default()
    }
}

fn grace_period(template: &SandboxTemplate) -> i64 {
    template.termination_grace_period_seconds.unwrap_or(30)
}

fn server(plan: &PodPlan<'_>, injected: bool) -> Container {
    let template = plan.template;
    let mut mounts = vec![mount("workspace", WORKSPACE_DIR, false), mount("home", HOME_DIR, false)];
    if injected {
        mounts.push(mount("server", INJECTED_DIR, true));
    }
    let binary =
        if injected { format!("{INJECTED_DIR}/openhands-agent-server") } else { names::SERVER_BINARY.to_owned() };
    Container {
        name: names::SERVER_CONTAINER.to_owned(),
        image: Some(template.image.as_deref().unwrap_or(plan.default_image).to_owned()),
        image_pull_policy: Some(pull_policy(plan)),
        command: Some(vec![binary]),
        args: Some(vec![
            "--host".to_owned(),
            "0.0.0.0".to_owned(),
            "--port".to_owned(),
            names::SERVER_PORT.to_string(),
            // The server is done a little before the kubelet kills it.
            "--grace-seconds".to_owned(),
            (grace_period(template) - 3).clamp(1, 600).to_string(),
        ]),
        working_dir: Some(WORKSPACE_DIR.to_owned()),
        env: Some(environment(plan)),
        ports: Some(vec![ContainerPort {
            name: Some("http".to_owned()),
            container_port: i32::from(names::SERVER_PORT),
            ..ContainerPort::default()
        }]),
        resources: Some(resources(template.resources.as_ref())),
        readiness_probe: Some(Probe {
            http_get: Some(HTTPGetAction {
                path: Some("/ready".to_owned()),
                port: IntOrString::Int(i32::from(names::SERVER_PORT)),
                ..HTTPGetAction::default()
            }),
            period_seconds: Some(1),
            timeout_seconds: Some(2),
            failure_threshold: Some(3),
            ..Probe::default()
        }),
        security_context: Some(container_security()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// Copies the server out of its image. The binary copies itself, so that the image needs nothing else.
fn install(plan: &PodPlan<'_>, image: &str) -> Container {
    Container {
        name: "install-agent-server".to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: Some(pull_policy(plan)),
        args: Some(vec!["install".to_owned(), format!("{INJECTED_DIR}/openhands-agent-server")]),
        resources: Some(quantities(&[("cpu", "50m"), ("memory", "64Mi")], &[("cpu", "1"), ("memory", "128Mi")])),
        security_context: Some(container_security()),
        volume_mounts: Some(vec![mount("server", INJECTED_DIR, false)]),
        ..Container::default()
    }
}

fn environment(plan: &PodPlan<'_>) -> Vec<EnvVar> {
    let plain =
        |name: &str, value: &str| EnvVar { name: name.to_owned(), value: Some(value.to_owned()), ..EnvVar::default() };
    let mut env = vec![
        EnvVar {
            name: "OPENHANDS_POD_UID".to_owned(),
            value_from: Some(EnvVarSource {
                field_ref: Some(ObjectFieldSelector {
                    field_path: "metadata.uid".to_owned(),
                    ..ObjectFieldSelector::default()
                }),
                ..EnvVarSource::default()
            }),
            ..EnvVar::default()
        },
        plain("OH_DEFERRED_INIT", "1"),
        plain("OH_INIT_KEY_SHA256", plan.key_digest),
        plain("OH_CONVERSATIONS_PATH", "/home/openhands/.openhands/agent-server/conversations"),
        plain("OH_BASH_EVENTS_DIR", "/home/openhands/.openhands/agent-server/bash_events"),
        plain("HOME", HOME_DIR),
    ];
    for own in &plan.template.env {
        env.retain(|one| one.name != own.name);
        env.push(plain(&own.name, &own.value));
    }
    env
}

fn pod_security(template: &SandboxTemplate) -> PodSecurityContext {
    let wanted = template.security_context.clone().unwrap_or_default();
    let assigned = wanted.use_namespace_range;
    let user = wanted.run_as_user.or((!assigned).then_some(DEFAULT_USER));
    let group = wanted.run_as_group.or(user);
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: user,
        run_as_group: group,
        fs_group: wanted.fs_group.or(group),
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), ..SeccompProfile::default() }),
        ..PodSecurityContext::default()
    }
}

fn container_security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), ..Capabilities::default() }),
        ..SecurityContext::default()
    }
}

/// What the template asks for; a default only where it says nothing of that resource, so that a request never exceeds a limit
/// it does not know of.
fn resources(wanted: Option<&Resources>) -> ResourceRequirements {
    let (mut requests, mut limits) =
        wanted.map(|wanted| (wanted.requests.clone(), wanted.limits.clone())).unwrap_or_default();
    for (name, request, limit) in [("cpu", "100m", "2"), ("memory", "256Mi", "4Gi")] {
        if !requests.contains_key(name) && !limits.contains_key(name) {
            requests.insert(name.to_owned(), request.to_owned());
            limits.insert(name.to_owned(), limit.to_owned());
        }
    }
    if let (Some(memory), false) = (requests.get("memory").cloned(), limits.contains_key("memory")) {
        limits.insert("memory".to_owned(), memory);
    }
    let quantity = |all: BTreeMap<String, String>| Some(all.into_iter().map(|(k, v)| (k, Quantity(v))).collect());
    ResourceRequirements { requests: quantity(requests), limits: quantity(limits), claims: None }
}

fn quantities(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> ResourceRequirements {
    let quantity = |all: &[(&str, &str)]| {
        Some(all.iter().map(|(name, value)| ((*name).to_owned(), Quantity((*value).to_owned()))).collect())
    };
    ResourceRequirements { requests: quantity(requests), limits: quantity(limits), claims: None }
}

fn tolerations(template: &SandboxTemplate) -> Vec<Toleration> {
    template
        .tolerations
        .iter()
        .map(|one| Toleration {
            key: one.key.clone(),
            operator: one.operator.map(|operator| {
                match operator {
                    TolerationOperator::Exists => "Exists",
                    TolerationOperator::Equal => "Equal",
                }
                .to_owned()
            }),
            value: one.value.clone(),
            effect: one.effect.map(|effect| {
                match effect {
                    TaintEffect::NoSchedule => "NoSchedule",
                    TaintEffect::PreferNoSchedule => "PreferNoSchedule",
                    TaintEffect::NoExecute => "NoExecute",
                }
                .to_owned()
            }),
            toleration_seconds: one.toleration_seconds,
        })
        .collect()
}

fn pull_policy(plan: &PodPlan<'_>) -> String {
    match plan.template.image_pull_policy {
        Some(ImagePullPolicy::Always) => "Always",
        Some(ImagePullPolicy::IfNotPresent) => "IfNotPresent",
        Some(ImagePullPolicy::Never) => "Never",
        None => plan.default_pull_policy,
    }
    .to_owned()
}

fn empty_dir(name: &str) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(template: Value, server_image: &str) -> Value {
        let template: SandboxTemplate = serde_json::from_value(template).unwrap();
        let plan = PodPlan {
            namespace: "n",
            name: "pool-0",
            owner: Owner::Pool { name: "pool", uid: "u" },
            template: &template,
            default_image: "agent",
            default_server_image: server_image,
            default_pull_policy: "IfNotPresent",
            key_id: "k",
            nonce: "o",
            key_digest: "d",
        };
        serde_json::to_value(build(&plan)).unwrap()
    }

    #[test]
    fn the_restricted_profile_is_met_whatever_the_template_says() {
        for pod in
            [pod(json!({}), ""), pod(json!({"image": "any", "securityContext": {"useNamespaceRange": true}}), "server")]
        {
            let spec = &pod["spec"];
            assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
            assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            assert_eq!(spec["automountServiceAccountToken"], false);
            let containers = spec["containers"].as_array().unwrap().iter();
            for container in containers.chain(spec["initContainers"].as_array().into_iter().flatten()) {
                assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
                assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
                assert!(container["resources"]["limits"]["memory"].is_string());
                assert_eq!(container["livenessProbe"], Value::Null);
            }
        }
        assert_eq!(pod(json!({}), "")["spec"]["securityContext"]["runAsUser"], DEFAULT_USER);
    }

    #[test]
    fn the_server_is_injected_read_only_when_there_is_an_image_of_it() {
        let injected = pod(json!({"image": "python", "serverImage": "server"}), "");
        assert_eq!(injected["spec"]["containers"][0]["command"], json!(["/opt/openhands/openhands-agent-server"]));
        assert_eq!(injected["spec"]["containers"][0]["volumeMounts"][2]["readOnly"], true);
        assert_eq!(injected["spec"]["initContainers"][0]["image"], "server");
        assert_eq!(pod(json!({"image": "python"}), "default")["spec"]["initContainers"][0]["image"], "default");
        let inside = pod(json!({}), "default");
        assert_eq!(inside["spec"]["containers"][0]["command"], json!([names::SERVER_BINARY]));
        assert_eq!(inside["spec"]["initContainers"], Value::Null);
    }

    #[test]
    fn resources_have_defaults_only_where_nothing_is_said() {
        let wanted =
            |resources: Value| pod(json!({"resources": resources}), "")["spec"]["containers"][0]["resources"].clone();
        assert_eq!(
            wanted(json!({"requests": {"memory": "8Gi"}})),
            json!({"requests": {"cpu": "100m", "memory": "8Gi"}, "limits": {"cpu": "2", "memory": "8Gi"}})
        );
    }
}
