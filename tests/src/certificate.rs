//! Keys and certificates of a throw-away control plane, by the `openssl` program.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

fn openssl(folder: &Path, arguments: &[&str]) -> Result<()> {
    let output = Command::new("openssl")
        .current_dir(folder)
        .args(arguments)
        .output()
        .context("start openssl (package openssl)")?;
    if !output.status.success() {
        bail!("openssl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// A client and server certificate `{name}.{crt,key}` for 127.0.0.1, signed by the folder's `ca.crt`. The subject is an
/// identity to the API server: the common name is the user, each organisation a group.
///
/// # Errors
/// When openssl refuses.
pub fn issue(folder: &Path, name: &str, subject: &str) -> Result<()> {
    let file = |extension: &str| format!("{name}.{extension}");
    let (key, request, certificate, extensions) = (file("key"), file("csr"), file("crt"), file("ext"));
    elliptic_key(folder, &key)?;
    openssl(folder, &["req", "-new", "-key", &key, "-subj", subject, "-out", &request])?;
    fs::write(
        folder.join(&extensions),
        "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=clientAuth,serverAuth\n",
    )?;
    let authority = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", &extensions];
    openssl(folder, &[&["x509", "-req", "-in", &request, "-out", &certificate], authority.as_slice()].concat())
}

fn elliptic_key(folder: &Path, file: &str) -> Result<()> {
    openssl(folder, &["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", file])
}

/// Writes into `folder`: `ca.crt`, `server.{crt,key}`, `admin.{crt,key}` (a cluster administrator) and `account.{key,pub}`
/// (signs service account tokens). Elliptic keys where they will do: a second in all.
///
/// # Errors
/// When openssl is missing or refuses.
pub fn write_all(folder: &Path) -> Result<()> {
    elliptic_key(folder, "ca.key")?;
    openssl(
        folder,
        &["req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=test-ca", "-days", "2", "-out", "ca.crt"],
    )?;
    issue(folder, "server", "/CN=kube-apiserver")?;
    issue(folder, "admin", "/O=system:masters/CN=admin")?;
    // The API server and the controller manager read RSA keys for service accounts in every version.
    openssl(folder, &["genrsa", "-out", "account.key", "2048"])?;
    openssl(folder, &["rsa", "-in", "account.key", "-pubout", "-out", "account.pub"])
}
