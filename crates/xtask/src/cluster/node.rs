//! The node: one process that holds a network, a mount and a process namespace. Whatever runs in them ends with it, and
//! what they mount and configure vanishes with them. Knows nothing of Kubernetes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::command::Cmd;
use crate::wait;

/// The process that holds the namespaces, as this machine sees it. Start time and number together name it for good: a
/// process that later gets the same number is another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Node {
    /// Process id on this machine.
    pub(crate) pid: u32,
    /// Start time in clock ticks since boot, from `/proc/<pid>/stat`.
    start: u64,
    /// The boot it belongs to.
    boot: String,
}

impl Node {
    /// Starts `holder` as the first process of new namespaces.
    ///
    /// # Errors
    /// The kernel refuses namespaces.
    pub(crate) fn create(holder: &Path, log: &Path) -> Result<Self> {
        let log = std::fs::File::create(log)?;
        // A session of its own: Ctrl-C in the terminal that started the cluster is not for the cluster. (setsid would fork, and
        // the number below would be wrong, if this process made it the leader of a process group.)
        let parent = Command::new("setsid")
            .args([
                "unshare",
                "--net",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "--propagation",
                "private",
                "--",
            ])
            .arg(holder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .current_dir("/")
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .spawn()
            .context("cannot run unshare")?
            .id();
        let holder_name = holder.file_name().context("the holder has a name")?.to_string_lossy().into_owned();
        let found = wait::until(Duration::from_secs(30), "new namespaces (see node.log in the state folder)", || {
            Ok(descendants(parent).into_iter().find(|pid| name(*pid).as_deref() == Some(holder_name.as_str())))
        });
        let pid = match found {
            Ok(pid) => pid,
            Err(error) => {
                // Nothing may be left that no record knows of; with its parent the holder ends too.
                kill(parent)?;
                return Err(error);
            }
        };
        Ok(Self { pid, start: start_time(pid).context("the node ended at once")?, boot: boot()? })
    }

    /// Whether the process is still there.
    pub(crate) fn alive(&self) -> bool {
        start_time(self.pid) == Some(self.start) && boot().is_ok_and(|boot| boot == self.boot)
    }

    /// A command that will run inside the namespaces.
    pub(crate) fn inside(&self) -> Cmd {
        Cmd::new("nsenter").args(["--target", &self.pid.to_string(), "--net", "--mount", "--pid", "--"])
    }

    /// Starts a program inside that outlives this command, both outputs appended to `log`, and gives its process id there.
    ///
    /// # Errors
    /// It could not be started.
    pub(crate) fn start(&self, program: &Path, arguments: &[String], folder: &Path, log: &Path) -> Result<u32> {
        let script = r#"cd "$1" && log="$2" && shift 2 && { setsid "$@" </dev/null >>"$log" 2>&1 & echo $!; }"#;
        let path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
        let temporary = format!("TMPDIR={}", folder.join("tmp").display());
        let text = self
            .inside()
            .args(["env", "-i", path, "HOME=/root", &temporary, "sh", "-c", script, "sh"])
            .arg(folder)
            .arg(log)
            .arg(program)
            .args(arguments)
            .run()?;
        text.trim().parse().with_context(|| format!("no process id for {}", program.display()))
    }

    /// Whether the process `inner` of the node still runs (a zombie does not).
    pub(crate) fn runs(&self, inner: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/root/proc/{inner}/stat", self.pid)).unwrap_or_default();
        !matches!(after_name(&stat).and_then(|rest| rest.chars().next()), None | Some('Z' | 'X'))
    }

    /// The number that this machine knows the node's process `inner` by.
    pub(crate) fn outer(&self, inner: u32) -> Option<u32> {
        let space = std::fs::read_link(format!("/proc/{}/ns/pid", self.pid)).ok()?;
        processes().into_iter().find(|pid| {
            std::fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|link| link == space)
                && std::fs::read_to_string(format!("/proc/{pid}/status"))
                    .is_ok_and(|text| innermost(&text) == Some(inner))
        })
    }

    /// Ends the node and with it every process inside, and waits until the kernel has done so.
    ///
    /// # Errors
    /// It does not end.
    pub(crate) fn end(&self) -> Result<()> {
        if !self.alive() {
            return Ok(());
        }
        kill(self.pid)?;
        wait::until(Duration::from_secs(30), "the end of the node's processes", || Ok((!self.alive()).then_some(())))
    }
}

fn kill(pid: u32) -> Result<()> {
    let raw = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).context("a process id")?;
    match rustix::process::kill_process(raw, rustix::process::Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => bail!("cannot end process {pid}: {error}"),
    }
}

fn boot() -> Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    entries.iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn descendants(parent: u32) -> Vec<u32> {
    let mut found = vec![parent];
    let all: Vec<(u32, u32)> = processes().into_iter().filter_map(|pid| Some((pid, parent_of(pid)?))).collect();
    let mut next = 0;
    while let Some(current) = found.get(next).copied() {
        found.extend(all.iter().filter(|(_, parent)| *parent == current).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// Field `index` of `/proc/<pid>/stat`, counted from the state behind the name (0).
fn field(pid: u32, index: usize) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    after_name(&stat)?.split_whitespace().nth(index)?.parse().ok()
}

/// What follows the name, which may itself contain spaces and brackets.
fn after_name(stat: &str) -> Option<&str> {
    stat.rsplit_once(") ").map(|(_, rest)| rest)
}

fn parent_of(pid: u32) -> Option<u32> {
    field(pid, 1)?.try_into().ok()
}

/// Start time; nothing for a zombie, which holds no namespace any more.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    if after_name(&stat)?.starts_with(['Z', 'X']) {
        return None;
    }
    field(pid, 19)
}

fn name(pid: u32) -> Option<String> {
    Some(std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

/// The process id in the innermost namespace.
fn innermost(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_files() {
        assert_eq!(after_name("12 (a (b) c) S 1 2"), Some("S 1 2"));
        assert_eq!(innermost("Name:\tx\nNSpid:\t4711\t12\n"), Some(12));
        let me = std::process::id();
        assert!(start_time(me).is_some() && parent_of(me).is_some());
        assert!(descendants(parent_of(me).unwrap()).contains(&me));
    }
}
