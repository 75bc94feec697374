//! Keys, certificates and kubeconfigs of a cluster, made once with openssl. Elliptic curves: they are made in no time.

use std::path::Path;

use anyhow::{Context, Result};

use super::addresses::Addresses;
use super::configuration::NODE;
use crate::command::Cmd;
use crate::folders;

/// Who gets a client certificate: file name and subject.
const CLIENTS: &[(&str, &str)] = &[
    ("admin", "/O=system:masters/CN=admin"),
    ("controller-manager", "/CN=system:kube-controller-manager"),
    ("scheduler", "/CN=system:kube-scheduler"),
    ("proxy", "/CN=system:kube-proxy"),
];

/// Makes what is absent below `folder`.
///
/// # Errors
/// openssl failed or a file cannot be written.
pub(crate) fn ensure(folder: &Path, addresses: Addresses) -> Result<()> {
    folders::made(folder.to_owned())?;
    let done = folder.join("done");
    if done.exists() {
        return Ok(());
    }
    let openssl = |arguments: &[&str]| Cmd::new("openssl").args(arguments).dir(folder).run();
    openssl(&[
        "req",
        "-x509",
        "-new",
        "-nodes",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-keyout",
        "ca.key",
        "-out",
        "ca.crt",
        "-subj",
        "/CN=development-cluster",
        "-days",
        "3650",
    ])?;
    openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "sa.key"])?;
    openssl(&["pkey", "-in", "sa.key", "-pubout", "-out", "sa.pub"])?;
    let node = addresses.node();
    let names = "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost";
    sign(
        folder,
        "apiserver",
        "/CN=kube-apiserver",
        &format!("{names},IP:127.0.0.1,IP:{},IP:{node}", addresses.api_service()),
    )?;
    sign(
        folder,
        "kubelet",
        &format!("/O=system:nodes/CN=system:node:{NODE}"),
        &format!("DNS:{NODE},IP:{node},IP:127.0.0.1"),
    )?;
    for (name, subject) in CLIENTS {
        sign(folder, name, subject, &format!("DNS:{name}"))?;
    }
    for name in CLIENTS.iter().map(|client| client.0).chain(["kubelet"]) {
        std::fs::write(folder.join(format!("{name}.kubeconfig")), kubeconfig(folder, name, &addresses.server()))?;
    }
    std::fs::write(&done, "")?;
    Ok(())
}

fn sign(folder: &Path, name: &str, subject: &str, alternatives: &str) -> Result<()> {
    let file = |ending: &str| format!("{name}.{ending}");
    Cmd::new("openssl")
        .args(["req", "-new", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-keyout", &file("key"), "-out", &file("csr"), "-subj", subject])
        .dir(folder)
        .run()?;
    let extensions = format!("subjectAltName={alternatives}\nextendedKeyUsage=clientAuth,serverAuth\n");
    std::fs::write(folder.join(file("ext")), extensions)?;
    Cmd::new("openssl")
        .args(["x509", "-req", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "3650"])
        .args(["-in", &file("csr"), "-out", &file("crt"), "-extfile", &file("ext")])
        .dir(folder)
        .run()
        .with_context(|| format!("cannot sign the certificate of {name}"))?;
    Ok(())
}

/// JSON is YAML: no quoting to get wrong.
fn kubeconfig(folder: &Path, user: &str, server: &str) -> String {
    let file = |name: String| folder.join(name);
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "dev", "cluster": {"server": server, "certificate-authority": file("ca.crt".into())}}],
        "users": [{"name": user, "user": {"client-certificate": file(format!("{user}.crt")), "client-key": file(format!("{user}.key"))}}],
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": user}}],
        "current-context": "dev",
    })
    .to_string()
}
