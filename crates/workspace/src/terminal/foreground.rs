//! A terminal from outside: who is in the foreground, whether it waits for input, ending everything, and setting the terminal
//! back to how it was.

use std::{fs, os::fd::AsFd};

use rustix::{
    process::{Pid, Signal},
    pty::OpenptFlags,
    termios::{OptionalActions, QueueSelector, Termios},
};

/// Gives the terminal its first modes again and forgets input that nobody has read: what a program left behind must not
/// reach the next one.
pub(super) fn refresh(terminal: impl AsFd, modes: Option<&Termios>) {
    if let Some(modes) = modes {
        let _ = rustix::termios::tcsetattr(&terminal, OptionalActions::Now, modes);
    }
    // Only the other end can throw away what was sent to it.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    if let Ok(other) = rustix::pty::ioctl_tiocgptpeer(&terminal, flags) {
        let _ = rustix::termios::tcflush(&other, QueueSelector::IFlush);
    }
}

/// The process group in the foreground.
pub(super) fn group(terminal: impl AsFd) -> Option<Pid> {
    rustix::termios::tcgetpgrp(terminal).ok()
}

/// Whether the leader of a group sleeps in a read of its standard input, as far as the system tells.
///
/// Looks at `/proc/PID/syscall`: a `read` of descriptor 0, or a `select` that looks at descriptor 0 only (line editors).
pub(super) fn waits_for_input(leader: Pid) -> bool {
    #[cfg(target_arch = "x86_64")]
    const READ_AND_SELECTS: (&str, &[&str]) = ("0", &["23", "270"]);
    #[cfg(target_arch = "aarch64")]
    const READ_AND_SELECTS: (&str, &[&str]) = ("63", &["72"]);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    const READ_AND_SELECTS: (&str, &[&str]) = ("", &[]);

    let Ok(line) = fs::read_to_string(format!("/proc/{}/syscall", leader.as_raw_nonzero())) else { return false };
    let mut words = line.split_whitespace();
    let (Some(call), Some(first)) = (words.next(), words.next()) else { return false };
    let reads =
        (call == READ_AND_SELECTS.0 && first == "0x0") || (READ_AND_SELECTS.1.contains(&call) && first == "0x1");
    // A pipe or a file as standard input is no question to anybody.
    reads
        && fs::read_link(format!("/proc/{}/fd/0", leader.as_raw_nonzero()))
            .is_ok_and(|input| input.starts_with("/dev/pts"))
}

/// Sends a signal to a process group. One that is gone is no error.
pub(super) fn signal_group(group: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(group, signal);
}

/// Kills every process of the session that `leader` leads, and `leader`.
pub(super) fn kill_session(leader: Pid) {
    // The shell first, so that it does not go on with its next command.
    let _ = rustix::process::kill_process(leader, Signal::KILL);
    // Twice: a process may fork while the list is read.
    for _ in 0..2 {
        for member in members(leader) {
            let _ = rustix::process::kill_process(member, Signal::KILL);
        }
    }
}

fn members(leader: Pid) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return vec![leader] };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok().and_then(Pid::from_raw))
        .filter(|pid| session(*pid) == Some(leader.as_raw_nonzero().get()))
        .collect()
}

/// The session of a process: the fourth word behind the name, which is in brackets and may hold anything.
fn session(pid: Pid) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(3)?.parse().ok()
}
