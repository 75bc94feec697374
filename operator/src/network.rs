//! The NetworkPolicy of sandboxes: deny all but what is listed, unless the template leaves the network to others.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::networking::v1::{
        IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
        NetworkPolicyPort, NetworkPolicySpec,
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, OwnerReference},
        util::intstr::IntOrString,
    },
};
use kube::api::ObjectMeta;
use openhands_crds::{
    network::{Network, NetworkMode},
    template::SandboxTemplate,
};

use crate::{
    api::{CallError, Kube},
    cli::Controller,
    names,
};

/// The label that every namespace carries with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Whose sandboxes a policy is for.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Name of the policy's owner, from which its own name comes.
    pub name: &'a str,
    /// The owner.
    pub owner: OwnerReference,
    /// Label and value that select the pods.
    pub selects: (&'a str, &'a str),
}

/// What a template asks for; `None` where the network is left to others.
#[must_use]
pub fn wanted(template: &SandboxTemplate) -> Option<Network> {
    let network = template.network.clone().unwrap_or_default();
    (network.mode == NetworkMode::Restricted).then_some(network)
}

/// Makes the policy so.
///
/// # Errors
/// See [`CallError`].
pub async fn ensure(kube: &Kube, scope: &Scope<'_>, network: &Network, options: &Controller) -> Result<(), CallError> {
    let policy = build(scope, network, options);
    let name = policy.metadata.name.clone().unwrap_or_default();
    kube.apply(scope.namespace, &name, &policy).await.map(drop)
}

/// Deletes the policy of an owner whose template leaves the network to others now.
///
/// # Errors
/// See [`CallError`].
pub async fn remove(kube: &Kube, namespace: &str, owner: &str, owner_uid: &str) -> Result<(), CallError> {
    let name = policy_name(owner);
    let found = match kube.get::<NetworkPolicy>(namespace, &name).await {
        Ok(found) => found,
        Err(CallError::NotFound) => return Ok(()),
        Err(error) => return Err(error),
    };
    let ours = found.metadata.owner_references.iter().flatten().any(|owner| owner.uid == owner_uid);
    match (ours, found.metadata.uid) {
        (true, Some(uid)) => kube.delete::<NetworkPolicy>(namespace, &name, &uid, None).await,
        _ => Ok(()),
    }
}

fn policy_name(owner: &str) -> String {
    format!("{owner}-sandbox")
}

fn build(scope: &Scope<'_>, network: &Network, options: &Controller) -> NetworkPolicy {
    let operator = peer(Some(labels(NAMESPACE_NAME, &options.namespace)), None);
    let mut egress = vec![
        // Names: wherever the cluster's resolvers are, as pods or on the node.
        rule(vec![], vec![port("UDP", Some(53)), port("TCP", Some(53))]),
        rule(vec![operator.clone()], vec![port("TCP", Some(i32::from(options.report_addr.port())))]),
        rule(internet(&options.cluster_cidrs), vec![]),
    ];
    if let Some(llm) = &network.llm {
        let namespace = llm.namespace.as_deref().map(|name| labels(NAMESPACE_NAME, name));
        let pods = LabelSelector { match_labels: Some(llm.pod_selector.clone()), ..LabelSelector::default() };
        egress.push(rule(vec![peer(namespace, Some(pods))], ports(llm.port)));
    }
    for range in &network.allow {
        egress.push(rule(vec![block(&range.cidr, Vec::new())], ports(range.port)));
    }
    NetworkPolicy {
        metadata: ObjectMeta {
            name: Some(policy_name(scope.name)),
            namespace: Some(scope.namespace.to_owned()),
            labels: Some(BTreeMap::from([(names::MANAGED_BY.to_owned(), names::MANAGER.to_owned())])),
            owner_references: Some(vec![scope.owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(labels(scope.selects.0, scope.selects.1)),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: Some(vec![operator]),
                ports: Some(vec![port("TCP", Some(i32::from(names::SERVER_PORT)))]),
            }]),
            egress: Some(egress),
        }),
    }
}

/// Every address but the ranges, for both families.
fn internet(except: &[String]) -> Vec<NetworkPolicyPeer> {
    let of = |six: bool| except.iter().filter(|cidr| cidr.contains(':') == six).cloned().collect();
    vec![block("0.0.0.0/0", of(false)), block("::/0", of(true))]
}

fn labels(name: &str, value: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some(BTreeMap::from([(name.to_owned(), value.to_owned())])),
        ..LabelSelector::default()
    }
}

fn peer(namespace: Option<LabelSelector>, pods: Option<LabelSelector>) -> NetworkPolicyPeer {
    NetworkPolicyPeer { namespace_selector: namespace, pod_selector: pods, ip_block: None }
}

fn block(cidr: &str, except: Vec<String>) -> NetworkPolicyPeer {
    let except = Some(except).filter(|list| !list.is_empty());
    NetworkPolicyPeer { ip_block: Some(IPBlock { cidr: cidr.to_owned(), except }), ..NetworkPolicyPeer::default() }
}

fn port(protocol: &str, number: Option<i32>) -> NetworkPolicyPort {
    NetworkPolicyPort { protocol: Some(protocol.to_owned()), port: number.map(IntOrString::Int), end_port: None }
}

fn ports(number: Option<i32>) -> Vec<NetworkPolicyPort> {
    number.map(|number| port("TCP", Some(number))).into_iter().collect()
}

fn rule(to: Vec<NetworkPolicyPeer>, ports: Vec<NetworkPolicyPort>) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        to: Some(to).filter(|list| !list.is_empty()),
        ports: Some(ports).filter(|list| !list.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::{
        cli::{Cli, Command},
        pod::conversation_owner,
    };

    #[test]
    fn sandboxes_are_fenced_in_unless_the_template_says_otherwise() {
        let of = |network| wanted(&SandboxTemplate { network, ..SandboxTemplate::default() });
        let unmanaged = Network { mode: NetworkMode::Unmanaged, ..Network::default() };
        assert_eq!(of(None), Some(Network::default()));
        assert_eq!(of(Some(Network::default())), Some(Network::default()));
        assert_eq!(of(Some(unmanaged)), None);
    }

    #[test]
    fn all_is_denied_but_what_is_listed() {
        let arguments = [
            "x",
            "controller",
            "--namespace",
            "sys",
            "--cluster-cidrs",
            "10.0.0.0/8,fc00::/7",
            "--report-addr",
            "0.0.0.0:8090",
        ];
        let Command::Controller(options) = Cli::try_parse_from(arguments).unwrap().command else {
            panic!("controller")
        };
        let network: Network = serde_json::from_value(json!({
            "llm": {"podSelector": {"app": "model"}, "port": 9000}, "allow": [{"cidr": "10.1.0.0/16"}]
        }))
        .unwrap();
        let scope =
            Scope { namespace: "n", name: "p", owner: conversation_owner("p", "u"), selects: (names::POOL, "p") };
        let policy = serde_json::to_value(build(&scope, &network, &options)).unwrap();
        assert_eq!(policy["metadata"]["name"], "p-sandbox");
        assert_eq!(
            policy["spec"],
            json!({
                "podSelector": {"matchLabels": {"openhands.dev/pool": "p"}},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{
                    "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "sys"}}}],
                    "ports": [{"port": 8000, "protocol": "TCP"}]
                }],
                "egress": [
                    {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
                    {
                        "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "sys"}}}],
                        "ports": [{"port": 8090, "protocol": "TCP"}]
                    },
                    {"to": [
                        {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}},
                        {"ipBlock": {"cidr": "::/0", "except": ["fc00::/7"]}}
                    ]},
                    {"to": [{"podSelector": {"matchLabels": {"app": "model"}}}], "ports": [{"port": 9000, "protocol": "TCP"}]},
                    {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}
                ]
            })
        );
    }
}
