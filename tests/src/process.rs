//! A child process that cannot outlive the test: it ends when its handle is dropped, and also when the test is killed.
//!
//! A small shell stands between: it holds the child's process id and reads a pipe whose other end only the test has. End of
//! file means that the test is gone, in whatever way, and then the child is killed by its id.

use std::{
    ffi::OsStr,
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

const WATCH: &str = r#""$@" </dev/null >"$OPENHANDS_TEST_LOG" 2>&1 & child=$!
echo "$child"
while read -r _; do :; done
kill -9 "$child" 2>/dev/null
wait "$child" 2>/dev/null"#;

/// Removes a folder once this test program has ended, in whatever way: for what a static holds, which is never dropped.
///
/// # Errors
/// When the shell does not start.
pub fn remove_afterwards(folder: &Path) -> Result<()> {
    // Others may still write for a moment after the program's end.
    const REMOVE: &str = r#"while read -r _; do :; done
for _ in 1 2 3 4 5; do rm -rf -- "$1" 2>/dev/null && exit; sleep 1; done"#;
    let mut janitor = Command::new("sh")
        .args(["-c", REMOVE, "sh"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start sh")?;
    std::mem::forget(janitor.stdin.take());
    Ok(())
}

/// A running child and the file with what it prints.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    pid: Pid,
    pipe: Option<ChildStdin>,
    watcher: Child,
}

impl Process {
    /// Starts a program; its output goes to `{folder}/{name}.log`. Variables are added to the test's own.
    ///
    /// # Errors
    /// When the shell does not start.
    pub fn start<A: AsRef<OsStr>>(
        name: &str,
        folder: &Path,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let mut watcher = Command::new("sh")
            .args(["-c", WATCH, "sh"])
            .arg(program)
            .args(arguments)
            .envs(variables.iter().copied())
            .env("OPENHANDS_TEST_LOG", &log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("start {name}"))?;
        let pipe = watcher.stdin.take();
        let mut line = String::new();
        let output = watcher.stdout.take().context("output of the watching shell")?;
        BufReader::new(output).read_line(&mut line)?;
        let pid = line
            .trim()
            .parse()
            .ok()
            .and_then(Pid::from_raw)
            .with_context(|| format!("process id of {name}: {line:?}"))?;
        Ok(Self { name: name.to_owned(), log, pid, pipe, watcher })
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid, signal).with_context(|| format!("signal {signal:?} to {}", self.name))
    }

    /// Whether it still runs; a zombie does not.
    #[must_use]
    pub fn runs(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state.is_some_and(|state| state != 'Z' && state != 'X')
    }

    /// The end of what it printed, at most 6 KiB.
    #[must_use]
    pub fn said(&self) -> String {
        let read = || -> Result<String> {
            let mut file = File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(6 * 1024)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        format!("--- {}\n{}", self.name, read().unwrap_or_else(|error| format!("{error:#}")))
    }

    /// SIGKILL, and waits until it is gone. Called by drop as well.
    pub fn kill(&mut self) {
        drop(self.pipe.take());
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            if matches!(self.watcher.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_ends_with_its_handle_and_its_words_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let script = ["-c", "echo started; exec sleep 600"];
        let process = Process::start("child", folder.path(), Path::new("sh"), script, &[]).unwrap();
        let id = process.id();
        let start = Instant::now();
        while !process.said().contains("started") && start.elapsed() < Duration::from_secs(10) {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        assert!(process.runs(), "{}", process.said());
        assert_eq!(process.said(), "--- child\nstarted\n");
        drop(process);
        assert!(!Path::new(&format!("/proc/{id}")).exists(), "process {id} is still there");
    }

    #[test]
    fn a_child_that_ended_by_itself_does_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start("brief", folder.path(), Path::new("true"), [""; 0], &[]).unwrap();
        let start = Instant::now();
        while process.runs() && start.elapsed() < Duration::from_secs(10) {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        assert!(!process.runs());
    }
}
