//! Writes an image as one tar that holds an OCI layout and, beside it, the manifest that `docker load` reads. Layers stay
//! uncompressed: they never cross a network, and nothing has to be packed and unpacked.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::layer::{Layer, digest};

/// How a container of the image starts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// The program and its fixed arguments.
    pub(crate) entrypoint: Vec<String>,
    /// Arguments that a pod may replace.
    pub(crate) command: Vec<String>,
    /// `NAME=value`.
    pub(crate) environment: Vec<String>,
    /// `uid:gid`, or nothing for root.
    pub(crate) user: String,
    /// The folder it starts in.
    pub(crate) folder: String,
    /// Ports that it listens on.
    pub(crate) ports: Vec<u16>,
}

/// The architecture's name in images, from Rust's.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Writes the image called `name` to `file` and gives its manifest digest.
///
/// # Errors
/// A layer cannot be read or the file cannot be written.
pub(crate) fn write(file: &Path, name: &str, settings: &Settings, layers: &[Layer]) -> Result<String> {
    let config = serde_json::to_vec(&config(settings, layers))?;
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &digest(&config), config.len() as u64),
        "layers": layers.iter().map(|l| descriptor("application/vnd.oci.image.layer.v1.tar", &l.digest, l.size)).collect::<Vec<_>>(),
    }))?;
    let manifest_digest = digest(&manifest);
    let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest_digest, manifest.len() as u64);
    let tag = name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
    if let Some(fields) = entry.as_object_mut() {
        fields.insert("platform".into(), json!({"architecture": architecture(), "os": "linux"}));
        fields.insert(
            "annotations".into(),
            json!({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}),
        );
    }
    let index =
        json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]});
    let docker = json!([{
        "Config": blob(&digest(&config)),
        "RepoTags": [name],
        "Layers": layers.iter().map(|layer| blob(&layer.digest)).collect::<Vec<_>>(),
    }]);

    let out = File::create(file).with_context(|| file.display().to_string())?;
    let mut tar = tar::Builder::new(out);
    append(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#.as_slice(), 30)?;
    for (name, value) in [("index.json", &index), ("manifest.json", &docker)] {
        let bytes = serde_json::to_vec(value)?;
        append(&mut tar, name, bytes.as_slice(), bytes.len() as u64)?;
    }
    append(&mut tar, &blob(&digest(&config)), config.as_slice(), config.len() as u64)?;
    append(&mut tar, &blob(&manifest_digest), manifest.as_slice(), manifest.len() as u64)?;
    for layer in layers {
        let source = File::open(&layer.file).with_context(|| layer.file.display().to_string())?;
        append(&mut tar, &blob(&layer.digest), source, layer.size)?;
    }
    tar.into_inner()?.flush()?;
    Ok(format!("sha256:{manifest_digest}"))
}

fn config(settings: &Settings, layers: &[Layer]) -> Value {
    let ports: serde_json::Map<String, Value> =
        settings.ports.iter().map(|port| (format!("{port}/tcp"), json!({}))).collect();
    json!({
        "architecture": architecture(),
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "User": settings.user,
            "ExposedPorts": ports,
            "Env": settings.environment,
            "Entrypoint": settings.entrypoint,
            "Cmd": settings.command,
            "WorkingDir": settings.folder,
        },
        "rootfs": {"type": "layers", "diff_ids": layers.iter().map(|layer| format!("sha256:{}", layer.digest)).collect::<Vec<_>>()},
        "history": layers.iter().map(|_| json!({"created": "1970-01-01T00:00:00Z", "created_by": "cargo xtask images"})).collect::<Vec<_>>(),
    })
}

fn descriptor(media_type: &str, digest: &str, size: u64) -> Value {
    json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size})
}

fn blob(digest: &str) -> String {
    format!("blobs/sha256/{digest}")
}

fn append(tar: &mut tar::Builder<File>, path: &str, content: impl Read, size: u64) -> Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_size(size);
    tar.append_data(&mut header, path, content)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::layer::{Tree, file_digest};
    use super::*;

    #[test]
    fn the_same_image_is_the_same_file_and_its_blobs_match_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let layer = Tree::default().text("hello", 0o644, "hello").write(&folder.path().join("layer")).unwrap();
        let settings = Settings { entrypoint: vec!["/hello".into()], ports: vec![8000], ..Settings::default() };
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let first = write(&one, "localhost/hello:dev", &settings, std::slice::from_ref(&layer)).unwrap();
        let second = write(&two, "localhost/hello:dev", &settings, &[layer]).unwrap();
        assert_eq!(first, second);
        assert_eq!(file_digest(&one).unwrap(), file_digest(&two).unwrap());

        let mut archive = tar::Archive::new(File::open(&one).unwrap());
        let mut names = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            if let Some(expected) = name.strip_prefix("blobs/sha256/") {
                assert_eq!(digest(&bytes), expected);
            } else {
                names.push(name);
            }
        }
        assert_eq!(names, ["oci-layout", "index.json", "manifest.json"]);
    }
}
