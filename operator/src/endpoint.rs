//! The leader's address behind the reports Service: a Service without selector, whose EndpointSlice the leader writes.

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use kube::api::ObjectMeta;

use crate::{
    api::{CallError, Kube},
    names,
};

/// Writes the leader's address.
///
/// # Errors
/// See [`CallError`].
pub async fn publish(kube: &Kube, namespace: &str, service: &str, address: IpAddr, port: u16) -> Result<(), CallError> {
    let slice = slice(namespace, service, address, port);
    let name = slice.metadata.name.clone().unwrap_or_default();
    kube.apply(namespace, &name, &slice).await.map(drop)
}

fn slice(namespace: &str, service: &str, address: IpAddr, port: u16) -> EndpointSlice {
    let labels = BTreeMap::from([
        ("kubernetes.io/service-name".to_owned(), service.to_owned()),
        ("endpointslice.kubernetes.io/managed-by".to_owned(), names::MANAGER.to_owned()),
        (names::MANAGED_BY.to_owned(), names::MANAGER.to_owned()),
    ]);
    EndpointSlice {
        metadata: ObjectMeta {
            name: Some(format!("{service}-leader")),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        address_type: if address.is_ipv4() { "IPv4" } else { "IPv6" }.to_owned(),
        endpoints: vec![Endpoint {
            addresses: vec![address.to_string()],
            conditions: Some(EndpointConditions { ready: Some(true), serving: Some(true), terminating: Some(false) }),
            ..Endpoint::default()
        }],
        ports: Some(vec![EndpointPort {
            name: Some("reports".to_owned()),
            port: Some(i32::from(port)),
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        }]),
    }
}
