//! Who owns leases, and whether another owner of this host is dead.
//!
//! A restarted container has the host name of its predecessor and often its pid as well, so an owner's id carries a start token:
//! pid and the moment its process started, as the kernel counts it. The same pid with another start is another process.

use std::fs;

use rustix::process::{Pid, test_kill_process};

use super::record::Record;

/// An instance of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseOwner {
    id: String,
    host: String,
    pid: u32,
}

impl LeaseOwner {
    /// This process. The id is the pod's UID (without one the host's name) and the start token.
    #[must_use]
    pub fn of_this_process(pod_uid: Option<&str>) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let pid = std::process::id();
        // Without /proc the token still differs between two starts of one pod.
        let start = start_of(pid).unwrap_or_else(|| super::now().to_bits());
        let place = pod_uid.filter(|uid| !uid.is_empty()).unwrap_or(&host);
        Self { id: format!("{place}/{pid}-{start}"), host, pid }
    }

    /// An owner by its parts, for other sources of identity and for tests.
    #[must_use]
    pub fn new(id: impl Into<String>, host: impl Into<String>, pid: u32) -> Self {
        Self { id: id.into(), host: host.into(), pid }
    }

    /// The instance id in the file.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The host's name in the file.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The pid in the file.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the owner of a found lease is known to be dead. In doubt it lives: a lease must not be stolen.
    pub(super) fn knows_dead(&self, found: &Record) -> bool {
        let (Some(host), Some(pid)) = (&found.owner_host, found.owner_pid) else { return false };
        if host.is_empty() || *host != self.host {
            return false;
        }
        if pid == self.pid {
            // Our own pid under another id: whoever had it before is gone.
            return true;
        }
        !is_alive(pid)
            || matches!((token_start(&found.owner_instance_id, pid), start_of(pid)), (Some(then), Some(now)) if then != now)
    }
}

/// The start in an id that this program wrote for `pid`.
fn token_start(id: &str, pid: u32) -> Option<u64> {
    let (token_pid, start) = id.rsplit_once('/')?.1.split_once('-')?;
    (token_pid.parse() == Ok(pid)).then(|| start.parse().ok()).flatten()
}

fn is_alive(pid: u32) -> bool {
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    let exists = test_kill_process(process) != Err(rustix::io::Errno::SRCH);
    // A zombie waits for its parent to take note of its end; it writes nothing any more.
    exists && !stat_fields(pid).is_some_and(|fields| matches!(fields.first().map(String::as_str), Some("Z" | "X")))
}

/// When a process started, in clock ticks since the machine did: field 22 of `/proc/{pid}/stat`.
fn start_of(pid: u32) -> Option<u64> {
    stat_fields(pid)?.get(19)?.parse().ok()
}

/// The fields of `/proc/{pid}/stat` from the state on, counted behind the name, which may hold spaces.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(ToOwned::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(owner: &LeaseOwner) -> Record {
        Record::of(owner, 1, 0.0)
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while is_alive(pid) {
            assert!(std::time::Instant::now() < until, "it ends but is not seen as dead");
            std::thread::yield_now();
        }
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists(), "nobody has reaped it yet");
        child.wait().unwrap();
    }

    #[test]
    fn the_dead_and_the_living_are_told_apart() {
        let me = LeaseOwner::of_this_process(Some("uid"));
        assert!(me.id().starts_with("uid/"), "{}", me.id());
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get().cast_unsigned();
        let parent_start = start_of(parent).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        let host = me.host();
        for (other, expected) in [
            (LeaseOwner::new("x", host, dead), true),
            (LeaseOwner::new("x", "elsewhere", dead), false),
            (LeaseOwner::new("x", "", dead), false),
            (LeaseOwner::new("x", host, parent), false),
            (LeaseOwner::new(format!("uid/{parent}-{parent_start}"), host, parent), false),
            (LeaseOwner::new(format!("uid/{parent}-{}", parent_start + 1), host, parent), true),
            (LeaseOwner::new("uid/1-1", host, me.pid()), true),
        ] {
            assert_eq!(me.knows_dead(&record(&other)), expected, "{other:?}");
        }
        let old = Record { owner_host: None, owner_pid: None, ..record(&me) };
        assert!(!me.knows_dead(&old));
    }
}
