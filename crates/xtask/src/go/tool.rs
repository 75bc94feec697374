//! Builds one Go program from the Go module proxy into the cache, keyed by its version. Knows nothing of what the
//! programs are for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::{Cmd, find};
use crate::{folders, say};

/// The oldest Go that builds all of them.
const GO: (u32, u32) = (1, 25);

/// One Go program.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The name of the binary.
    pub(crate) name: &'static str,
    /// The version without the leading `v`.
    pub(crate) version: &'static str,
    /// Where it comes from.
    pub(crate) source: Source,
    /// Names it is called by, when not by its own.
    pub(crate) names: &'static [&'static str],
}

/// Where a program comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A main package of a module.
    Module {
        /// The module's path.
        module: &'static str,
        /// The package below it, with a leading slash, or nothing.
        package: &'static str,
    },
    /// A main program of our own over a module.
    Main {
        /// The module's path.
        module: &'static str,
        /// The program.
        text: &'static str,
    },
    /// A main program of our own over `k8s.io/kubernetes`, whose staging modules must be pointed at the released ones.
    Kubernetes(&'static str),
}

impl Tool {
    /// Names of the programs that come from this tool.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &'static str> {
        let own = self.names.is_empty().then_some(self.name);
        own.into_iter().chain(self.names.iter().copied())
    }

    /// The binary, built when it is absent.
    ///
    /// # Errors
    /// Go is missing or too old, or the build failed.
    pub(crate) fn ensure(&self) -> Result<PathBuf> {
        let home = folders::made(folders::cache()?.join(format!("{}-{}", self.name, self.version)))?;
        let binary = home.join(self.name);
        if binary.exists() {
            return Ok(binary);
        }
        check_go()?;
        let _ = std::fs::remove_dir_all(home.join("module"));
        let module = folders::made(home.join("module"))?;
        let fresh = home.join("fresh");
        say::step(
            &format!("build {} {} (once; minutes when Go has not seen it before)", self.name, self.version),
            || self.build(&module, &fresh),
        )
        .with_context(|| format!("cannot build {} {}", self.name, self.version))?;
        std::fs::rename(&fresh, &binary)?;
        std::fs::remove_dir_all(&module)?;
        Ok(binary)
    }

    fn build(&self, folder: &Path, out: &Path) -> Result<()> {
        match &self.source {
            Source::Module { module, package } => {
                std::fs::write(folder.join("go.mod"), format!("module {}\ngo {}.{}\n", self.name, GO.0, GO.1))?;
                go(folder).args(["get", "-tool"]).arg(format!("{module}{package}@v{}", self.version)).run()?;
                build_command(folder, out, "", "mod").arg(format!("{module}{package}")).run()?;
            }
            Source::Main { module, text } => {
                std::fs::write(folder.join("main.go"), text)?;
                let head = format!("module {}-main\ngo {}.{}\n", self.name, GO.0, GO.1);
                std::fs::write(folder.join("go.mod"), format!("{head}require {module} v{}\n", self.version))?;
                build_command(folder, out, "", "mod").arg(".").run()?;
            }
            Source::Kubernetes(text) => {
                std::fs::write(folder.join("main.go"), text)?;
                std::fs::write(folder.join("go.mod"), "module kubernetes-main\n")?;
                let described = go(folder)
                    .args(["mod", "download", "-json"])
                    .arg(format!("k8s.io/kubernetes@v{}", self.version))
                    .run()?;
                let described: Value = serde_json::from_str(&described).context("go mod download")?;
                let upstream =
                    described.get("GoMod").and_then(Value::as_str).context("go mod download names no go.mod")?;
                std::fs::write(
                    folder.join("go.mod"),
                    kubernetes_module(&std::fs::read_to_string(upstream)?, self.version),
                )?;
                build_command(folder, out, &kubernetes_stamp(self.version), "mod").arg(".").run()?;
            }
        }
        Ok(())
    }
}

/// `go build` with the flags that make small, repeatable, static binaries.
pub(crate) fn build_command(folder: &Path, out: &Path, stamp: &str, modules: &str) -> Cmd {
    go(folder)
        .args(["build", "-trimpath", "-buildvcs=false"])
        .arg(format!("-mod={modules}"))
        .arg("-ldflags")
        .arg(format!("-s -w {stamp}"))
        .arg("-o")
        .arg(out)
}

fn go(folder: &Path) -> Cmd {
    Cmd::new("go")
        .dir(folder)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env("GOFLAGS", "")
        .limit(Duration::from_secs(2400))
}

/// Checks that Go is there and new enough.
///
/// # Errors
/// It is not; the message has the remedy.
pub(crate) fn check_go() -> Result<()> {
    let remedy = format!("install Go {}.{} or newer (https://go.dev/dl) and put its bin folder on PATH", GO.0, GO.1);
    if find("go").is_none() {
        bail!("go: not found; {remedy}");
    }
    let text = Cmd::new("go").args(["env", "GOVERSION"]).run()?;
    match go_version(&text) {
        Some(version) if version >= GO => Ok(()),
        _ => bail!("Go is {}; {remedy}", text.trim()),
    }
}

fn go_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim().strip_prefix("go")?.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
    Some((major, minor.parse().ok()?))
}

/// The module file of our main program: upstream replaces its staging modules by folders that a module from the proxy
/// lacks, so each one is replaced by its released version.
fn kubernetes_module(upstream: &str, version: &str) -> String {
    let staging = version.strip_prefix("1.").unwrap_or(version);
    let mut text = format!("module kubernetes-main\ngo {}.{}\nrequire k8s.io/kubernetes v{version}\n", GO.0, GO.1);
    for line in upstream.lines().filter(|line| line.contains("=> ./staging/")) {
        if let Some(name) = line.split_whitespace().find(|word| word.starts_with("k8s.io/")) {
            text.push_str(&format!("replace {name} => {name} v0.{staging}\n"));
        }
    }
    text
}

/// Linker flags that make the programs tell their version.
fn kubernetes_stamp(version: &str) -> String {
    let mut parts = version.split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let package = "k8s.io/component-base/version";
    format!("-X {package}.gitVersion=v{version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_modules_point_at_their_releases() {
        let upstream = "module k8s.io/kubernetes\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tk8s.io/cri-api => ./staging/src/k8s.io/cri-api\n)\n";
        let expected = "module kubernetes-main\ngo 1.25\nrequire k8s.io/kubernetes v1.34.4\n\
                        replace k8s.io/api => k8s.io/api v0.34.4\nreplace k8s.io/cri-api => k8s.io/cri-api v0.34.4\n";
        assert_eq!(kubernetes_module(upstream, "1.34.4"), expected);
    }

    #[test]
    fn versions_of_go() {
        assert_eq!(go_version("go1.26.8\n"), Some((1, 26)));
        assert_eq!(go_version("go1.27rc1"), Some((1, 27)));
        assert_eq!(go_version("devel"), None);
    }
}
