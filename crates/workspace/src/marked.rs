//! Ends what tools left behind: processes that went into sessions of their own and so outlive the terminal they came from. They
//! are told by a variable in the environment they were started with. Whoever starts a process without it, or with another
//! environment, is not found.

use std::fs;

use rustix::process::{Pid, Signal};

/// How often the list is read: a process may fork while that is done.
const ROUNDS: usize = 5;

/// Kills every process whose environment has `name` with `value`, and their children that inherited it. Blocking: reads the
/// environments of all processes of this user. Gives the number of processes that were sent a signal.
pub fn kill(name: &str, value: &str) -> usize {
    let wanted = format!("{name}={value}");
    let mut killed = 0;
    for _ in 0..ROUNDS {
        let found = marked(wanted.as_bytes());
        if found.is_empty() {
            break;
        }
        for process in found {
            killed += usize::from(rustix::process::kill_process(process, Signal::KILL).is_ok());
        }
    }
    killed
}

fn marked(wanted: &[u8]) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = rustix::process::getpid();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok().and_then(Pid::from_raw))
        .filter(|process| *process != own && has(*process, wanted))
        .collect()
}

/// Dead processes and those of others have no environment that can be read.
fn has(process: Pid, wanted: &[u8]) -> bool {
    fs::read(format!("/proc/{}/environ", process.as_raw_nonzero()))
        .is_ok_and(|all| all.split(|byte| *byte == 0).any(|variable| variable == wanted))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt as _, process::Command};

    use super::*;

    #[test]
    fn only_processes_with_the_mark_are_killed() {
        let name = format!("MARK_{}", std::process::id());
        let sleeping =
            |value: &str| Command::new("setsid").args(["sh", "-c", "sleep 300; :"]).env(&name, value).spawn().unwrap();
        let (mut marked, mut other) = (sleeping("a"), sleeping("ab"));
        // The shell has replaced `setsid` and started its child.
        let started = || super::marked(format!("{name}=a").as_bytes()).len() == 2;
        while !started() {
            std::thread::yield_now();
        }
        assert!(kill(&name, "a") >= 2);
        assert_eq!(marked.wait().unwrap().signal(), Some(9));
        assert_eq!(other.try_wait().unwrap(), None);
        kill(&name, "ab");
        other.wait().unwrap();
    }
}
