//! Programs of the operating system that a command needs: installed on Debian as root, else named with the remedy.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::command::{Cmd, find};
use crate::say;

/// A program (or a file) and the Debian package that brings it.
type Need = (&'static str, &'static str);

/// What the development cluster needs.
pub(crate) const CLUSTER: &[Need] = &[
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("iptables", "iptables"),
    ("ipset", "ipset"),
    ("nft", "nftables"),
    ("conntrack", "conntrack"),
    ("socat", "socat"),
    ("ethtool", "ethtool"),
    ("ip", "iproute2"),
    ("openssl", "openssl"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("cc", "gcc"),
];

/// What images need.
pub(crate) const IMAGES: &[Need] = &[
    ("mmdebstrap", "mmdebstrap"),
    ("/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"),
    ("cc", "gcc"),
];

/// What the tests need on top.
pub(crate) const TESTS: &[Need] = &[("git", "git"), ("tmux", "tmux"), ("bash", "bash"), ("cc", "gcc")];

/// Makes sure that everything in `needs` is there.
///
/// # Errors
/// Something is missing and cannot be installed here; the message has the command that would.
pub(crate) fn ensure(needs: &[Need]) -> Result<()> {
    let absent = missing(needs);
    if absent.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = absent.iter().map(|need| need.1).collect();
    packages.sort_unstable();
    packages.dedup();
    let list = packages.join(" ");
    let programs: Vec<&str> = absent.iter().map(|need| need.0).collect();
    if find("apt-get").is_none() {
        bail!(
            "missing: {}. Install them with your package manager (the Debian packages are: {list})",
            programs.join(", ")
        );
    }
    if !rustix::process::geteuid().is_root() {
        bail!("missing: {}. Install them: sudo apt-get install --no-install-recommends {list}", programs.join(", "));
    }
    say::step(&format!("install Debian packages: {list}"), || {
        let apt = || Cmd::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").limit(Duration::from_secs(900));
        apt().args(["update", "-q"]).run()?;
        // Daemons that a package would start are not wanted: the cluster runs its own containerd.
        let policy = PolicyFile::deny_starts()?;
        let installed = apt().args(["install", "-q", "-y", "--no-install-recommends"]).args(&packages).run();
        drop(policy);
        installed.map(|_| ())
    })?;
    match missing(needs).first() {
        None => Ok(()),
        Some((program, package)) => bail!("{program} is still missing after installing {package}; put it on PATH"),
    }
}

fn missing(needs: &[Need]) -> Vec<Need> {
    needs
        .iter()
        .filter(|(program, _)| {
            if program.starts_with('/') { !std::path::Path::new(program).exists() } else { find(program).is_none() }
        })
        .copied()
        .collect()
}

/// Debian's `policy-rc.d`: while it lies there, no package starts a service. One that was there already is left alone.
struct PolicyFile(Option<&'static str>);

impl PolicyFile {
    const PATH: &str = "/usr/sbin/policy-rc.d";

    fn deny_starts() -> Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        if std::path::Path::new(Self::PATH).exists() {
            return Ok(Self(None));
        }
        std::fs::write(Self::PATH, "#!/bin/sh\nexit 101\n")?;
        std::fs::set_permissions(Self::PATH, std::fs::Permissions::from_mode(0o755))?;
        Ok(Self(Some(Self::PATH)))
    }
}

impl Drop for PolicyFile {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_missing() {
        assert_eq!(missing(&[("sh", "dash"), ("no-such-program", "nothing")]), [("no-such-program", "nothing")]);
        assert_eq!(
            missing(&[("/etc/passwd", "base-files"), ("/no/such/file", "nothing")]),
            [("/no/such/file", "nothing")]
        );
    }
}
