//! The configuration files of containerd, the kubelet and the pod network, as text. Pure: paths and addresses in, text out.

use std::path::Path;

use serde_json::{Value, json};

use super::addresses::Addresses;
use crate::image::pause;

/// The name of the one node.
pub(crate) const NODE: &str = "devnode";

/// What a packet may carry on its way out of this machine when the outer network is a tunnel itself.
const MTU: u32 = 1400;

/// containerd: everything below the state folder, the CRI plugin only.
pub(crate) fn containerd(folder: &Path) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    format!(
        r#"version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{opt}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE a lower score than containerd's own cannot be set, and every pod would fail.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"#,
        root = at("containerd"),
        state = "/run/containerd-dev",
        socket = at("containerd.sock"),
        opt = at("opt"),
        cni = at("cni"),
        pause = pause::IMAGE,
    )
}

/// The pod network: a bridge inside the node.
pub(crate) fn pod_network(addresses: Addresses) -> String {
    json!({
        "cniVersion": "0.4.0",
        "name": "dev",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods",
                "isGateway": true,
                "ipMasq": true,
                "hairpinMode": true,
                "mtu": MTU,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": addresses.pods()}]], "routes": [{"dst": "0.0.0.0/0"}]},
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
    .to_string()
}

/// The kubelet. JSON is YAML.
pub(crate) fn kubelet(folder: &Path, addresses: Addresses, cgroup: &str) -> String {
    let at = |name: &str| folder.join(name);
    let value: Value = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"x509": {"clientCAFile": at("pki/ca.crt")}, "webhook": {"enabled": true}, "anonymous": {"enabled": false}},
        "authorization": {"mode": "Webhook"},
        "address": addresses.node(),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "failCgroupV1": false,
        "containerRuntimeEndpoint": format!("unix://{}", at("containerd.sock").display()),
        "tlsCertFile": at("pki/kubelet.crt"),
        "tlsPrivateKeyFile": at("pki/kubelet.key"),
        "volumePluginDir": at("volume-plugins"),
        "failSwapOn": false,
        "clusterDNS": [addresses.dns_service()],
        "clusterDomain": "cluster.local",
        "resolvConf": at("resolv.conf"),
        // This machine's disk is not the cluster's to judge: no image is thrown away because the disk is full of other things.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": 500,
        "serializeImagePulls": false,
        "registryPullQPS": 0,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "eventRecordQPS": 0,
        "enableServer": true,
    });
    value.to_string()
}

/// Name servers for pods that leave the cluster: this machine's, without the loopback stubs that a pod cannot reach.
pub(crate) fn resolvers(files: &[String]) -> String {
    let found = files.iter().find_map(|text| {
        let servers: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("nameserver"))
            .map(str::trim)
            .filter(|server| !server.starts_with("127.") && *server != "::1" && !server.is_empty())
            .collect();
        (!servers.is_empty()).then_some(servers)
    });
    // A file without servers is refused; the documentation address answers nobody, which is the truth here.
    found.unwrap_or_else(|| vec!["192.0.2.53"]).iter().take(3).map(|server| format!("nameserver {server}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_resolvers_are_passed_over() {
        let stub = "nameserver 127.0.0.53\noptions edns0\n".to_owned();
        let real = "# made\nnameserver 10.0.0.1\nnameserver 10.0.0.2\n".to_owned();
        assert_eq!(resolvers(&[stub.clone(), real]), "nameserver 10.0.0.1\nnameserver 10.0.0.2\n");
        assert_eq!(resolvers(&[stub]), "nameserver 192.0.2.53\n");
    }

    #[test]
    fn every_file_of_containerd_lies_in_the_state_folder() {
        let text = containerd(Path::new("/state/dev"));
        assert!(
            text.contains(r#"root = "/state/dev/containerd""#) && text.contains(r#"path = "/state/dev/opt""#),
            "{text}"
        );
    }
}
