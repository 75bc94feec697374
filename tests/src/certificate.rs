//! Keys and certificates of a throw-away control plane, by the `openssl` program.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

fn openssl(folder: &Path, arguments: &[&str]) -> Result<()> {
    let output = Command::new("openssl").current_dir(folder).args(arguments).output().context("start openssl (package openssl)")?;
    if !output.status.success() {
        bail!("openssl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Writes into `folder`: `ca.crt`, `server.{crt,key}` for 127.0.0.1, `admin.{crt,key}` (a cluster administrator) and
/// `account.{key,pub}` (signs service account tokens). Elliptic keys: a second in all.
///
/// # Errors
/// When openssl is missing or refuses.
pub fn write_all(folder: &Path) -> Result<()> {
    let key = |name: &str| openssl(folder, &["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", name]);
    key("ca.key")?;
    openssl(folder, &["req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=test-ca", "-days", "2", "-out", "ca.crt"])?;
    for (name, subject) in [("server", "/CN=kube-apiserver"), ("admin", "/O=system:masters/CN=admin")] {
        let (key_file, request, certificate, extension) =
            (format!("{name}.key"), format!("{name}.csr"), format!("{name}.crt"), format!("{name}.ext"));
        key(&key_file)?;
        openssl(folder, &["req", "-new", "-key", &key_file, "-subj", subject, "-out", &request])?;
        fs::write(
            folder.join(&extension),
            "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=clientAuth,serverAuth\n",
        )?;
        openssl(
            folder,
            &[
                "x509", "-req", "-in", &request, "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-out",
                &certificate, "-extfile", &extension,
            ],
        )?;
    }
    // The API server and the controller manager read PKCS#1 keys for service accounts most widely.
    openssl(folder, &["genrsa", "-out", "account.key", "2048"])?;
    openssl(folder, &["rsa", "-in", "account.key", "-pubout", "-out", "account.pub"])
}
