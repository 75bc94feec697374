//! A child process that is the leader of its own session, so that it and everything it starts can be signalled at once. It
//! does not know what the process is for.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::fd::{BorrowedFd, RawFd},
    path::Path,
    process::{ExitStatus, Stdio},
    sync::Once,
};

use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, Signal},
};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

/// A running session leader. Dropping it kills its whole group.
#[derive(Debug)]
pub struct SessionProcess {
    child: Child,
    group: Option<Pid>,
}

/// What to start. Standard input is empty, standard output and error are pipes.
#[derive(Debug)]
pub struct SessionCommand<'a> {
    /// The program, looked up in the `PATH` of `environment`.
    pub program: &'a OsStr,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its working directory; this process's when `None`.
    pub directory: Option<&'a Path>,
    /// Its whole environment.
    pub environment: BTreeMap<OsString, OsString>,
}

impl SessionProcess {
    /// Starts the command in a session of its own: no terminal, no inherited descriptors, first to go when memory is short.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(command: SessionCommand<'_>) -> io::Result<Self> {
        seal_inherited_descriptors();
        let SessionCommand { program, arguments, directory, environment } = command;
        let mut builder = Command::new(program);
        builder
            .args(arguments)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(directory) = directory {
            builder.current_dir(directory);
        }
        lead_a_session(&mut builder);
        let child = builder.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { child, group })
    }

    /// The read ends of standard output and error, once.
    pub fn pipes(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        Some((self.child.stdout.take()?, self.child.stderr.take()?))
    }

    /// Sends a signal to every process of the group. A group that is gone is no error.
    pub fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // ESRCH: nobody is left. EPERM cannot be helped.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Waits for the leader. Its group may live on.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Lets the rest of the group live on after this value is dropped, once the leader has been waited for.
    pub fn release(mut self) {
        self.group = None;
    }
}

impl Drop for SessionProcess {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The exit code as shells and the protocol write it: minus the signal for a killed process.
#[must_use]
pub fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| -signal)).unwrap_or(-1)
}

/// Makes the child leave our session and volunteer for the out-of-memory killer before it becomes the program.
#[expect(unsafe_code, reason = "setsid has to run between fork and exec, and std offers nothing else for it")]
fn lead_a_session(builder: &mut Command) {
    let prepare = || {
        rustix::process::setsid()?;
        // Best effort: without it the server may be killed in the place of a greedy command.
        if let Ok(file) = rustix::fs::open(c"/proc/self/oom_score_adj", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        {
            let _ = rustix::io::write(&file, b"1000");
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes three system calls on constants; it neither allocates nor locks.
    unsafe {
        builder.pre_exec(prepare);
    }
}

/// Descriptors that this process was started with are no business of its commands. All that it opens itself is already
/// closed on exec, so once is enough.
pub(crate) fn seal_inherited_descriptors() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
        let descriptors: Vec<RawFd> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|descriptor| *descriptor > 2)
            .collect();
        for descriptor in descriptors {
            close_on_exec(descriptor);
        }
    });
}

#[expect(unsafe_code, reason = "descriptors that were inherited have no owner in this program")]
fn close_on_exec(descriptor: RawFd) {
    // SAFETY: the borrow ends with this call; a descriptor that was closed meanwhile only gives EBADF, and one that was
    // reused by this program is closed on exec anyway.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let _ = rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn shell(script: &str) -> (String, i32) {
        let mut process = start(script);
        let (mut stdout, _stderr) = process.pipes().unwrap();
        let mut text = String::new();
        stdout.read_to_string(&mut text).await.unwrap();
        let code = exit_code(process.wait().await.unwrap());
        (text, code)
    }

    fn start(script: &str) -> SessionProcess {
        SessionProcess::start(SessionCommand {
            program: OsStr::new("/bin/sh"),
            arguments: vec!["-c".into(), script.into()],
            directory: None,
            environment: crate::environment::ToolEnvironment::default().variables(),
        })
        .unwrap()
    }

    #[tokio::test]
    async fn a_process_leads_its_session_and_has_only_its_three_descriptors() {
        let (text, code) =
            shell("echo $$ $(cut -d' ' -f6 /proc/$$/stat); cat /proc/self/oom_score_adj; ls /proc/$$/fd").await;
        let lines: Vec<&str> = text.lines().collect();
        let (pid, session) = lines[0].split_once(' ').unwrap();
        assert_eq!((pid, lines[1], &lines[2..], code), (session, "1000", &["0", "1", "2"][..], 0));
    }

    #[tokio::test]
    async fn dropping_kills_the_children_too() {
        let mut process = start("sleep 300 & echo $!; wait");
        let (mut stdout, _stderr) = process.pipes().unwrap();
        let mut line = vec![0; 32];
        let read = stdout.read(&mut line).await.unwrap();
        let pid: i32 = std::str::from_utf8(&line[..read]).unwrap().trim().parse().unwrap();
        drop(process);
        let gone = async {
            while !ended(pid) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
    }

    /// Gone, or a zombie that nobody has reaped yet.
    fn ended(pid: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
    }

    #[tokio::test]
    async fn a_signal_is_a_negative_code() {
        assert_eq!(shell("kill -TERM $$").await.1, -15);
        assert_eq!(shell("exit 3").await.1, 3);
    }
}
